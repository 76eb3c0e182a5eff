"""Access control entries as Kafka has them: who may do what with which resource, from where.

Codes are those of Kafka's requests and metadata records. A resource pattern is literal, prefixed, or the wildcard `*`,
which is a literal name that matches every name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class _Code(IntEnum):
    """A code that this version does not know reads as UNKNOWN, which matches nothing."""

    __hash__ = int.__hash__  # an enum's own is a Python function, which decisions on a produce would call

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class ResourceType(_Code):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that mean something for a resource, in the order of their codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType = PatternType.LITERAL
    principal: str
    host: str = WILDCARD
    operation: Operation
    permission: Permission = Permission.ALLOW

    def covers_name(self, name: str) -> bool:
        """Whether the pattern matches a resource of this name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)

    def __str__(self) -> str:
        pattern = f"{self.resource_type.name}:{self.pattern_type.name}:{self.resource_name}"
        return f"{self.permission.name} {self.principal} {self.operation.name} on {pattern} from {self.host}"


def find_error(acl: Acl) -> str | None:
    """Why this ACL cannot be created; None if it can."""
    if acl.resource_type not in SUPPORTED_OPERATIONS:
        return f"Resource type {acl.resource_type.name} cannot have ACLs."
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Pattern type {acl.pattern_type.name} is not LITERAL or PREFIXED."
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Operation {acl.operation.name} is not an operation."
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"Permission type {acl.permission.name} is not ALLOW or DENY."
    kind, separator, name = acl.principal.partition(":")
    if not separator or not kind or not name:
        return f"Principal '{acl.principal}' is not of the form Type:name, such as User:alice."
    if not acl.resource_name:
        return "Resource name is empty."
    if not acl.host:
        return "Host is empty; use * for every host."
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name not in (CLUSTER_NAME, WILDCARD):
        return f"The only resource of type CLUSTER is called {CLUSTER_NAME}."
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which ACLs to list or delete; None, ANY and the empty default match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type is PatternType.MATCH:
            return self.resource_name is None or acl.covers_name(self.resource_name)
        if self.pattern_type not in (PatternType.ANY, acl.pattern_type):
            return False
        return self.resource_name in (None, acl.resource_name)
