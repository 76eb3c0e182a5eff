"""May a principal do this, and which ACL decides? Answered by the rules of the authorizer, over the cluster's ACLs.

A client sees ACLs, and of the brokers' settings only those that DescribeConfigs lists. Brokers of Apache Kafka list
neither super users nor `allow.everyone.if.no.acl.found`: `Access.settings_known` is false then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from insync.client import topics
from insync.client.acls import list_acls
from insync.client.client import Client
from insync.client.errors import ErrorCode, RefusedError
from insync.client.model import Config
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
    values = await _describe_broker(client, [ALLOW_EVERYONE, SUPER_USERS])
    allows = ALLOW_EVERYONE in values and values[ALLOW_EVERYONE].value == "true"
    authorizer = Authorizer(_parse_super_users(values), allow_if_no_acl=allows)
    for acl in acls:
        authorizer.add(acl)
    return Access(
        decision=authorizer.authorize(principal, host, operation, resource_type, name),
        related=tuple(acls),
        settings_known=SUPER_USERS in values and ALLOW_EVERYONE in values,
    )


async def list_super_users(client: Client) -> list[str]:
    """As far as the brokers show them, and the client may see them."""
    try:
        return _parse_super_users(await _describe_broker(client, [SUPER_USERS]))
    except RefusedError as error:
        if error.code is ErrorCode.cluster_authorization_failed:
            return []
        raise


async def _describe_broker(client: Client, keys: list[str]) -> dict[str, Config]:
    broker = str(min(client.brokers))
    return await client.retry(lambda: topics.describe_configs(client, broker, kind=topics.BROKER, keys=keys))


def _parse_super_users(values: Mapping[str, Config]) -> list[str]:
    text = (values[SUPER_USERS].value or "") if SUPER_USERS in values else ""
    return [user.strip() for user in text.split(";") if user.strip()]
