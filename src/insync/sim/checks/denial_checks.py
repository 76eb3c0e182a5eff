"""S15: compares what one node answers to clients with the ACLs that it had applied before the step, and with what had
been committed when its process started.

It looks at the ACLs themselves, not at the node's authorizer, which may be what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from insync.properties import denied_requests
from insync.sansio import UNKNOWN_CLIENT, Effect, Event, HangUp, Reply, Request
from insync.security.acl import Acl, Operation, Permission, ResourceType
from insync.sim.engine.principals import SUPER_USERS
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, produce
from insync.wire.types import METADATA_TOPIC_ID

Denial = tuple[str, Operation, str]
"""(principal, operation, topic)."""

NODE_APIS = frozenset(
    APIS[name].key
    for name in (
        "vote",
        "begin_quorum_epoch",
        "end_quorum_epoch",
        "fetch_snapshot",
        "envelope",
        "alter_partition",
        "broker_registration",
        "broker_heartbeat",
        "allocate_producer_ids",
        "assign_replicas_to_dirs",
        "get_replica_log_info",
    )
)
"""A4: what only nodes send, besides fetches of replicas and of the metadata log."""
_REFUSALS = (
    ErrorCode.cluster_authorization_failed,
    ErrorCode.topic_authorization_failed,
    ErrorCode.fetch_session_id_not_found,
)


class DenialChecks:
    """Of one process."""

    __slots__ = ("_acls", "_denials", "_node", "_principals", "committed_at_start", "was_impostor_refused")

    def __init__(self, node: Any, committed_at_start: int = 0) -> None:
        self._node = node
        self.committed_at_start = committed_at_start
        """A5: up to where each controller that ran had committed the metadata log when this process started. 0 once
        another controller has started since, which may know less."""
        self.was_impostor_refused = False
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
        if type(event) is Request and event.token in self._principals and not self._node.stopped:
            wrong += self._check_node_request(event, effects)
        for effect in effects:
            if isinstance(effect, Reply):
                principal = self._principals.pop(effect.token, None)
                if principal is None or effect.response is None:
                    continue
                if principal not in SUPER_USERS:
                    wrong += self._check_loaded(principal, effect.response)
                if type(effect.response) is fetch.FetchResponse:
                    wrong += self._check_fetched(principal, effect.response)
            elif isinstance(effect, HangUp):
                self._principals.pop(effect.token, None)
        return wrong, was_refused

    def follow_acls(self) -> list[str]:
        """After the step: what it has applied counts from the next one on. Returns what is wrong with the ACLs."""
        acls = self._node.image.acls
        if acls == self._acls:
            return []
        self._acls = dict(acls)
        self._denials = {
            (acl.principal, acl.operation, acl.resource_name): None
            for acl in acls.values()
            if acl.permission is Permission.DENY
        }
        return self._check_guarded()

    def _check_guarded(self) -> list[str]:
        """A8: the only ACLs of groups are those of the operator's `guard`: one denies what the others allow."""
        groups: dict[str, Counter[Permission]] = {}
        for acl in self._acls.values():
            if acl.resource_type is ResourceType.GROUP:
                groups.setdefault(acl.resource_name, Counter())[acl.permission] += 1
        problems = [
            denied_requests.check_guarded(
                node=self._node.id,
                resource=f"group {name}",
                allowing=permissions[Permission.ALLOW],
                denying=permissions[Permission.DENY],
            )
            for name, permissions in groups.items()
        ]
        return [problem for problem in problems if problem]

    def _check_node_request(self, event: Request, effects: list[Effect]) -> list[str]:
        """A4"""
        principal, request = event.client.principal, event.request
        if principal in SUPER_USERS or not self._is_for_nodes(request):
            return []
        is_refused = any(_refuses_node_request(effect, event.token) for effect in effects)
        self.was_impostor_refused = self.was_impostor_refused or is_refused
        problem = denied_requests.check_node_request(
            node=self._node.id, principal=principal, request=type(request).__name__, was_served=not is_refused
        )
        return [problem] if problem else []

    def _is_for_nodes(self, request: Any) -> bool:
        if type(request) is not fetch.FetchRequest:
            return request.__api_key__ in NODE_APIS
        if request.replica_state.replica_id >= 0 or [t.topic_id for t in request.topics] == [METADATA_TOPIC_ID]:
            return True
        sessions = () if self._node.replicas is None else self._node.replicas.sessions
        return any(session.id == request.session_id and session.replica_id >= 0 for session in sessions)

    def _check_loaded(self, principal: str, response: Any) -> list[str]:
        """A5"""
        problem = denied_requests.check_loaded(
            node=self._node.id,
            principal=principal,
            request=type(response).__name__.replace("Response", ""),
            applied=self._node.metadata_loader.applied,
            committed=self.committed_at_start,
        )
        return [problem] if problem else []

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


def _refuses_node_request(effect: Effect, token: int) -> bool:
    if isinstance(effect, HangUp):
        return effect.token == token
    if not isinstance(effect, Reply) or effect.token != token:
        return False
    return effect.response is None or any(error in _REFUSALS for error in _errors(effect.response))


def _errors(value: Any) -> Iterator[ErrorCode]:
    """Every error code in a response."""
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _errors(item)
    else:
        for name in getattr(value, "__dataclass_fields__", ()):
            yield from _errors(getattr(value, name))


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
