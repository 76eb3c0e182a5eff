"""Requests for every API, each for something that a client is given rights on and for something that it is not.

A case has the rights that the request needs for its OPEN half and for its CLOSED half. The unit tests send it to a node
with all, one or no half granted; `interop/java` sends it to Apache Kafka and to insync with the same ACLs.

The topics ORDERS (open) and SECRET (closed) exist with one partition each, ABSENT and HIDDEN do not; so do the groups
WORKERS and OTHERS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from crc32c import crc32c

from insync.security.acl import CLUSTER_NAME, Operation, ResourceType
from insync.wire import batch
from insync.wire.types import METADATA_TOPIC, METADATA_TOPIC_ID, ms
from tests.acl_filters import EVERY_ACL

ORDERS, SECRET, ABSENT, HIDDEN = "orders", "secret", "absent", "hidden"
WORKERS, OTHERS = "workers", "others"
TX, OTHER_TX = "tx", "other-tx"
SECOND = ms(1_000)

Right = tuple[Operation, ResourceType, str]
TopicIds = Mapping[str, UUID]
Body = Callable[[TopicIds], dict[str, Any]]

CLUSTER_ERROR = "cluster_authorization_failed"
TOPIC_ERROR = "topic_authorization_failed"
GROUP_ERROR = "group_authorization_failed"
TRANSACTIONAL_ID_ERROR = "transactional_id_authorization_failed"


@dataclass(frozen=True)
class Case:
    name: str
    api: str
    body: Body
    open: tuple[Right, ...]
    """What the first half of the request needs, or all of it."""
    closed: tuple[Right, ...] = ()
    """What the rest needs; empty if the request is allowed or refused as a whole."""
    refused: str = ""
    """The error of what is refused; empty if it is left out of the response."""
    between_nodes: bool = False
    of_controllers: bool = False
    """In Kafka only controllers serve it, on their own listener."""
    of_transactions: bool = False
    """There are no transactions here: with all rights it is refused in the same way."""


def on_cluster(operation: Operation) -> tuple[Right, ...]:
    return ((operation, ResourceType.CLUSTER, CLUSTER_NAME),)


def on_topic(operation: Operation, name: str) -> tuple[Right, ...]:
    return ((operation, ResourceType.TOPIC, name),)


def on_group(operation: Operation, name: str) -> tuple[Right, ...]:
    return ((operation, ResourceType.GROUP, name),)


def on_transactional_id(operation: Operation, name: str) -> tuple[Right, ...]:
    return ((operation, ResourceType.TRANSACTIONAL_ID, name),)


def by_topic(
    name: str, api: str, operation: Operation, body: Body, *, names: tuple[str, str] = (ORDERS, SECRET)
) -> Case:
    return Case(name, api, body, on_topic(operation, names[0]), on_topic(operation, names[1]), TOPIC_ERROR)


def by_cluster(api: str, operation: Operation, body: dict[str, Any]) -> Case:
    return Case(api, api, lambda _: body, on_cluster(operation), (), CLUSTER_ERROR)


def between_nodes(api: str, body: dict[str, Any], refused: str = CLUSTER_ERROR) -> Case:
    rights = on_cluster(Operation.CLUSTER_ACTION)
    return Case(api, api, lambda _: body, rights, (), refused, between_nodes=True, of_controllers=True)


def by_group(api: str, operation: Operation, **body: Any) -> Case:
    return Case(api, api, lambda _: {"group_id": WORKERS, **body}, on_group(operation, WORKERS), (), GROUP_ERROR)


def _records(*, transactional: bool = False) -> bytes:
    data = bytearray(batch.build([batch.NewRecord(None, b"v")], timestamp_ms=1_000))
    if transactional:
        data[22] |= 0x10
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def _produce(ids: TopicIds, transactional_id: str | None = None, *, transactional: bool = False) -> dict[str, Any]:
    line = {"index": 0, "records": _records(transactional=transactional)}
    names = (ORDERS,) if transactional else (ORDERS, SECRET)
    topics = [{"topic_id": ids[name], "name": name, "partition_data": [line]} for name in names]
    return {"transactional_id": transactional_id, "acks": 1, "timeout": SECOND, "topic_data": topics}


def _fetch(ids: TopicIds, *, replica_id: int = -1, names: tuple[str, ...] = (ORDERS, SECRET)) -> dict[str, Any]:
    line = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "log_start_offset": -1}
    return {
        "replica_id": replica_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": -1},
        "max_wait": ms(0),
        "min_bytes": 0,
        "isolation_level": 0,
        "topics": [{"topic_id": ids[name], "topic": name, "partitions": [line]} for name in names],
        "forgotten_topics_data": (),
    }


def _fetch_metadata_log(_: TopicIds) -> dict[str, Any]:
    line = {"current_leader_epoch": 1, "last_fetched_epoch": 0}
    body = _fetch({METADATA_TOPIC: METADATA_TOPIC_ID}, replica_id=2, names=(METADATA_TOPIC,))
    body["topics"][0]["partitions"][0].update(line)
    return body


def _metadata(*topics: dict[str, Any], create: bool = False) -> dict[str, Any]:
    return {"topics": topics, "allow_auto_topic_creation": create, "include_topic_authorized_operations": False}


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "topic_id": None}


def _indexes(*names: str, key: str = "name", array: str = "partition_indexes") -> list[dict[str, Any]]:
    return [{key: name, array: (0,)} for name in names]


def _partitions(*names: str, key: str = "name", **line: Any) -> list[dict[str, Any]]:
    return [{key: name, "partitions": [{"partition_index": 0, "partition": 0, **line}]} for name in names]


def _new_topics(*names: str) -> dict[str, Any]:
    line = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    return {"topics": [{"name": name, **line} for name in names], "timeout": SECOND, "validate_only": True}


def _configs(*resources: tuple[int, str], **fields: Any) -> dict[str, Any]:
    lines = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None, "configs": ()}
        for kind, name in resources
    ]
    return {
        "resources": lines,
        "include_synonyms": False,
        "include_documentation": False,
        "validate_only": True,
        **fields,
    }


def _config_cases(api: str, operation: Operation) -> tuple[Case, ...]:
    return (
        by_topic(f"{api} of topics", api, operation, lambda _: _configs((2, ORDERS), (2, SECRET))),
        Case(f"{api} of a broker", api, lambda _: _configs((4, "1")), on_cluster(operation), (), CLUSTER_ERROR),
    )


_DELETED = {"timeout": SECOND}
_QUORUM = {"cluster_id": None, "topics": (), "leader_endpoints": ()}
_MEMBER = {"broker_id": 9}
_ISR_CHANGE = {"partition_index": 0, "leader_epoch": 0, "new_isr_with_epochs": (_MEMBER,), "partition_epoch": 0}
_SNAPSHOT = {"partition": 0, "current_leader_epoch": 0, "snapshot_id": {"end_offset": 0, "epoch": 0}, "position": 0}
_OFFSET: dict[str, Any] = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}

CASES = (
    # --- records ---
    by_topic("produce", "produce", Operation.WRITE, _produce),
    Case(
        "produce in a transaction",
        "produce",
        lambda ids: _produce(ids, TX, transactional=True),
        (*on_transactional_id(Operation.WRITE, TX), *on_topic(Operation.WRITE, ORDERS)),
        (),
        TRANSACTIONAL_ID_ERROR,
    ),
    by_topic("fetch", "fetch", Operation.READ, _fetch),
    Case(
        "fetch as a replica",
        "fetch",
        lambda ids: _fetch(ids, replica_id=2),
        on_cluster(Operation.CLUSTER_ACTION),
        (),
        TOPIC_ERROR,
        between_nodes=True,
    ),
    Case(
        "fetch of the metadata log",
        "fetch",
        _fetch_metadata_log,
        on_cluster(Operation.CLUSTER_ACTION),
        (),
        CLUSTER_ERROR,
        between_nodes=True,
        of_controllers=True,
    ),
    by_topic(
        "list_offsets",
        "list_offsets",
        Operation.DESCRIBE,
        lambda _: {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": _partitions(ORDERS, SECRET, timestamp=-1),
            "timeout": SECOND,
        },
    ),
    by_topic(
        "offset_for_leader_epoch",
        "offset_for_leader_epoch",
        Operation.DESCRIBE,
        lambda _: {"replica_id": -1, "topics": _partitions(ORDERS, SECRET, key="topic", leader_epoch=0)},
    ),
    by_topic(
        "delete_records",
        "delete_records",
        Operation.DELETE,
        lambda _: {"topics": _partitions(ORDERS, SECRET, offset=0), "timeout": SECOND},
    ),
    by_topic(
        "describe_producers",
        "describe_producers",
        Operation.READ,
        lambda _: {"topics": _indexes(ORDERS, SECRET)},
    ),
    Case(
        "init_producer_id",
        "init_producer_id",
        lambda _: {"transactional_id": None, "transaction_timeout": SECOND},
        on_cluster(Operation.IDEMPOTENT_WRITE),
        (),
        CLUSTER_ERROR,
    ),
    Case(
        "init_producer_id for a writer of any topic",
        "init_producer_id",
        lambda _: {"transactional_id": None, "transaction_timeout": SECOND},
        on_topic(Operation.WRITE, "whatever"),
        (),
        CLUSTER_ERROR,
    ),
    Case(
        "init_producer_id of a transaction",
        "init_producer_id",
        lambda _: {"transactional_id": "tx-of-init", "transaction_timeout": SECOND},
        on_transactional_id(Operation.WRITE, "tx-of-init"),
        (),
        TRANSACTIONAL_ID_ERROR,
        of_transactions=True,
    ),
    Case(
        "describe_transactions",
        "describe_transactions",
        lambda _: {"transactional_ids": (TX, OTHER_TX)},
        on_transactional_id(Operation.DESCRIBE, TX),
        on_transactional_id(Operation.DESCRIBE, OTHER_TX),
        TRANSACTIONAL_ID_ERROR,
    ),
    Case(
        "list_transactions",
        "list_transactions",
        lambda _: {"state_filters": (), "producer_id_filters": ()},
        on_transactional_id(Operation.DESCRIBE, TX),
    ),
    # --- the cluster ---
    Case("sasl_handshake", "sasl_handshake", lambda _: {"mechanism": "PLAIN"}, ()),
    Case("sasl_authenticate", "sasl_authenticate", lambda _: {"auth_bytes": b""}, ()),
    Case("api_versions", "api_versions", lambda _: {"client_software_name": "a", "client_software_version": "1"}, ()),
    by_topic("metadata by name", "metadata", Operation.DESCRIBE, lambda _: _metadata(_named(ORDERS), _named(SECRET))),
    by_topic(
        "metadata of missing topics",
        "metadata",
        Operation.DESCRIBE,
        lambda _: _metadata(_named(ABSENT), _named(HIDDEN)),
        names=(ABSENT, HIDDEN),
    ),
    by_topic(
        "metadata by id",
        "metadata",
        Operation.DESCRIBE,
        lambda ids: _metadata(*({"name": None, "topic_id": ids[name]} for name in (ORDERS, SECRET))),
    ),
    Case(
        "metadata of all topics",
        "metadata",
        lambda _: {**_metadata(), "topics": None},
        on_topic(Operation.DESCRIBE, ORDERS),
        on_topic(Operation.DESCRIBE, SECRET),
    ),
    by_topic(
        "describe_topic_partitions",
        "describe_topic_partitions",
        Operation.DESCRIBE,
        lambda _: {"topics": ({"name": ORDERS}, {"name": SECRET}), "cursor": None},
    ),
    Case(
        "describe_topic_partitions of all topics",
        "describe_topic_partitions",
        lambda _: {"topics": (), "cursor": None},
        on_topic(Operation.DESCRIBE, ORDERS),
        on_topic(Operation.DESCRIBE, SECRET),
    ),
    Case(
        "describe_cluster",
        "describe_cluster",
        lambda _: {"include_cluster_authorized_operations": True, "include_fenced_brokers": False},
        on_cluster(Operation.DESCRIBE),
    ),
    *_config_cases("describe_configs", Operation.DESCRIBE_CONFIGS),
    Case(
        "describe_configs of a group",
        "describe_configs",
        lambda _: _configs((32, WORKERS)),
        on_group(Operation.DESCRIBE_CONFIGS, WORKERS),
        (),
        GROUP_ERROR,
    ),
    by_cluster("describe_log_dirs", Operation.DESCRIBE, {"topics": None}),
    by_cluster(
        "describe_quorum",
        Operation.DESCRIBE,
        {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]},
    ),
    by_cluster("describe_acls", Operation.DESCRIBE, EVERY_ACL),
    by_cluster("describe_user_scram_credentials", Operation.DESCRIBE, {"users": ({"name": "nobody"},)}),
    by_cluster("describe_client_quotas", Operation.DESCRIBE_CONFIGS, {"components": (), "strict": False}),
    # --- groups ---
    Case(
        "find_coordinator",
        "find_coordinator",
        lambda _: {"key_type": 0, "coordinator_keys": (WORKERS, OTHERS)},
        on_group(Operation.DESCRIBE, WORKERS),
        on_group(Operation.DESCRIBE, OTHERS),
        GROUP_ERROR,
    ),
    Case(
        "find_coordinator of transactions",
        "find_coordinator",
        lambda _: {"key_type": 1, "coordinator_keys": (TX, OTHER_TX)},
        on_transactional_id(Operation.DESCRIBE, TX),
        on_transactional_id(Operation.DESCRIBE, OTHER_TX),
        TRANSACTIONAL_ID_ERROR,
        of_transactions=True,
    ),
    by_group(
        "join_group",
        Operation.READ,
        session_timeout=ms(10_000),
        rebalance_timeout=ms(10_000),
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    ),
    by_group(
        "sync_group",
        Operation.READ,
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=(),
    ),
    by_group("heartbeat", Operation.READ, generation_id=1, member_id="m"),
    by_group("leave_group", Operation.READ, members=({"member_id": "m"},)),
    Case(
        "offset_commit",
        "offset_commit",
        lambda _: {"group_id": WORKERS, "member_id": "", "topics": _partitions(ORDERS, SECRET, **_OFFSET)},
        (*on_group(Operation.READ, WORKERS), *on_topic(Operation.READ, ORDERS)),
        on_topic(Operation.READ, SECRET),
        TOPIC_ERROR,
    ),
    Case(
        "offset_fetch",
        "offset_fetch",
        lambda _: {"groups": [{"group_id": WORKERS, "topics": _indexes(ORDERS, SECRET)}]},
        (*on_group(Operation.DESCRIBE, WORKERS), *on_topic(Operation.DESCRIBE, ORDERS)),
        on_topic(Operation.DESCRIBE, SECRET),
        TOPIC_ERROR,
    ),
    Case(
        "offset_fetch of all topics",
        "offset_fetch",
        lambda _: {"groups": [{"group_id": WORKERS, "topics": None}]},
        (*on_group(Operation.DESCRIBE, WORKERS), *on_topic(Operation.DESCRIBE, ORDERS)),
        on_topic(Operation.DESCRIBE, SECRET),
    ),
    Case(
        "offset_fetch of several groups",
        "offset_fetch",
        lambda _: {"groups": [{"group_id": group, "topics": _indexes(ORDERS)} for group in (WORKERS, OTHERS)]},
        (*on_group(Operation.DESCRIBE, WORKERS), *on_topic(Operation.DESCRIBE, ORDERS)),
        on_group(Operation.DESCRIBE, OTHERS),
        GROUP_ERROR,
    ),
    Case(
        "offset_delete",
        "offset_delete",
        lambda _: {"group_id": WORKERS, "topics": _partitions(ORDERS, SECRET)},
        (*on_group(Operation.DELETE, WORKERS), *on_topic(Operation.READ, ORDERS)),
        on_topic(Operation.READ, SECRET),
        TOPIC_ERROR,
    ),
    Case(
        "list_groups",
        "list_groups",
        lambda _: {"states_filter": (), "types_filter": ()},
        on_group(Operation.DESCRIBE, WORKERS),
        on_group(Operation.DESCRIBE, OTHERS),
    ),
    Case(
        "describe_groups",
        "describe_groups",
        lambda _: {"groups": (WORKERS, OTHERS), "include_authorized_operations": True},
        on_group(Operation.DESCRIBE, WORKERS),
        on_group(Operation.DESCRIBE, OTHERS),
        GROUP_ERROR,
    ),
    Case(
        "delete_groups",
        "delete_groups",
        lambda _: {"groups_names": ("gone", "forgotten")},
        on_group(Operation.DELETE, "gone"),
        on_group(Operation.DELETE, "forgotten"),
        GROUP_ERROR,
    ),
    Case(
        "consumer_group_heartbeat",
        "consumer_group_heartbeat",
        lambda _: {"group_id": WORKERS, "member_id": "m", "member_epoch": 0, "topic_partitions": ()},
        (),
    ),
    # --- decided by the controller ---
    by_topic(
        "create_topics",
        "create_topics",
        Operation.CREATE,
        lambda _: _new_topics(ABSENT, HIDDEN),
        names=(ABSENT, HIDDEN),
    ),
    by_topic(
        "delete_topics by name",
        "delete_topics",
        Operation.DELETE,
        lambda _: {**_DELETED, "topics": (_named(ABSENT), _named(HIDDEN))},
        names=(ABSENT, HIDDEN),
    ),
    by_topic(
        "create_partitions",
        "create_partitions",
        Operation.ALTER,
        lambda _: {
            "topics": [{"name": name, "count": 2, "assignments": None} for name in (ORDERS, SECRET)],
            "timeout": SECOND,
            "validate_only": True,
        },
    ),
    *_config_cases("alter_configs", Operation.ALTER_CONFIGS),
    *_config_cases("incremental_alter_configs", Operation.ALTER_CONFIGS),
    by_cluster(
        "alter_partition_reassignments",
        Operation.ALTER,
        {"timeout": SECOND, "topics": _partitions(ORDERS, replicas=None)},
    ),
    by_cluster("list_partition_reassignments", Operation.DESCRIBE, {"timeout": SECOND, "topics": _indexes(ORDERS)}),
    by_cluster(
        "elect_leaders",
        Operation.ALTER,
        {"election_type": 0, "topic_partitions": [{"topic": ORDERS, "partitions": (0,)}], "timeout": SECOND},
    ),
    by_cluster("unregister_broker", Operation.ALTER, {"broker_id": 77}),
    by_cluster("update_features", Operation.ALTER, {"timeout": SECOND, "feature_updates": (), "validate_only": True}),
    by_cluster(
        "create_acls",
        Operation.ALTER,
        {
            "creations": (
                {
                    "resource_type": 2,
                    "resource_name": "",
                    "resource_pattern_type": 3,
                    "principal": "User:x",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                },
            )
        },
    ),
    by_cluster("delete_acls", Operation.ALTER, {"filters": ({**EVERY_ACL, "principal_filter": "User:nobody"},)}),
    by_cluster(
        "alter_user_scram_credentials",
        Operation.ALTER,
        {"deletions": ({"name": "nobody", "mechanism": 1},), "upsertions": ()},
    ),
    by_cluster(
        "alter_client_quotas",
        Operation.ALTER_CONFIGS,
        {
            "entries": ({"entity": ({"entity_type": "user", "entity_name": "nobody"},), "ops": ()},),
            "validate_only": True,
        },
    ),
    # --- between nodes ---
    between_nodes("vote", {**_QUORUM, "voter_id": -1}),
    between_nodes("begin_quorum_epoch", {**_QUORUM, "voter_id": -1}),
    between_nodes("end_quorum_epoch", _QUORUM),
    between_nodes("fetch_snapshot", {"topics": ({"name": METADATA_TOPIC, "partitions": (_SNAPSHOT,)},)}),
    between_nodes("envelope", {"request_data": b"", "request_principal": b"", "client_host_address": bytes(4)}),
    between_nodes(
        "alter_partition",
        {"broker_id": 9, "broker_epoch": 1, "topics": ({"topic_id": UUID(int=5), "partitions": (_ISR_CHANGE,)},)},
    ),
    between_nodes(
        "broker_registration",
        {
            "broker_id": 9,
            "cluster_id": "x",
            "incarnation_id": UUID(int=9),
            "listeners": (),
            "features": (),
            "rack": None,
        },
    ),
    between_nodes(
        "broker_heartbeat",
        {
            "broker_id": 9,
            "broker_epoch": 1,
            "current_metadata_offset": 1,
            "want_fence": False,
            "want_shut_down": False,
        },
    ),
    between_nodes("allocate_producer_ids", {"broker_id": 9, "broker_epoch": 1}),
    between_nodes("assign_replicas_to_dirs", {"broker_id": 9, "broker_epoch": 1, "directories": ()}),
    between_nodes("get_replica_log_info", {"topic_partitions": [{"topic_id": UUID(int=5), "partitions": (0,)}]}),
)
