"""Access control entries as Kafka has them: who may do what with which resource, from where.

Codes are those of Kafka's requests and metadata records. A resource pattern is literal, prefixed, or the wildcard `*`,
which is a literal name that matches every name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Self

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

    @staticmethod
    def of(resource: Any, entry: Any, pattern_type: int) -> Acl:
        """From a record, a request or a response. Kafka's names of the fields are the same in all of them, but for the
        pattern type; some have the fields of the resource in a structure of its own."""
        return Acl(
            resource_type=ResourceType(resource.resource_type),
            resource_name=resource.resource_name,
            pattern_type=PatternType(pattern_type),
            principal=entry.principal,
            host=entry.host,
            operation=Operation(entry.operation),
            permission=Permission(entry.permission_type),
        )

    def kafka_fields(self) -> dict[str, Any]:
        """The fields by the names that records and responses have."""
        return {
            "resource_type": self.resource_type,
            "resource_name": self.resource_name,
            "pattern_type": self.pattern_type,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation,
            "permission_type": self.permission,
        }

    def creation_fields(self) -> dict[str, Any]:
        """The same for an entry of a CreateAcls request."""
        fields = self.kafka_fields()
        fields["resource_pattern_type"] = fields.pop("pattern_type")
        return fields

    def covers_name(self, name: str) -> bool:
        """Whether the pattern matches a resource of this name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)

    def __str__(self) -> str:
        pattern = f"{self.resource_type.name}:{self.pattern_type.name}:{self.resource_name}"
        return f"{self.permission.name} {self.principal} {self.operation.name} on {pattern} from {self.host}"


def find_creation_error(acl: Acl) -> str | None:
    """Why Kafka does not create this ACL; None if it does. Any operation may be named for any type of resource."""
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern_type.name}: it has to be LITERAL or PREFIXED"
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"Invalid permissionType {acl.permission.name}: it has to be ALLOW or DENY"
    if not acl.resource_name:
        return "Resource name should not be empty"
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if ":" not in acl.principal:
        return f"Could not parse the principal '{acl.principal}': it has to be type:name, such as User:alice"
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

    @staticmethod
    def exactly(acl: Acl) -> AclFilter:
        return AclFilter(**asdict(acl))

    @staticmethod
    def of(wanted: Any) -> AclFilter:
        """From a DescribeAcls request, or a filter of a DeleteAcls request: their fields are the same."""
        return AclFilter(
            resource_type=ResourceType(wanted.resource_type_filter),
            resource_name=wanted.resource_name_filter,
            pattern_type=PatternType(wanted.pattern_type_filter),
            principal=wanted.principal_filter,
            host=wanted.host_filter,
            operation=Operation(wanted.operation),
            permission=Permission(wanted.permission_type),
        )

    def kafka_fields(self) -> dict[str, Any]:
        """The fields by the names that requests have."""
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.resource_name,
            "pattern_type_filter": self.pattern_type,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission,
        }

    def matches(self, acl: Acl) -> bool:
        """Kept fast: a cluster may have ten thousand ACLs, and a filter is compared with all of them."""
        name, pattern_type = self.resource_name, self.pattern_type
        if name is not None:
            if pattern_type is PatternType.MATCH:
                if not acl.covers_name(name):
                    return False
            elif acl.resource_name != name:
                return False
        return (
            (pattern_type in _ANY_PATTERN or pattern_type is acl.pattern_type)
            and (self.resource_type is ResourceType.ANY or self.resource_type is acl.resource_type)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and (self.operation is Operation.ANY or self.operation is acl.operation)
            and (self.permission is Permission.ANY or self.permission is acl.permission)
        )


_ANY_PATTERN = (PatternType.ANY, PatternType.MATCH)


def find_filter_error(acl_filter: AclFilter) -> str | None:
    """Why ACLs cannot be listed or deleted by this filter; None if they can."""
    codes = (acl_filter.resource_type, acl_filter.pattern_type, acl_filter.operation, acl_filter.permission)
    unknown = [type(code).__name__ for code in codes if not code]
    return f"The filter has an unknown code for {' and '.join(unknown)}." if unknown else None


@lru_cache(maxsize=4_096)
def canonical_host(host: str) -> str:
    """One spelling for each address. An IPv6 address loses its zone, and the IPv4 address in it stands alone."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
