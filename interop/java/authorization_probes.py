"""Users with different rights, and the requests that are sent as each of them to Apache Kafka and to insync.

Names tell what a user may do: `topic.read` may READ the topics in `OPEN`. The topics in `EXISTING` exist, with one
partition and one record each; the others do not. No probe changes a resource that another probe depends on, except
those marked `changes_topics`: the caller restores the topics after each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from insync.security.acl import SUPPORTED_OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType
from insync.wire import batch
from insync.wire.types import METADATA_TOPIC, ms
from tests.acl_filters import EVERY_ACL

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
MIXED = ("open", "closed", "open-absent", "closed-absent")
"""Allowed and not, existing and not: in one request."""
SEPARATE = ("open", "closed", "open-absent", "closed-absent", "public")
TIMEOUT = ms(10_000)
HERE, ELSEWHERE = "127.0.0.1", "10.9.8.7"
"""Hosts: the one that all requests come from, and another."""


# --- users -----------------------------------------------------------------------------------------------------------


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


def creations(entries: Iterable[Acl]) -> dict[str, Any]:
    """The body of a CreateAcls request."""
    return {
        "creations": [
            {
                "resource_type": int(acl.resource_type),
                "resource_name": acl.resource_name,
                "resource_pattern_type": int(acl.pattern_type),
                "principal": acl.principal,
                "host": acl.host,
                "operation": int(acl.operation),
                "permission_type": int(acl.permission),
            }
            for acl in entries
        ]
    }


# --- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicId:
    """In a body: the id that the topic of this name has when the request is sent."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    name: str
    key: int
    body: dict[str, Any]
    versions: tuple[int, ...] = ()
    """By default the lowest and the highest that both serve."""
    newest_only: bool = False
    changes_topics: bool = False
    to_controller: bool = False
    """To the controllers' listener."""
    between_nodes: bool = False
    is_answered: bool = True
    users: tuple[str, ...] = ()
    """By default all."""


UNKNOWN_IDS = {"open-absent": UUID(int=0xBAD), "closed-absent": UUID(int=0xBAD2)}
RECORDS = bytes(batch.build([batch.NewRecord(None, b"x")], timestamp_ms=1_000))
TRANSACTIONAL_RECORDS = bytes(
    batch.build(
        [batch.NewRecord(None, b"x")],
        timestamp_ms=1_000,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
)


def _each(
    name: str,
    key: int,
    body: Callable[[tuple[str, ...]], dict[str, Any]],
    names: tuple[str, ...] = SEPARATE,
    mixed: tuple[str, ...] = MIXED,
    **more: Any,
) -> list[Probe]:
    """One probe for each name by itself in the newest version, and one for all of `mixed` in several."""
    single = [Probe(name=f"{name}: {one}", key=key, body=body((one,)), newest_only=True, **more) for one in names]
    return [*single, Probe(name=f"{name}: mixed", key=key, body=body(mixed), **more)]


def _topic(name: str) -> dict[str, Any]:
    """Name and id, of which a version uses one."""
    known = TopicId(name) if name in EXISTING else UNKNOWN_IDS[name]
    return {"name": name, "topic": name, "topic_id": known}


def _produce(names: Iterable[str], acks: int = -1, transactional_id: str | None = None) -> dict[str, Any]:
    data = [{"index": 0, "records": RECORDS if transactional_id is None else TRANSACTIONAL_RECORDS}]
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": TIMEOUT,
        "topic_data": [{**_topic(name), "partition_data": data} for name in names],
    }


def _fetch(names: Iterable[str], replica_id: int = -1, **more: Any) -> dict[str, Any]:
    line = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    return {
        "replica_id": replica_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": 1},
        "max_wait": ms(0),
        "min_bytes": 0,
        "topics": [{**_topic(name), "partitions": [line]} for name in names],
        "forgotten_topics_data": (),
        **more,
    }


