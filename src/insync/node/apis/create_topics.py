"""CreateTopics (19): decided by the controller."""

from dataclasses import replace

from insync.controller.controller import Controller
from insync.controller.decision import Slices
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics as api
from insync.wire.types import NO_DURATION

KEY = 19

PART_TOPICS = 50
PART_PARTITIONS = 500
"""A broker forwards a larger request in parts of this size: the controller decides and commits each by itself, and
serves others in between. A topic is never divided."""


def split(request: Message) -> list[Message]:
    """Topics that are named more than once stay together, so that the controller notices."""
    named: dict[str, list[Message]] = {}
    for topic in request.topics:
        named.setdefault(topic.name, []).append(topic)
    parts: list[list[Message]] = [[]]
    partitions = 0
    for topics in named.values():
        size = sum(max(topic.num_partitions, len(topic.assignments), 1) for topic in topics)
        if parts[-1] and (len(parts[-1]) + len(topics) > PART_TOPICS or partitions + size > PART_PARTITIONS):
            parts.append([])
            partitions = 0
        parts[-1] += topics
        partitions += size
    return [replace(request, topics=tuple(part)) for part in parts] if len(parts) > 1 else [request]


def merge(answers: list[Message]) -> Message:
    """One answer from those to all parts."""
    topics = tuple(topic for answer in answers for topic in answer.topics)
    return api.CreateTopicsResponse(throttle_time=NO_DURATION, topics=topics)


def share(answer: Message, last: Message | None) -> Message:
    """`answer` with the same tuples for equal configs: they are encoded once (see `wire.writing`). Most topics have the
    configs of the topic before them, perhaps in the part before, `last`."""
    configs = last.topics[-1].configs if last is not None and last.topics else None
    topics = []
    for topic in answer.topics:
        if topic.configs == configs:
            topics.append(replace(topic, configs=configs))
        else:
            topics.append(topic)
            configs = topic.configs
    return replace(answer, topics=tuple(topics))


def decide(controller: Controller, request: Message, now: int) -> Slices:
    return controller.create_topics(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.CreateTopicsResponse(
        throttle_time=NO_DURATION,
        topics=tuple(
            api.CreatableTopicResult(name=topic.name, topic_id=None, error_code=error, error_message=None, configs=None)
            for topic in request.topics
        ),
    )
