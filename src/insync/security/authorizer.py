"""Kafka's StandardAuthorizer: may this principal, from this host, do this to this resource?

The rules, in order: a super user may do everything; a matching DENY forbids, whatever else allows; a matching ALLOW
allows; else the resource is closed, unless `allow.everyone.if.no.acl.found` is set and no ACL names it.

ACLs are found by name, not by looking at all of them: literal ones in a table by name, prefixed ones in a table by
prefix, asked once per length that occurs. Decisions are remembered until an ACL changes.

Hosts are compared as addresses: Kafka writes ::1 as 0:0:0:0:0:0:0:1, and either form in an ACL means the same host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from insync.security.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    canonical_host,
)

IMPLIED_BY: dict[Operation, tuple[Operation, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""An ALLOW of one of these allows the operation too. A DENY denies nothing but itself."""
MAX_REMEMBERED = 50_000
"""Decisions; then the table starts empty again. A client that lists all topics needs one for each."""
MAX_REMEMBERED_NAME = 1_024
"""Characters. A client may ask for names as long as a request; decisions on longer ones than this are not kept."""
UNRELATED_NAME = "hardcode"
"""With this name Kafka asks whether everything is allowed that no ACL names."""

_Names = dict[tuple[ResourceType, str], dict[Acl, int]]
"""How often each ACL was added: two ids may stand for equal ACLs."""


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    rule: Acl | None = None
    """The ACL that decided; None for a super user, or when no ACL matched."""
    reason: str = ""

    def __bool__(self) -> bool:
        return self.allowed


SUPER_USER = Decision(True, None, "super user")
NO_MATCH = Decision(False, None, "no ACL allows it")
NO_ACL = Decision(True, None, "no ACL names the resource, and allow.everyone.if.no.acl.found is set")


class Authorizer:
    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._literal: _Names = {}
        self._prefixed: _Names = {}
        self._prefix_lengths: dict[tuple[ResourceType, int], int] = {}  # how many prefixes have this length
        self._decisions: dict[tuple[str, str, Operation, ResourceType, str], Decision] = {}
        self._decisions_by_type: dict[tuple[str, str, Operation, ResourceType], Decision] = {}
        self.version = 0
        """Changes whenever an ACL does."""

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    # --- the ACLs ----------------------------------------------------------------------------------------------------

    def add(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.resource_name)
        names = self._names(acl)
        if key not in names:
            names[key] = {}
            self._count_prefix(acl, 1)
        names[key][acl] = names[key].get(acl, 0) + 1
        self._forget_decisions()

    def remove(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.resource_name)
        names = self._names(acl)
        acls = names.get(key)
        if acls is None or acl not in acls:
            return
        acls[acl] -= 1
        if not acls[acl]:
            del acls[acl]
        if not acls:
            del names[key]
            self._count_prefix(acl, -1)
        self._forget_decisions()

    def clear(self) -> None:
        self._literal.clear()
        self._prefixed.clear()
        self._prefix_lengths.clear()
        self._forget_decisions()

    def _forget_decisions(self) -> None:
        self.version += 1
        self._decisions.clear()
        self._decisions_by_type.clear()

    def __iter__(self) -> Iterator[Acl]:
        return chain.from_iterable(chain(self._literal.values(), self._prefixed.values()))

    def __len__(self) -> int:
        return sum(len(acls) for acls in chain(self._literal.values(), self._prefixed.values()))

    def _names(self, acl: Acl) -> _Names:
        return self._prefixed if acl.pattern_type is PatternType.PREFIXED else self._literal

    def _count_prefix(self, acl: Acl, change: int) -> None:
        if acl.pattern_type is PatternType.PREFIXED:
            key = (acl.resource_type, len(acl.resource_name))
            count = self._prefix_lengths.get(key, 0) + change
            if count:
                self._prefix_lengths[key] = count
            else:
                del self._prefix_lengths[key]

    # --- decisions ---------------------------------------------------------------------------------------------------

    def authorize(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(principal, host, operation, resource_type, name)
            if len(name) <= MAX_REMEMBERED_NAME:
                if len(self._decisions) >= MAX_REMEMBERED:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def authorize_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> Decision:
        """Whether there is at least one name of this type for which it is allowed, be it one that no resource has yet.

        An ALLOW counts unless a DENY covers every name that it covers. As in Kafka, an ALLOW of one operation does not
        imply another here.
        """
        key = (principal, host, operation, resource_type)
        decision = self._decisions_by_type.get(key)
        if decision is None:
            if len(self._decisions_by_type) >= MAX_REMEMBERED:
                self._decisions_by_type.clear()
            decision = self._decisions_by_type[key] = self._decide_any(principal, host, operation, resource_type)
        return decision

    def _decide_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> Decision:
        unrelated = self._decide(principal, host, operation, resource_type, UNRELATED_NAME)
        if unrelated.allowed:
            return unrelated
        matching = [acl for acl in self if acl.resource_type is resource_type and applies_to(acl, principal, host)]
        denials = [acl for acl in matching if is_denial(acl, operation)]
        for acl in denials:
            if acl.pattern_type is PatternType.LITERAL and acl.resource_name == WILDCARD:
                return Decision(False, acl)
        for acl in matching:
            is_allow = acl.permission is Permission.ALLOW and acl.operation in (Operation.ALL, operation)
            if is_allow and not any(_covers_pattern(denial, acl) for denial in denials):
                return Decision(True, acl)
        return NO_MATCH

    def _decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        if principal in self._super_users:
            return SUPER_USER
        permission: Acl | None = None
        has_acls = False
        for acl in self._matching_names(resource_type, name):
            has_acls = True
            if not applies_to(acl, principal, host):
                continue
            if is_denial(acl, operation):
                return Decision(False, acl)
            if permission is None and is_permission(acl, operation):
                permission = acl
        if permission is not None:
            return Decision(True, permission)
        return NO_MATCH if has_acls or not self._allow_if_no_acl else NO_ACL

    def _matching_names(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for prefixed_type, length in self._prefix_lengths:
            if prefixed_type is resource_type and length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())


def is_denial(acl: Acl, operation: Operation) -> bool:
    return acl.permission is Permission.DENY and acl.operation in (Operation.ALL, operation)


def is_permission(acl: Acl, operation: Operation) -> bool:
    if acl.permission is not Permission.ALLOW:
        return False
    return acl.operation in (Operation.ALL, operation) or acl.operation in IMPLIED_BY.get(operation, ())


def applies_to(acl: Acl, principal: str, host: str) -> bool:
    if acl.principal not in (principal, WILDCARD_PRINCIPAL):
        return False
    return acl.host in (host, WILDCARD) or canonical_host(acl.host) == canonical_host(host)


def _covers_pattern(denial: Acl, acl: Acl) -> bool:
    """Whether every name that `acl` matches is matched by `denial`. A wildcard denial is handled before."""
    if denial.pattern_type is PatternType.PREFIXED:
        if acl.pattern_type is PatternType.LITERAL and acl.resource_name == WILDCARD:
            return False
        return acl.resource_name.startswith(denial.resource_name)
    return acl.pattern_type is PatternType.LITERAL and acl.resource_name == denial.resource_name