def _list_offsets(names: Iterable[str], replica_id: int = -1) -> dict[str, Any]:
    line = {"partition_index": 0, "timestamp": -2}
    topics = [{"name": name, "partitions": [line]} for name in names]
    return {"replica_id": replica_id, "isolation_level": 0, "topics": topics, "timeout": TIMEOUT}


def _metadata(names: Iterable[str] | None, create: bool = False, operations: bool = False) -> dict[str, Any]:
    return {
        "topics": None if names is None else [{"name": name, "topic_id": None} for name in names],
        "allow_auto_topic_creation": create,
        "include_topic_authorized_operations": operations,
        "include_cluster_authorized_operations": operations,
    }


def _metadata_by_id(names: Iterable[str]) -> dict[str, Any]:
    return {**_metadata(()), "topics": [{"name": None, "topic_id": _topic(name)["topic_id"]} for name in names]}


def _commit(group: str, names: Iterable[str], **more: Any) -> dict[str, Any]:
    line = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": name, "partitions": [line]} for name in names],
        **more,
    }


def _committed(groups: Iterable[str], names: Iterable[str] | None) -> dict[str, Any]:
    topics = None if names is None else [{"name": name, "partition_indexes": (0,)} for name in names]
    listed = [{"group_id": group, "topics": topics} for group in groups]
    return {"group_id": listed[0]["group_id"], "topics": topics, "groups": listed, "require_stable": False}


def _coordinator(keys: Iterable[str], kind: int = 0) -> dict[str, Any]:
    keys = tuple(keys)
    return {"key": keys[0], "key_type": kind, "coordinator_keys": keys}


def _member(group: str) -> dict[str, Any]:
    """A member that the group does not have."""
    return {
        "group_id": group,
        "member_id": "stranger",
        "generation_id": 1,
        "session_timeout": TIMEOUT,
        "rebalance_timeout": TIMEOUT,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "protocols": [{"name": "range", "metadata": b""}],
        "assignments": [],
        "members": [{"member_id": "stranger"}],
    }


def _create(names: Iterable[str], validate_only: bool = True) -> dict[str, Any]:
    line = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    return {"topics": [{"name": n, **line} for n in names], "timeout": TIMEOUT, "validate_only": validate_only}


def _delete(names: Iterable[str]) -> dict[str, Any]:
    names = tuple(names)
    return {
        "topic_names": names,
        "topics": [{"name": name, "topic_id": None} for name in names],
        "timeout": TIMEOUT,
    }


def _delete_by_id(names: Iterable[str]) -> dict[str, Any]:
    topics = [{"name": None, "topic_id": _topic(name)["topic_id"]} for name in names]
    return {"topics": topics, "timeout": TIMEOUT}


def _delete_records(names: Iterable[str]) -> dict[str, Any]:
    line = {"partition_index": 0, "offset": 0}
    return {"topics": [{"name": name, "partitions": [line]} for name in names], "timeout": TIMEOUT}


def _partitions(names: Iterable[str]) -> dict[str, Any]:
    lines = [{"name": name, "count": 2, "assignments": None} for name in names]
    return {"topics": lines, "timeout": TIMEOUT, "validate_only": True}


def _epochs(names: Iterable[str], replica_id: int = -1) -> dict[str, Any]:
    line = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": replica_id, "topics": [{"topic": name, "partitions": [line]} for name in names]}


def _indexes(names: Iterable[str]) -> dict[str, Any]:
    return {"timeout": TIMEOUT, "topics": [{"name": name, "partition_indexes": (0,)} for name in names]}


def _configs(kind: int, names: Iterable[str], key: str) -> dict[str, Any]:
    listed = [{"resource_type": kind, "resource_name": name, "configuration_keys": (key,)} for name in names]
    return {"resources": listed, "include_synonyms": False, "include_documentation": False}


