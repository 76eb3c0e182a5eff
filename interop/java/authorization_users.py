"""Users with different rights: their names tell what they may do. `topic.read` may READ the topics in `OPEN`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from insync.security.acl import SUPPORTED_OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
ALL, DENY, PREFIXED = Operation.ALL, Permission.DENY, PatternType.PREFIXED
THE_CLUSTER = "kafka-cluster"

OPEN = ("open", "open-absent", "open-spare")
"""Topics and groups, the latter without the spare one; rights of users are for these."""
EXISTING = ("open", "open-spare", "closed", "public")
EXISTING_GROUPS = ("open", "closed", "public")
HERE, ELSEWHERE = "127.0.0.1", "10.9.8.7"
"""Hosts: the one that all requests come from, and another."""


def allow(kind: ResourceType, operation: Operation, *names: str, **more: Any) -> tuple[Acl, ...]:
    """Without a principal, which is added by the user's name."""
    if not names:
        names = (THE_CLUSTER,) if kind is CLUSTER else OPEN
    return tuple(
        Acl(resource_type=kind, resource_name=name, operation=operation, **{"principal": "", **more}) for name in names
    )


def everything(*names: str, **more: Any) -> tuple[Acl, ...]:
    """All operations on topics, groups, transactional ids of these names, and on the cluster."""
    kinds = (TOPIC, GROUP, TRANSACTIONAL_ID)
    cluster = {key: value for key, value in more.items() if key != "pattern_type"}
    return (*(acl for kind in kinds for acl in allow(kind, ALL, *names, **more)), *allow(CLUSTER, ALL, **cluster))


def _single_rights() -> dict[str, tuple[Acl, ...]]:
    return {
        f"{kind.name.lower()}.{operation.name.lower()}": allow(kind, operation)
        for kind in (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID)
        for operation in (*SUPPORTED_OPERATIONS[kind], ALL)
    }


def _pairs(*pairs: tuple[str, str]) -> dict[str, tuple[Acl, ...]]:
    single = _single_rights()
    return {"-and-".join(pair): tuple(acl for name in pair for acl in single[name]) for pair in pairs}


_WRITE = Operation.WRITE
USERS: dict[str, tuple[Acl, ...]] = {
    "nobody": (),
    **_single_rights(),
    **_pairs(
        ("group.read", "topic.read"),
        ("group.read", "topic.describe"),
        ("group.read", "topic.write"),
        ("group.describe", "topic.describe"),
        ("group.delete", "topic.read"),
        ("group.delete", "topic.describe"),
        ("transactional_id.write", "topic.write"),
        ("transactional_id.write", "group.read"),
        ("transactional_id.write", "cluster.idempotent_write"),
        ("transactional_id.describe", "topic.write"),
        ("topic.create", "topic.describe"),
        ("topic.create", "topic.describe_configs"),
        ("cluster.create", "topic.describe"),
        ("cluster.create", "topic.describe_configs"),
        ("topic.delete", "topic.describe"),
        ("topic.alter", "topic.describe"),
        ("topic.read", "cluster.cluster_action"),
        ("topic.alter_configs", "cluster.alter_configs"),
    ),
    "prefixed": everything("ope", pattern_type=PREFIXED),
    "wildcard": everything("*"),
    "wildcard.topic.describe": allow(TOPIC, Operation.DESCRIBE, "*"),
    "wildcard.group.describe": allow(GROUP, Operation.DESCRIBE, "*"),
    "deny.topic.read": (*everything("*"), *allow(TOPIC, Operation.READ, permission=DENY)),
    "deny.topic.write": (*everything("*"), *allow(TOPIC, _WRITE, permission=DENY)),
    "deny.topic.describe": (*everything("*"), *allow(TOPIC, Operation.DESCRIBE, permission=DENY)),
    "deny.topic.create": (*everything("*"), *allow(TOPIC, Operation.CREATE, permission=DENY)),
    "deny.group.read": (*everything("*"), *allow(GROUP, Operation.READ, permission=DENY)),
    "deny.group.describe": (*everything("*"), *allow(GROUP, Operation.DESCRIBE, permission=DENY)),
    "deny.cluster.describe": (*everything("*"), *allow(CLUSTER, Operation.DESCRIBE, permission=DENY)),
    "deny.cluster.cluster_action": (*everything("*"), *allow(CLUSTER, Operation.CLUSTER_ACTION, permission=DENY)),
    "deny.all": (*everything("*"), *everything(*OPEN, permission=DENY)),
    "deny.prefixed": (*everything(*OPEN), *everything("ope", pattern_type=PREFIXED, permission=DENY)),
    "deny.wildcard": (*everything(*OPEN), *everything("*", permission=DENY)),
    "deny.read.allow.describe": (
        *allow(TOPIC, Operation.DESCRIBE),
        *allow(TOPIC, Operation.READ),
        *allow(TOPIC, Operation.READ, permission=DENY),
    ),
    "deny.describe.allow.read": (
        *allow(TOPIC, Operation.READ),
        *allow(GROUP, Operation.READ),
        *allow(TOPIC, Operation.DESCRIBE, permission=DENY),
        *allow(GROUP, Operation.DESCRIBE, permission=DENY),
    ),
    "host.here": everything(*OPEN, host=HERE),
    "host.elsewhere": everything(*OPEN, host=ELSEWHERE),
    "host.deny.here": (*everything(*OPEN), *everything(*OPEN, host=HERE, permission=DENY)),
    "host.deny.elsewhere": (*everything(*OPEN), *everything(*OPEN, host=ELSEWHERE, permission=DENY)),
    "write.prefixed": allow(TOPIC, _WRITE, "some", pattern_type=PREFIXED),
    "write.wildcard": allow(TOPIC, _WRITE, "*"),
    "write.all": allow(TOPIC, ALL, "some"),
    "write.elsewhere": allow(TOPIC, _WRITE, "some", host=ELSEWHERE),
    "write.but.prefix.denied": (
        *allow(TOPIC, _WRITE, "some"),
        *allow(TOPIC, _WRITE, "so", pattern_type=PREFIXED, permission=DENY),
    ),
    "write.but.longer.prefix.denied": (
        *allow(TOPIC, _WRITE, "so", pattern_type=PREFIXED),
        *allow(TOPIC, _WRITE, "some", pattern_type=PREFIXED, permission=DENY),
    ),
    "write.but.same.denied": (*allow(TOPIC, _WRITE, "some"), *allow(TOPIC, _WRITE, "some", permission=DENY)),
    "write.but.one.denied": (*allow(TOPIC, _WRITE, "*"), *allow(TOPIC, _WRITE, "some", permission=DENY)),
    "write.but.all.denied": (*allow(TOPIC, _WRITE, "some"), *allow(TOPIC, ALL, "*", permission=DENY)),
    "write.but.denied.elsewhere": (
        *allow(TOPIC, _WRITE, "some"),
        *allow(TOPIC, _WRITE, "*", host=ELSEWHERE, permission=DENY),
    ),
}  # fmt: skip
"""By name: the ACLs. Those that write to `some` topic show when an idempotent producer gets an id (KIP-679)."""

EVERYONE = (
    *allow(TOPIC, Operation.READ, "public", principal="User:*"),
    *allow(GROUP, Operation.READ, "public", principal="User:*"),
)
GHOST = "User:ghost"
"""The principal of the ACLs that probes create and delete."""


def acls(users: Iterable[str]) -> list[Acl]:
    """Those of these users, and of everyone."""
    owned = [replace(acl, principal=f"User:{user}") for user in users for acl in USERS[user]]
    return [*owned, *EVERYONE]
