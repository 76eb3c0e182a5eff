"""An ACL, and filters of ACLs as requests have them; codes are those of insync.security.acl."""

from __future__ import annotations

from typing import Any

from insync.security.acl import Acl, Operation, PatternType, Permission, ResourceType

EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
"""The fields of DescribeAclsRequest, and of DeleteAclsFilter, that match everything."""

DENIED_READ = Acl(
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    pattern_type=PatternType.PREFIXED,
    principal="User:alice",
    host="10.0.0.1",
    operation=Operation.READ,
    permission=Permission.DENY,
)
"""No field has its default."""