def _alter_configs(kind: int, names: Iterable[str], key: str, value: str) -> dict[str, Any]:
    change = {"name": key, "config_operation": 0, "value": value}
    listed = [{"resource_type": kind, "resource_name": name, "configs": [change]} for name in names]
    return {"resources": listed, "validate_only": True}


def _offset_delete(group: str, names: Iterable[str]) -> dict[str, Any]:
    return {"group_id": group, "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in names]}


def _quorum_topic(**partition: Any) -> dict[str, Any]:
    line = {"partition_index": 0, **partition}
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [line]}], "cluster_id": None}


TOPIC_CONFIG, BROKER_CONFIG, BROKER_LOGGER_CONFIG, CLIENT_METRICS_CONFIG, GROUP_CONFIG = 2, 4, 8, 16, 32
_GHOST_ACL = allow(TOPIC, Operation.READ, "ghost", principal=GHOST)
_TRANSACTION = {"transactional_id": "open", "producer_id": 0, "producer_epoch": 0}


def _records() -> list[Probe]:
    return [
        *_each("produce", 0, _produce),
        Probe(name="produce: transactional, open", key=0, body=_produce(["open-spare"], transactional_id="open")),
        Probe(name="produce: transactional, closed", key=0, body=_produce(["open-spare"], transactional_id="closed")),
        Probe(name="produce: acks 0, closed", key=0, body=_produce(["closed"], acks=0), is_answered=False),
        Probe(name="produce: acks 0, open", key=0, body=_produce(["open"], acks=0), is_answered=False),
        *_each("fetch", 1, _fetch, versions=(4, 12, 13, 17)),
        Probe(name="fetch: as a replica", key=1, body=_fetch(["open", "closed"], replica_id=1), versions=(4, 12, 17)),
        Probe(name="fetch: as an unknown replica", key=1, body=_fetch(["open"], replica_id=77), versions=(4, 12, 17)),
        Probe(name="fetch: debugging", key=1, body=_fetch(["open", "closed"], replica_id=-2), versions=(4, 12, 17)),
        *_each("list offsets", 2, _list_offsets),
        Probe(name="list offsets: as a replica", key=2, body=_list_offsets(["open", "closed"], replica_id=1)),
        *_each("delete records", 21, _delete_records),
        *_each("offset for leader epoch", 23, _epochs, versions=(2, 3, 4)),
        Probe(name="offset for leader epoch: as a replica", key=23, body=_epochs(["open", "closed"], replica_id=1)),
        *_each("describe producers", 61, _indexes),
        *_producer_ids(),
    ]


def _producer_ids() -> list[Probe]:
    def body(transactional_id: str | None) -> dict[str, Any]:
        return {"transactional_id": transactional_id, "transaction_timeout": ms(60_000)}

    return [
        Probe(name="init producer id", key=22, body=body(None)),
        Probe(name="init producer id: closed", key=22, body=body("closed")),
        Probe(name="init producer id: open", key=22, body=body("open")),
        Probe(name="describe transactions", key=65, body={"transactional_ids": ("open", "closed")}),
        Probe(name="list transactions", key=66, body={"state_filters": (), "producer_id_filters": ()}),
    ]


