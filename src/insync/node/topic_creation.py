"""auto.create.topics.enable: asks the controller, once, to create a topic that a client asked for and is missing.

The client gets an unknown topic and asks again; by then the topic exists. The brokers' internal topics are created by
the code that needs them, with their own settings.

Notes: topic_auto_create(topic, error).
"""

from __future__ import annotations

from insync.metadata import topic_names
from insync.node.controller_apis import CREATE_TOPICS
from insync.node.forwarding import Forwarding
from insync.sansio import Client, Outbox
from insync.wire.messages import create_topics as api
from insync.wire.types import ms

MAX_WAITING = 1_000
_DEFAULT = -1


class TopicCreation:
    __slots__ = ("_enabled", "_forwarding", "_out", "_timeout", "_waiting")

    def __init__(self, enabled: bool, timeout_ms: int, forwarding: Forwarding, out: Outbox) -> None:
        self._enabled = enabled
        self._timeout = timeout_ms
        self._forwarding = forwarding
        self._out = out
        self._waiting: dict[str, None] = {}

    def create_missing(self, names: list[str], client: Client, now: int) -> None:
        """`names`: of topics that do not exist. The controller checks that `client` may create them (A1)."""
        fresh = [name for name in names if self._can_create(name)][: MAX_WAITING - len(self._waiting)]
        if not self._enabled or not fresh:
            return
        self._waiting.update(dict.fromkeys(fresh))
        request = api.CreateTopicsRequest(
            topics=tuple(
                api.CreatableTopic(
                    name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT, assignments=(), configs=()
                )
                for name in dict.fromkeys(fresh)
            ),
            timeout=ms(self._timeout),
            validate_only=False,
        )
        self._forwarding.ask(CREATE_TOPICS, request, self._on_answer, now, client)

    def _can_create(self, name: str) -> bool:
        return topic_names.is_valid(name) and name not in topic_names.INTERNAL_TOPICS and name not in self._waiting

    def _on_answer(self, answer: api.CreateTopicsResponse, now: int) -> None:
        for topic in answer.topics:
            self._waiting.pop(topic.name, None)
            self._out.note("topic_auto_create", topic=topic.name, error=topic.error_code.name)
