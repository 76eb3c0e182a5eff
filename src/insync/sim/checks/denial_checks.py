"""S15: compares what one node answers to clients with the ACLs that it had applied before the step.

It looks at the ACLs themselves, not at the node's authorizer, which may be what is wrong.
"""

from __future__ import annotations

from typing import Any

from insync.properties import denied_requests
from insync.sansio import UNKNOWN_CLIENT, Effect, Event, HangUp, Reply, Request
from insync.security.acl import Acl, Operation, Permission
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, produce

Denial = tuple[str, Operation, str]
"""(principal, operation, topic)."""


class DenialChecks:
    """Of one process."""

    __slots__ = ("_acls", "_denials", "_node", "_principals")

    def __init__(self, node: Any) -> None:
        self._node = node
        self._acls: dict[Any, Acl] = {}
        self._denials: dict[Denial, None] = {}
        self._principals: dict[int, str] = {}
        """By token: of the requests that are not answered."""

    def after_step(self, event: Event, effects: list[Effect]) -> tuple[list[str], bool]:
        """(what is wrong, whether a request was refused because of a denial)."""
        if type(event) is Request and event.client is not UNKNOWN_CLIENT:
            self._principals[event.token] = event.client.principal
        if not self._principals:
            return [], False
        wrong: list[str] = []
        was_refused = False
        if type(event) is Request and type(event.request) is produce.ProduceRequest and not self._node.stopped:
            problems, was_refused = self._check_produce(event, effects)
            wrong += problems
        for effect in effects:
            if isinstance(effect, Reply):
                principal = self._principals.pop(effect.token, None)
                if principal is not None and type(effect.response) is fetch.FetchResponse:
                    wrong += self._check_fetched(principal, effect.response)
            elif isinstance(effect, HangUp):
                self._principals.pop(effect.token, None)
        return wrong, was_refused

    def follow_acls(self) -> None:
        """After the step: what it has applied counts from the next one on."""
        acls = self._node.image.acls
        if acls != self._acls:
            self._acls = dict(acls)
            self._denials = {
                (acl.principal, acl.operation, acl.resource_name): None
                for acl in acls.values()
                if acl.permission is Permission.DENY
            }

    def _check_produce(self, event: Request, effects: list[Effect]) -> tuple[list[str], bool]:
        topics = [self._node.image.topics.get(topic.topic_id) for topic in event.request.topic_data]
        principal = event.client.principal
        denied = [name for name in topics if name and (principal, Operation.WRITE, name) in self._denials]
        if not denied:
            return [], False
        problem = denied_requests.check(
            node=self._node.id,
            principal=principal,
            operation="WRITE",
            topic=denied[0],
            was_served=not any(_refuses(effect, event.token) for effect in effects),
        )
        return ([problem], False) if problem else ([], True)

    def _check_fetched(self, principal: str, response: fetch.FetchResponse) -> list[str]:
        problems = []
        for topic in response.responses:
            name = self._node.image.topics.get(topic.topic_id)
            if name and (principal, Operation.READ, name) in self._denials:
                problem = denied_requests.check(
                    node=self._node.id,
                    principal=principal,
                    operation="READ",
                    topic=name,
                    was_served=any(partition.records for partition in topic.partitions),
                )
                problems += [problem] if problem else []
        return problems


def _refuses(effect: Effect, token: int) -> bool:
    """With acks=0 a refusal is the end of the connection. A simulated produce has one partition."""
    if isinstance(effect, HangUp):
        return effect.token == token
    return (
        isinstance(effect, Reply)
        and effect.token == token
        and effect.response is not None
        and all(
            partition.error_code is ErrorCode.topic_authorization_failed
            for topic in effect.response.responses
            for partition in topic.partition_responses
        )
    )