def _topics() -> list[Probe]:
    topic_pages = {"response_partition_limit": 100, "cursor": None}
    after_open = {"topic_name": "open", "partition_index": 0}
    return [
        *_each("metadata", 3, _metadata, versions=(4, 8, 13)),
        Probe(name="metadata: mixed, which creates", key=3, body=_metadata(MIXED), versions=(1,), changes_topics=True),
        Probe(name="metadata: all", key=3, body=_metadata(None), versions=(1, 4, 13)),
        Probe(name="metadata: all, oldest", key=3, body=_metadata(()), versions=(0,)),
        Probe(name="metadata: none", key=3, body=_metadata(()), versions=(1, 13)),
        Probe(name="metadata: operations", key=3, body=_metadata(MIXED, operations=True), versions=(8, 10, 11, 13)),
        *_each("metadata by id", 3, _metadata_by_id, versions=(12, 13)),
        *_each(
            "metadata with creation", 3, lambda names: _metadata(names, create=True),
            names=("open-absent", "closed-absent"), versions=(4, 13), changes_topics=True,
        ),
        *_each("describe topic partitions", 75, lambda n: {"topics": [{"name": x} for x in n], **topic_pages}),
        Probe(name="describe topic partitions: all", key=75, body={"topics": (), **topic_pages}),
        Probe(
            name="describe topic partitions: from a topic", key=75,
            body={"topics": (), **topic_pages, "cursor": after_open},
        ),
        *_each("create topics, validated only", 19, _create),
        *_each("create topics", 19, lambda names: _create(names, validate_only=False),
               names=("open-absent", "closed-absent"), changes_topics=True),
        *_each("delete topics", 20, _delete,
               names=("open-spare", "closed", "open-absent", "closed-absent"),
               mixed=("open-spare", "closed", "open-absent", "closed-absent"), changes_topics=True),
        *_each("delete topics by id", 20, _delete_by_id,
               names=("open-spare", "closed", "open-absent"), mixed=("open-spare", "closed", "closed-absent"),
               versions=(6,), changes_topics=True),
        *_each("create partitions", 37, _partitions),
        *_each("elect leaders", 43, lambda names: {
            "election_type": 0, "topic_partitions": [{"topic": n, "partitions": (0,)} for n in names],
            "timeout": TIMEOUT,
        }, names=()),
        *_each("reassign", 45, lambda names: {
            "timeout": TIMEOUT,
            "topics": [{"name": n, "partitions": [{"partition_index": 0, "replicas": (1,)}]} for n in names],
        }, names=()),
        *_each("list reassignments", 46, _indexes, names=()),
        Probe(name="list reassignments: all", key=46, body={"timeout": TIMEOUT, "topics": None}),
        *_each("describe log dirs", 35, lambda n: {"topics": [{"topic": x, "partitions": (0,)} for x in n]}, names=()),
    ]  # fmt: skip


def _groups() -> list[Probe]:
    members = (("join group", 11), ("heartbeat", 12), ("leave group", 13), ("sync group", 14))
    return [
        *(
            Probe(name=f"{name}: {group}", key=key, body=_member(group))
            for name, key in members
            for group in ("open", "closed", "open-absent", "public")
        ),
        *_each("commit", 8, lambda names: _commit("open", names)),
        Probe(name="commit: closed group", key=8, body=_commit("closed", ["open", "closed"])),
        Probe(name="commit: public", key=8, body=_commit("public", ["public", "closed"])),
        *_each("committed", 9, lambda names: _committed(["open"], names), versions=(1, 7, 8, 9)),
        Probe(name="committed: closed group", key=9, body=_committed(["closed"], ["open"]), versions=(1, 2, 7, 9)),
        Probe(name="committed: all topics", key=9, body=_committed(["open"], None), versions=(2, 7, 8, 9)),
        Probe(name="committed: closed group, all topics", key=9, body=_committed(["closed"], None), versions=(2, 9)),
        Probe(name="committed: groups", key=9, versions=(9,),
              body=_committed(("open", "closed", "open-absent"), MIXED)),
        *_each("find coordinator", 10, _coordinator, versions=(0, 3, 4, 6)),
        Probe(name="find coordinator: transaction, refused", key=10, body=_coordinator(["closed"], 1), versions=(1, 6),
              users=("nobody", "topic.all", "transactional_id.all")),
        Probe(name="find coordinator: share, refused", key=10, body=_coordinator(["g:AAAAAAAAAAAAAAAAAAAAAQ:0"], 2),
              versions=(6,), users=("nobody", "topic.all", "group.all", "cluster.alter")),
        *_each("describe groups", 15, lambda names: {"groups": names, "include_authorized_operations": False}),
        Probe(name="describe groups: operations", key=15, versions=(3, 6),
              body={"groups": MIXED, "include_authorized_operations": True}),
        Probe(name="list groups", key=16, body={"states_filter": (), "types_filter": ()}),
        *_each("delete groups", 42, lambda names: {"groups_names": names},
               names=("open-absent", "closed-absent"), mixed=("open-absent", "closed-absent")),
        *_each("delete offsets", 47, lambda names: _offset_delete("open", names), names=("open", "closed")),
        Probe(name="delete offsets: absent group", key=47, body=_offset_delete("open-absent", ["open", "closed"])),
        Probe(name="delete offsets: closed group", key=47, body=_offset_delete("closed", ["open"])),
        *_each("consumer group heartbeat", 68, lambda names: {
            "group_id": "open-absent", "member_id": "stranger", "member_epoch": 5, "subscribed_topic_names": names,
            "topic_partitions": (),
        }, names=("open", "closed")),
    ]  # fmt: skip


