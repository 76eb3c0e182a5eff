"""What the client of a request may do on this node (A2, A4, A5, A7).

With an authorizer the ACLs of the metadata log decide. Without one, every client may do everything except pose as a
node: requests that only nodes send have to arrive on a listener that nodes use. Requests without a connection are the
node's own, and are not checked.

Notes: authorization_denied(principal, host, operation, resource, rule, suppressed), authorization_allowed(...).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from uuid import UUID

from insync.metadata.changes import Changes
from insync.metadata.image import Image
from insync.node.config import AuthorizerConfig
from insync.sansio import UNKNOWN_CLIENT, Client, Outbox
from insync.security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Acl, Operation, ResourceType
from insync.security.authorizer import Authorizer, Decision

DENIAL_INTERVAL_MS = 60_000
"""A7: the same denial is noted once in this time."""
MAX_DENIALS_PER_SECOND = 50
MAX_DENIALS = 10_000
"""Denials that are remembered; then the oldest are forgotten."""
NOT_FOR_NODES = Decision(False, None, "the listener is not for nodes")
MAX_DENIED_NAME = 1_024
"""Characters that distinguish denials: as many as a log line shows. A name may be as long as a request."""


class AccessControl:
    """`is_caught_up` says whether this node has applied all metadata that is known to be committed."""

    __slots__ = (
        "_denials",
        "_image",
        "_is_caught_up",
        "_is_loaded",
        "_out",
        "authorizer",
        "denied",
        "notes_allowed",
    )

    def __init__(self, config: AuthorizerConfig | None, out: Outbox, is_caught_up: Callable[[], bool]) -> None:
        self.authorizer: Authorizer | None = None
        if config is not None:
            self.authorizer = Authorizer(config.super_users, allow_if_no_acl=config.allow_if_no_acl)
        self.notes_allowed = False
        """Whether allowed operations are noted too."""
        self.denied: Counter[tuple[Operation, ResourceType]] = Counter()
        """Refusals since the start, those that are not noted included."""
        self._out = out
        self._is_caught_up = is_caught_up
        self._is_loaded = False
        self._image: Image | None = None
        self._denials = _Denials()

    # --- the ACLs ----------------------------------------------------------------------------------------------------

    def apply(self, image: Image, changes: Changes) -> None:
        """A6: follow the ACLs of the metadata log. A snapshot that was loaded does not say what it no longer has."""
        authorizer = self.authorizer
        if authorizer is None:
            return
        if image is not self._image:
            self._image = image
            authorizer.clear()
            for acl in image.acls.values():
                authorizer.add(acl)
        else:
            for acl_id, before in changes.acls.items():
                self._replace(authorizer, before, image.acls.get(acl_id))

    @staticmethod
    def _replace(authorizer: Authorizer, before: Acl | None, after: Acl | None) -> None:
        if before is not None:
            authorizer.remove(before)
        if after is not None:
            authorizer.add(after)

    def can_decide(self, principal: str) -> bool:
        """A5: ACLs that this node has not read yet may forbid what those that it has read allow."""
        if self.authorizer is None or self.authorizer.is_super_user(principal):
            return True
        if not self._is_loaded:
            self._is_loaded = self._is_caught_up()
        return self._is_loaded

    # --- clients -----------------------------------------------------------------------------------------------------

    def has_to_check(self, client: Client) -> bool:
        if client is UNKNOWN_CLIENT:
            return False
        return self.authorizer is not None or not client.on_node_listener

    def access_of(self, client: Client, now: int) -> Access | None:
        """None: the client may do everything."""
        return Access(self, client, now) if self.has_to_check(client) else None

    def read_rights(self, client: Client, now: int) -> Access | None:
        """For fetches of consumers; None: the client may read everything."""
        return None if self.authorizer is None else self.access_of(client, now)

    def topic_name(self, topic_id: UUID) -> str | None:
        return None if self._image is None else self._image.topics.get(topic_id)

    def may_act_as_node(self, client: Client) -> bool:
        """A4: whether this client may send what only nodes send. Neither a client id nor a replica id shows that."""
        access = self.access_of(client, 0)
        if access is None:
            return True
        return self.can_decide(client.principal) and access.may_on_cluster(Operation.CLUSTER_ACTION, audited=False)

    def note(
        self, access: Access, operation: Operation, resource_type: ResourceType, name: str, decision: Decision
    ) -> None:
        """A7."""
        resource = f"{resource_type.name}:{name}"
        suppressed = 0
        if not decision.allowed:
            self.denied[operation, resource_type] += 1
            due = self._denials.take_due((access.client.principal, operation, resource[:MAX_DENIED_NAME]), access.now)
            if due is None:
                return
            suppressed = due
        self._out.note(
            "authorization_allowed" if decision.allowed else "authorization_denied",
            principal=access.client.principal,
            host=access.host,
            operation=operation.name,
            resource=resource,
            rule=decision.reason or str(decision.rule),
            suppressed=suppressed,
        )


class Access:
    """The rights of one request's client."""

    __slots__ = ("_authorizer", "_control", "client", "host", "now")

    def __init__(self, control: AccessControl, client: Client, now: int) -> None:
        self._control = control
        self._authorizer = control.authorizer
        self.client = client
        self.host = client.host.lstrip("/")
        self.now = now

    @property
    def principal(self) -> str:
        return self.client.principal

    @property
    def has_authorizer(self) -> bool:
        return self._authorizer is not None

    def change_token(self) -> tuple[object, ...]:
        """A6: changes whenever this client, or another in its place, may have other rights."""
        version = 0 if self._authorizer is None else self._authorizer.version
        return (self.client.principal, self.host, version)

    def may(self, operation: Operation, resource_type: ResourceType, name: str, *, audited: bool = True) -> bool:
        """`audited`: the client named the resource; False if all resources are gone through for those that it may
        see."""
        authorizer = self._authorizer
        if authorizer is None:
            is_allowed = operation is not Operation.CLUSTER_ACTION or self.client.on_node_listener  # A4
            if audited and not is_allowed:
                self._control.note(self, operation, resource_type, name, NOT_FOR_NODES)
            return is_allowed
        decision = authorizer.authorize(self.client.principal, self.host, operation, resource_type, name)
        if audited and (not decision.allowed or self._control.notes_allowed):
            self._control.note(self, operation, resource_type, name, decision)
        return decision.allowed

    def may_on_cluster(self, operation: Operation, *, audited: bool = True) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, audited=audited)

    def may_on_topic(self, operation: Operation, name: str, *, audited: bool = True) -> bool:
        return self.may(operation, ResourceType.TOPIC, name, audited=audited)

    def may_read(self, topic_id: UUID) -> bool:
        """Whether it may consume the topic. A topic that does not exist has nothing to read."""
        name = self._control.topic_name(topic_id)
        return name is None or self.may_on_topic(Operation.READ, name)

    def may_on_group(self, operation: Operation, name: str, *, audited: bool = True) -> bool:
        return self.may(operation, ResourceType.GROUP, name, audited=audited)

    def may_on_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is a resource of this type on which the operation is allowed."""
        authorizer = self._authorizer
        if authorizer is None:
            return True
        return authorizer.authorize_any(self.client.principal, self.host, operation, resource_type).allowed

    def allowed_operations(self, resource_type: ResourceType, name: str) -> int:
        """As a bit field, as responses have it."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.may(operation, resource_type, name, audited=False)
        )


class _Denials:
    """A7: when a denial was last noted. A client may ask for many names, so there is a limit for all together too."""

    __slots__ = ("_noted", "_second", "_second_count", "_suppressed")

    def __init__(self) -> None:
        self._noted: dict[tuple[str, Operation, str], int] = {}
        self._second = -1
        self._second_count = 0
        self._suppressed = 0

    def take_due(self, key: tuple[str, Operation, str], now: int) -> int | None:
        """How many denials were not noted before this one; None if this one is not to be noted either."""
        last = self._noted.get(key)
        if now // 1_000 != self._second:
            self._second, self._second_count = now // 1_000, 0
        if (last is not None and now - last < DENIAL_INTERVAL_MS) or self._second_count >= MAX_DENIALS_PER_SECOND:
            self._suppressed += 1
            return None
        self._second_count += 1
        self._noted.pop(key, None)
        if len(self._noted) >= MAX_DENIALS:
            del self._noted[next(iter(self._noted))]
        self._noted[key] = now
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
