"""Requests with invalid, unusual and ordinary input, which are sent to Apache Kafka and to insync.

The topic `same` has two partitions on three brokers, led by 1 and 2, and three records in the first one. PROBES are for
broker 1, GROUP_PROBES for the coordinator of the group that they name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from insync.wire.types import ms

TOPIC = "same"
TIMEOUT = ms(10_000)
Body = dict[str, Any]


class Probe(NamedTuple):
    name: str
    api_key: int
    version: int
    body: Body


def _create(**topic: Any) -> Body:
    new_topic = {"name": "new", "num_partitions": 1, "replication_factor": 3, "assignments": (), "configs": (), **topic}
    return {"topics": [new_topic], "timeout": TIMEOUT, "validate_only": True}


def _assigned(*replicas: tuple[int, ...], first: int = 0) -> Body:
    assignments = [{"partition_index": first + i, "broker_ids": brokers} for i, brokers in enumerate(replicas)]
    return _create(num_partitions=-1, replication_factor=-1, assignments=assignments)


def _partitions(name: str, count: int, replicas: list[tuple[int, ...]] | None = None) -> Body:
    assignments = None if replicas is None else [{"broker_ids": brokers} for brokers in replicas]
    topic = {"name": name, "count": count, "assignments": assignments}
    return {"topics": [topic], "timeout": TIMEOUT, "validate_only": True}


def _offsets(*queries: tuple[str, int, int], epoch: int = -1, replica_id: int = -1) -> Body:
    topics = [
        {
            "name": name,
            "partitions": [{"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}],
        }
        for name, index, timestamp in queries
    ]
    return {"replica_id": replica_id, "isolation_level": 0, "topics": topics, "timeout": TIMEOUT}


def _delete_records(name: str, index: int, offset: int) -> Body:
    return {
        "topics": [{"name": name, "partitions": [{"partition_index": index, "offset": offset}]}],
        "timeout": TIMEOUT,
    }


def _describe(resource_type: int, name: str, *keys: str) -> Body:
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys or None}
    return {"resources": [resource], "include_synonyms": False, "include_documentation": False}


def _alter(resource_type: int, name: str, key: str, value: str | None, operation: int = 0) -> Body:
    change = {"name": key, "config_operation": operation, "value": value}
    resource = {"resource_type": resource_type, "resource_name": name, "configs": [change]}
    return {"resources": [resource], "validate_only": True}


def _reassign(name: str, index: int, replicas: tuple[int, ...] | None) -> Body:
    partition = {"partition_index": index, "replicas": replicas}
    return {
        "timeout": TIMEOUT,
        "allow_replication_factor_change": True,
        "topics": [{"name": name, "partitions": [partition]}],
    }


def _elect(election_type: int, name: str, index: int) -> Body:
    topics = [{"topic": name, "partitions": (index,)}]
    return {"election_type": election_type, "topic_partitions": topics, "timeout": TIMEOUT}


def _group(**fields: Any) -> Body:
    return {
        "group_id": "unknown",
        "session_timeout": ms(10_000),
        "rebalance_timeout": ms(10_000),
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        "reason": None,
        "generation_id": 1,
        **fields,
    }


def _commit(group: str, topic: str, index: int, member: str = "", generation: int = -1) -> Body:
    partition = {
        "partition_index": index,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [partition]}],
    }


def _metadata(*names: str | None) -> Body:
    topics = [{"name": name, "topic_id": None} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def _pages(names: tuple[str, ...], limit: int = 2_000, cursor: Body | None = None) -> Body:
    return {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": cursor}


def _features(**levels: int) -> Body:
    updates = [
        {"feature": name.replace("_", "."), "max_version_level": level, "upgrade_type": 1}
        for name, level in levels.items()
    ]
    return {"timeout": TIMEOUT, "feature_updates": updates, "validate_only": True}


def _epochs(topic: str, epoch: int) -> Body:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [partition]}]}


def _make_probes(*probes: tuple[str, int, int, Body]) -> tuple[Probe, ...]:
    """From (name, API key, version, body)."""
    return tuple(Probe(*probe) for probe in probes)


_PRODUCER = {"transactional_id": None, "transaction_timeout": ms(60_000)}

PROBES = _make_probes(
    ("create", 19, 7, _create()),
    ("create: exists", 19, 7, _create(name=TOPIC)),
    ("create: name with a blank", 19, 7, _create(name="a b")),
    ("create: no name", 19, 7, _create(name="")),
    ("create: name that is a dot", 19, 7, _create(name=".")),
    ("create: long name", 19, 7, _create(name="x" * 250)),
    ("create: no partitions", 19, 7, _create(num_partitions=0)),
    ("create: partitions -2", 19, 7, _create(num_partitions=-2)),
    ("create: no replicas", 19, 7, _create(replication_factor=0)),
    ("create: replicas -2", 19, 7, _create(replication_factor=-2)),
    ("create: too many replicas", 19, 7, _create(replication_factor=9)),
    ("create: defaults", 19, 7, _create(num_partitions=-1, replication_factor=-1)),
    ("create: assigned", 19, 7, _assigned((1, 2), (2, 3))),
    ("create: assigned with a gap", 19, 7, _assigned((1, 2), first=1)),
    ("create: assigned nowhere", 19, 7, _assigned(())),
    ("create: assigned twice", 19, 7, _assigned((1, 1))),
    ("create: partitions with different replication factors", 19, 7, _assigned((1, 2), (3,))),
    ("create: assigned to an unknown broker", 19, 7, _assigned((1, 9))),
    ("create: assigned to -1", 19, 7, _assigned((-1,))),
    ("create: assigned and counted", 19, 7, _create(assignments=[{"partition_index": 0, "broker_ids": (1,)}])),
    ("create: bad value", 19, 7, _create(configs=[{"name": "retention.ms", "value": "x"}])),
    ("create: bad config", 19, 7, _create(configs=[{"name": "nope", "value": "x"}])),
    ("create: null value", 19, 7, _create(configs=[{"name": "retention.ms", "value": None}])),
    ("create: no topics", 19, 7, {"topics": [], "timeout": TIMEOUT, "validate_only": False}),
    ("create: the same topic twice", 19, 7, {**_create(), "topics": _create()["topics"] * 2}),
    ("delete: unknown", 20, 6, {"topics": [{"name": "absent", "topic_id": None}], "timeout": TIMEOUT}),
    ("delete: no topics", 20, 6, {"topics": [], "timeout": TIMEOUT}),
    ("delete: neither name nor id", 20, 6, {"topics": [{"name": None, "topic_id": None}], "timeout": TIMEOUT}),
    ("delete: twice", 20, 6, {"topics": [{"name": "absent", "topic_id": None}] * 2, "timeout": TIMEOUT}),
    ("partitions", 37, 3, _partitions(TOPIC, 4)),
    ("partitions: unknown", 37, 3, _partitions("absent", 4)),
    ("partitions: the present count", 37, 3, _partitions(TOPIC, 2)),
    ("partitions: fewer", 37, 3, _partitions(TOPIC, 1)),
    ("partitions: none", 37, 3, _partitions(TOPIC, 0)),
    ("partitions: -1", 37, 3, _partitions(TOPIC, -1)),
    ("partitions: too few assigned", 37, 3, _partitions(TOPIC, 4, [(1, 2, 3)])),
    ("partitions: other factor", 37, 3, _partitions(TOPIC, 3, [(1,)])),
    ("partitions: unknown broker", 37, 3, _partitions(TOPIC, 3, [(1, 2, 9)])),
    ("partitions: twice", 37, 3, {**_partitions(TOPIC, 3), "topics": _partitions(TOPIC, 3)["topics"] * 2}),
    ("offsets: latest", 2, 10, _offsets((TOPIC, 0, -1))),
    ("offsets: earliest", 2, 10, _offsets((TOPIC, 0, -2))),
    ("offsets: max timestamp", 2, 10, _offsets((TOPIC, 0, -3))),
    ("offsets: earliest local", 2, 10, _offsets((TOPIC, 0, -4))),
    ("offsets: tiered", 2, 10, _offsets((TOPIC, 0, -5))),
    ("offsets: -6", 2, 10, _offsets((TOPIC, 0, -6))),
    ("offsets: by timestamp", 2, 10, _offsets((TOPIC, 0, 0))),
    ("offsets: timestamp after the last record", 2, 10, _offsets((TOPIC, 0, 2**62))),
    ("offsets: unknown topic", 2, 10, _offsets(("absent", 0, -1))),
    ("offsets: bad name", 2, 10, _offsets(("a b", 0, -1))),
    ("offsets: unknown partition", 2, 10, _offsets((TOPIC, 9, -1))),
    ("offsets: negative partition", 2, 10, _offsets((TOPIC, -1, -1))),
    ("offsets: a follower", 2, 10, _offsets((TOPIC, 1, -1))),
    ("offsets: a follower, debugging", 2, 10, _offsets((TOPIC, 1, -1), replica_id=-2)),
    ("offsets: newer epoch", 2, 10, _offsets((TOPIC, 0, -1), epoch=99)),
    ("offsets: twice", 2, 10, _offsets((TOPIC, 0, -1), (TOPIC, 0, -2))),
    ("records: unknown topic", 21, 2, _delete_records("absent", 0, 0)),
    ("records: unknown partition", 21, 2, _delete_records(TOPIC, 9, 0)),
    ("records: a follower", 21, 2, _delete_records(TOPIC, 1, 0)),
    ("records: none", 21, 2, _delete_records(TOPIC, 0, 0)),
    ("records: beyond", 21, 2, _delete_records(TOPIC, 0, 99)),
    ("records: -2", 21, 2, _delete_records(TOPIC, 0, -2)),
    ("configs: topic", 32, 4, _describe(2, TOPIC, "retention.ms", "cleanup.policy")),
    ("configs: unknown topic", 32, 4, _describe(2, "absent")),
    ("configs: bad topic", 32, 4, _describe(2, "a b")),
    ("configs: no topic", 32, 4, _describe(2, "")),
    ("configs: unknown key", 32, 4, _describe(2, TOPIC, "nope")),
    ("configs: broker", 32, 4, _describe(4, "1", "node.id", "num.partitions", "auto.create.topics.enable")),
    ("configs: another broker", 32, 4, _describe(4, "2")),
    ("configs: bad broker", 32, 4, _describe(4, "x")),
    ("configs: unknown type", 32, 4, _describe(99, "x")),
    ("alter: bad value", 44, 1, _alter(2, TOPIC, "retention.ms", "x")),
    ("alter: null", 44, 1, _alter(2, TOPIC, "retention.ms", None)),
    ("alter: unknown key", 44, 1, _alter(2, TOPIC, "nope", "1")),
    ("alter: delete an unknown key", 44, 1, _alter(2, TOPIC, "nope", None, 1)),
    ("alter: append to a number", 44, 1, _alter(2, TOPIC, "retention.ms", "1", 2)),
    ("alter: empty policy", 44, 1, _alter(2, TOPIC, "cleanup.policy", "")),
    ("alter: unknown topic", 44, 1, _alter(2, "absent", "retention.ms", "1")),
    ("alter: bad topic", 44, 1, _alter(2, "a b", "retention.ms", "1")),
    ("alter: no topic", 44, 1, _alter(2, "", "retention.ms", "1")),
    ("alter: broker, unknown key", 44, 1, _alter(4, "1", "nope", "1")),
    ("alter: broker, fixed key", 44, 1, _alter(4, "1", "broker.session.timeout.ms", "1")),
    ("alter: broker, unused key", 44, 1, _alter(4, "", "num.io.threads", "3")),
    ("alter: broker, bad number", 44, 1, _alter(4, "", "num.io.threads", "x")),
    ("alter: brokers' min.insync.replicas", 44, 1, _alter(4, "1", "min.insync.replicas", "1")),
    ("alter: broker, bad value", 44, 1, _alter(4, "1", "log.retention.ms", "x")),
    ("alter: bad broker", 44, 1, _alter(4, "x", "log.retention.ms", "1")),
    ("alter: unknown type", 44, 1, _alter(99, "x", "y", "1")),
    ("reassign: unknown topic", 45, 1, _reassign("absent", 0, (1,))),
    ("reassign: unknown partition", 45, 1, _reassign(TOPIC, 9, (1,))),
    ("reassign: nowhere", 45, 1, _reassign(TOPIC, 0, ())),
    ("reassign: unknown broker", 45, 1, _reassign(TOPIC, 0, (1, 2, 9))),
    ("reassign: negative broker", 45, 1, _reassign(TOPIC, 0, (1, 2, -3))),
    ("reassign: the same broker", 45, 1, _reassign(TOPIC, 0, (1, 1, 2))),
    ("reassign: nothing to cancel", 45, 1, _reassign(TOPIC, 0, None)),
    ("reassign: as it is", 45, 1, _reassign(TOPIC, 0, (1, 2, 3))),
    ("reassignments", 46, 0, {"timeout": TIMEOUT, "topics": None}),
    ("reassignments: unknown", 46, 0, {"timeout": TIMEOUT, "topics": [{"name": "absent", "partition_indexes": (0,)}]}),
    ("elect: not needed", 43, 2, _elect(0, TOPIC, 0)),
    ("elect: unclean, not needed", 43, 2, _elect(1, TOPIC, 0)),
    ("elect: unknown topic", 43, 2, _elect(0, "absent", 0)),
    ("elect: unknown partition", 43, 2, _elect(0, TOPIC, 9)),
    ("producers: unknown topic", 61, 0, {"topics": [{"name": "absent", "partition_indexes": (0,)}]}),
    ("producers: bad name", 61, 0, {"topics": [{"name": "a b", "partition_indexes": (0,)}]}),
    ("producers: unknown partition", 61, 0, {"topics": [{"name": TOPIC, "partition_indexes": (9,)}]}),
    ("producers: a follower", 61, 0, {"topics": [{"name": TOPIC, "partition_indexes": (1,)}]}),
    ("metadata", 3, 13, _metadata(TOPIC)),
    ("metadata: unknown", 3, 13, _metadata("absent")),
    ("metadata: bad name", 3, 13, _metadata("a b")),
    ("metadata: none", 3, 13, _metadata()),
    ("topic partitions", 75, 0, _pages((TOPIC,))),
    ("topic partitions: unknown", 75, 0, _pages(("absent",))),
    ("topic partitions: bad name", 75, 0, _pages(("a b",))),
    ("topic partitions: a page", 75, 0, _pages((TOPIC,), limit=1)),
    ("topic partitions: cursor", 75, 0, _pages((TOPIC,), cursor={"topic_name": TOPIC, "partition_index": 1})),
    ("topic partitions: bad cursor", 75, 0, _pages((TOPIC,), cursor={"topic_name": TOPIC, "partition_index": -1})),
    ("log dirs: unknown", 35, 4, {"topics": [{"topic": "absent", "partitions": (0,)}]}),
    ("log dirs: no topics", 35, 4, {"topics": []}),
    ("coordinator: unknown type", 10, 6, {"key_type": 5, "coordinator_keys": ("g",)}),
    ("coordinator: no group", 10, 6, {"key_type": 0, "coordinator_keys": ("",)}),
    ("epochs: unknown topic", 23, 4, _epochs("absent", 0)),
    ("epochs: later epoch", 23, 4, _epochs(TOPIC, 99)),
    ("epochs: negative epoch", 23, 4, _epochs(TOPIC, -1)),
    ("groups: state", 16, 5, {"states_filter": ("Nonsense",), "types_filter": ("classic",)}),
    ("groups: type", 16, 5, {"states_filter": (), "types_filter": ("nonsense",)}),
    ("init producer id: unknown id", 22, 5, {**_PRODUCER, "producer_id": 5, "producer_epoch": 3}),
    ("init producer id: id without epoch", 22, 5, {**_PRODUCER, "producer_id": 5, "producer_epoch": -1}),
    ("init producer id: no name", 22, 5, {
        **_PRODUCER, "transactional_id": "", "producer_id": -1, "producer_epoch": -1,
    }),
    ("transactions: bad pattern", 66, 2, {
        "state_filters": (), "producer_id_filters": (), "duration_filter": -1, "transactional_id_pattern": "(",
    }),
    ("transactions: states", 66, 2, {
        "state_filters": ("Ongoing", "Odd"), "producer_id_filters": (), "duration_filter": -1,
        "transactional_id_pattern": None,
    }),
    ("cluster: unknown endpoints", 60, 2, {
        "include_cluster_authorized_operations": False, "endpoint_type": 7, "include_fenced_brokers": False,
    }),
    ("unregister: unknown", 64, 0, {"broker_id": 99}),
    ("features: unknown", 57, 2, _features(nosuch_version=1)),
    ("features: negative", 57, 2, _features(metadata_version=-1)),
    ("quorum: another topic", 55, 2, {
        "topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}],
    }),
)  # fmt: skip

GROUP_PROBES = _make_probes(
    ("join: no group", 11, 9, _group(group_id="")),
    ("join: no protocols", 11, 9, _group(protocols=[])),
    ("join: no protocol type", 11, 9, _group(protocol_type="")),
    ("join: short session", 11, 9, _group(session_timeout=ms(1))),
    ("join: long session", 11, 9, _group(session_timeout=ms(2**31 - 1))),
    ("join: unknown member", 11, 9, _group(member_id="x")),
    ("heartbeat: unknown group", 12, 4, _group(member_id="x")),
    ("heartbeat: no group", 12, 4, _group(group_id="", member_id="x")),
    ("sync: unknown group", 14, 5, {**_group(member_id="x", protocol_name="range"), "assignments": []}),
    ("leave: unknown group", 13, 5, {"group_id": "unknown", "members": [
        {"member_id": "x", "group_instance_id": None, "reason": None},
    ]}),
    ("leave: no members", 13, 5, {"group_id": "unknown", "members": []}),
    ("commit: unknown topic", 8, 9, _commit("simple", "absent", 0)),
    ("commit: unknown partition", 8, 9, _commit("simple", TOPIC, 9)),
    ("commit: no group", 8, 9, _commit("", TOPIC, 0)),
    ("commit: unknown member", 8, 9, _commit("unheard", TOPIC, 0, member="x", generation=3)),
    ("describe group: unknown", 15, 5, {"groups": ("unheard",), "include_authorized_operations": False}),
    ("describe group: unknown, newer", 15, 6, {"groups": ("unheard",), "include_authorized_operations": False}),
    ("describe group: no name", 15, 6, {"groups": ("",), "include_authorized_operations": False}),
    ("delete group: unknown", 42, 2, {"groups_names": ("unheard",)}),
    ("delete group: no name", 42, 2, {"groups_names": ("",)}),
    ("delete offsets: unknown", 47, 0, {"group_id": "unheard", "topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0}]},
    ]}),
    ("committed: unknown", 9, 9, {"require_stable": False, "groups": [
        {"group_id": "unheard", "member_id": None, "member_epoch": -1, "topics": [
            {"name": TOPIC, "partition_indexes": (0, 9)}, {"name": "absent", "partition_indexes": (0,)},
        ]},
    ]}),
    ("committed: everything", 9, 9, {"require_stable": False, "groups": [
        {"group_id": "unheard", "member_id": None, "member_epoch": -1, "topics": None},
    ]}),
)  # fmt: skip