def _configurations() -> list[Probe]:
    probes = []
    for name, key, versions in (("alter configs", 33, ()), ("incremental alter configs", 44, ())):
        probes += [
            *_each(name, key, lambda names: _alter_configs(TOPIC_CONFIG, names, "retention.ms", "1000"),
                   versions=versions),
            *(
                Probe(name=f"{name}: broker {broker!r}", key=key,
                      body=_alter_configs(BROKER_CONFIG, [broker], "log.retention.ms", "1000"))
                for broker in ("1", "")
            ),
            *(
                Probe(name=f"{name}: group {group}", key=key,
                      body=_alter_configs(GROUP_CONFIG, [group], "consumer.session.timeout.ms", "50000"))
                for group in ("open", "closed")
            ),
            Probe(name=f"{name}: client metrics", key=key,
                  body=_alter_configs(CLIENT_METRICS_CONFIG, ["m"], "interval.ms", "1000")),
            Probe(name=f"{name}: topic and broker", key=key, body={
                "validate_only": True,
                "resources": [
                    *_alter_configs(TOPIC_CONFIG, ["open", "closed"], "retention.ms", "1000")["resources"],
                    *_alter_configs(BROKER_CONFIG, ["1"], "log.retention.ms", "1000")["resources"],
                ],
            }),
        ]  # fmt: skip
    return [
        *_each("describe configs", 32, lambda names: _configs(TOPIC_CONFIG, names, "cleanup.policy")),
        *(
            Probe(name=f"describe configs: broker {broker!r}", key=32,
                  body=_configs(BROKER_CONFIG, [broker], "num.partitions"))
            for broker in ("1", "")
        ),
        *(
            Probe(name=f"describe configs: group {group}", key=32,
                  body=_configs(GROUP_CONFIG, [group], "consumer.session.timeout.ms"))
            for group in ("open", "closed")
        ),
        Probe(name="describe configs: logger", key=32, body=_configs(BROKER_LOGGER_CONFIG, ["1"], "nothing")),
        Probe(name="describe configs: client metrics", key=32, body=_configs(CLIENT_METRICS_CONFIG, ["m"], "x")),
        Probe(name="describe configs: topic and broker", key=32, body={
            "resources": [
                *_configs(TOPIC_CONFIG, ["open", "closed"], "cleanup.policy")["resources"],
                *_configs(BROKER_CONFIG, ["1"], "num.partitions")["resources"],
            ],
            "include_synonyms": False, "include_documentation": False,
        }),
        *probes,
    ]  # fmt: skip


