"""May a principal do this, and which ACL decides? Answered by the rules of the authorizer, over the cluster's ACLs.

A client sees ACLs, and of the brokers' settings only those that DescribeConfigs lists. Brokers of Apache Kafka list
neither super users nor `allow.everyone.if.no.acl.found`: `Access.settings_known` is false then.
"""

from __future__ import annotations

from dataclasses import dataclass

from insync.client import topics
from insync.client.acls import list_acls
from insync.client.client import Client
from insync.security.acl import Acl, AclFilter, Operation, PatternType, ResourceType
from insync.security.authorizer import Authorizer, Decision

ALLOW_EVERYONE, SUPER_USERS = "allow.everyone.if.no.acl.found", "super.users"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    decision: Decision
    related: tuple[Acl, ...]
    """All ACLs that name the resource, for any principal."""
    settings_known: bool
    """Whether super users and `allow.everyone.if.no.acl.found` were taken into account."""


async def check_access(
    client: Client, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
) -> Access:
    wanted = AclFilter(resource_type=resource_type, resource_name=name, pattern_type=PatternType.MATCH)
    acls = await list_acls(client, wanted)
    broker = str(min(client.brokers))
    keys = [ALLOW_EVERYONE, SUPER_USERS]
    values = await client.retry(lambda: topics.describe_configs(client, broker, kind=topics.BROKER, keys=keys))
    super_users = (values[SUPER_USERS].value or "").split(";") if SUPER_USERS in values else []
    allows = ALLOW_EVERYONE in values and values[ALLOW_EVERYONE].value == "true"
    authorizer = Authorizer([user.strip() for user in super_users if user.strip()], allow_if_no_acl=allows)
    for acl in acls:
        authorizer.add(acl)
    return Access(
        decision=authorizer.authorize(principal, host, operation, resource_type, name),
        related=tuple(acls),
        settings_known=SUPER_USERS in values and ALLOW_EVERYONE in values,
    )