def _cluster() -> list[Probe]:
    quota = {"entity": [{"entity_type": "user", "entity_name": "ghost"}], "ops": [
        {"key": "producer_byte_rate", "value": 1000.0, "remove": False},
    ]}  # fmt: skip
    feature = {"feature": "metadata.version", "max_version_level": 1, "upgrade_type": 1, "allow_downgrade": False}
    components = [{"entity_type": "user", "match_type": 0, "match": "ghost"}]
    upsertion = {"name": "ghost", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
    operations = {"endpoint_type": 1, "include_fenced_brokers": False}
    bad = EVERY_ACL | {"operation": 0}
    return [
        Probe(name="describe cluster", key=60, body={"include_cluster_authorized_operations": False, **operations}),
        Probe(name="describe cluster: operations", key=60, body={
            "include_cluster_authorized_operations": True, **operations,
        }),
        Probe(name="describe cluster: fenced brokers", key=60, versions=(2,), body={
            "include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True,
        }),
        Probe(name="describe quorum", key=55, body=_quorum_topic()),
        Probe(name="update features", key=57, body={
            "timeout": TIMEOUT, "feature_updates": [feature], "validate_only": True,
        }),
        Probe(name="unregister broker", key=64, body={"broker_id": 99}),
        Probe(name="describe acls", key=29, body=EVERY_ACL | {"principal_filter": "User:topic.read"}),
        Probe(name="describe acls: bad", key=29, body=bad),
        Probe(name="create acls", key=30, body=creations(_GHOST_ACL)),
        Probe(name="create acls: bad", key=30, body=creations(
            (*_GHOST_ACL, *allow(TOPIC, Operation.READ, "", principal=GHOST),
             *allow(CLUSTER, Operation.READ, "other", principal=GHOST),
             *allow(TOPIC, Operation.READ, "x", principal="ghost")),
        ), versions=(3,)),
        Probe(name="create acls: unknown operation", key=30, versions=(3,),
              body=creations(allow(TOPIC, Operation.UNKNOWN, "x", principal=GHOST))),
        Probe(name="delete acls", key=31, body={"filters": [EVERY_ACL | {"principal_filter": GHOST}]}),
        Probe(name="delete acls: bad", key=31, body={"filters": [EVERY_ACL | {"principal_filter": "User:none"}, bad]}),
        Probe(name="describe quotas", key=48, body={"components": components, "strict": True}),
        Probe(name="alter quotas", key=49, body={"entries": [quota], "validate_only": True}),
        Probe(name="describe users", key=50, body={"users": [{"name": "ghost"}]}),
        Probe(name="describe users: all", key=50, body={"users": None}, users=("admin", "cluster.describe")),
        Probe(name="describe users: all, refused", key=50, body={"users": None}, users=("nobody",)),
        Probe(name="alter users: delete", key=51, body={
            "deletions": [{"name": "ghost", "mechanism": 1}], "upsertions": [],
        }),
        Probe(name="alter users: bad", key=51, body={
            "deletions": [], "upsertions": [{**upsertion, "iterations": 1}, {**upsertion, "mechanism": 9}],
        }),
        Probe(name="sasl handshake: again", key=17, body={"mechanism": "PLAIN"}, versions=(1,)),
        Probe(name="sasl authenticate: without a handshake", key=36, body={"auth_bytes": b"x"}, versions=(2,)),
    ]  # fmt: skip


def _between_nodes(to_controller: bool) -> list[Probe]:
    """What only nodes send, in the version that they speak."""
    broker = {"broker_id": 1, "broker_epoch": 1}
    listed = {
        "write txn markers": (27, 1, {"markers": [{
            "producer_id": 1, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
            "topics": [{"name": "open", "partition_indexes": (0,)}],
        }]}),
        "vote": (52, 2, {**_quorum_topic(
            replica_epoch=1, replica_id=1, replica_directory_id=None, voter_directory_id=None, last_offset_epoch=1,
            last_offset=0, pre_vote=True,
        ), "voter_id": 1}),
        "begin quorum epoch": (53, 1, {
            **_quorum_topic(voter_directory_id=None, leader_id=1, leader_epoch=1), "voter_id": 1,
            "leader_endpoints": (),
        }),
        "end quorum epoch": (54, 1, {
            **_quorum_topic(leader_id=1, leader_epoch=1, preferred_candidates=()), "leader_endpoints": (),
        }),
        "alter partition": (56, 3, {**broker, "topics": [{"topic_id": TopicId("open"), "partitions": [{
            "partition_index": 0, "leader_epoch": 0, "new_isr_with_epochs": [{"broker_id": 1}],
            "leader_recovery_state": 0, "partition_epoch": 0,
        }]}]}),
        "envelope": (58, 0, {
            "request_data": b"\0\x13\0\7\0\0\0\1\xff\xff\0", "request_principal": b"\0\0\5User\6admin\0\0",
            "client_host_address": bytes((127, 0, 0, 1)),
        }),
        "fetch snapshot": (59, 1, {"replica_id": 1, "topics": [{"name": METADATA_TOPIC, "partitions": [{
            "partition": 0, "current_leader_epoch": 1, "snapshot_id": {"end_offset": 1, "epoch": 1}, "position": 0,
        }]}]}),
        "broker registration": (62, 4, {
            "broker_id": 1, "cluster_id": "", "incarnation_id": UUID(int=5), "rack": None, "features": (),
            "listeners": [{"name": "CLIENTS", "host": "127.0.0.1", "port": 1, "security_protocol": 2}],
        }),
        "broker heartbeat": (63, 1, {
            **broker, "current_metadata_offset": 0, "want_fence": True, "want_shut_down": True,
        }),
        "allocate producer ids": (67, 0, broker),
        "assign replicas to dirs": (73, 0, {**broker, "directories": ()}),
    }  # fmt: skip
    where = "controller" if to_controller else "broker"
    return [
        Probe(
            name=f"{name}, to the {where}",
            key=key,
            versions=(version,),
            body=body,
            to_controller=to_controller,
            between_nodes=True,
            users=tuple(user for user in ("admin", *USERS) if user.startswith(("admin", "nobody", "cluster", "deny"))),
        )
        for name, (key, version, body) in listed.items()
    ]


def _at_the_controller() -> list[Probe]:
    """APIs of clients that controllers serve too (KIP-919), and replicas of the metadata log."""
    listed = ("describe quorum", "update features", "unregister broker", "describe acls", "elect")
    more = ("incremental alter configs: open", "create acls", "create topics, validated only: mixed", "reassign: mixed")
    probes = [p for p in (*_cluster(), *_configurations(), *_topics()) if p.name.startswith((*listed, *more))]
    fetch = _fetch(())
    line = {"topic": METADATA_TOPIC, "topic_id": UUID(int=1), "partitions": [
        {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1, "current_leader_epoch": -1},
    ]}  # fmt: skip
    fetch |= {"topics": [line], "replica_id": 7, "replica_state": {"replica_id": 7, "replica_epoch": -1}}
    return [
        *(
            Probe(name=f"{p.name}, to the controller", key=p.key, body=p.body, versions=p.versions, to_controller=True)
            for p in probes
        ),
        *(
            Probe(name=f"describe cluster, endpoints {kind}, to the controller", key=60, to_controller=True,
                  versions=(1, 2), body={
                      "include_cluster_authorized_operations": True, "endpoint_type": kind,
                      "include_fenced_brokers": False,
                  })
            for kind in (1, 2)
        ),
        Probe(name="fetch the metadata log, to the controller", key=1, body=fetch, versions=(17,), to_controller=True),
        Probe(name="fetch the metadata log, to the broker", key=1, body=fetch, versions=(12, 17)),
        *_between_nodes(to_controller=True),
    ]  # fmt: skip


PROBES: tuple[Probe, ...] = (
    *_records(),
    *_groups(),
    *_topics(),
    *_configurations(),
    *_cluster(),
    *_between_nodes(to_controller=False),
    *_at_the_controller(),
)
