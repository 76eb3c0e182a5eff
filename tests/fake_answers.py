"""What the brokers of a FakeCluster answer, API by API: values for every version at once, cut to the one asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.wire import batch
from insync.wire.errors import ErrorCode, Refusal
from insync.wire.types import ZERO_UUID

NONE = ErrorCode.none
ANSWERS: dict[str, Callable[[Any, int, int, Any], dict[str, Any]]] = {}
OWN, DEFAULT = 1, 5


def answers(name: str) -> Any:
    def register(function: Any) -> Any:
        ANSWERS[name] = function
        return function

    return register


def topic_of(cluster: Any, entry: Any, name_field: str = "name") -> Any:
    """A topic by id or by name, whichever the version names it by."""
    topic_id = getattr(entry, "topic_id", None)
    if topic_id is not None:
        return next((t for t in cluster.topics.values() if t.id == topic_id), None)
    return cluster.topics.get(getattr(entry, name_field, None))


@answers("ApiVersions")
def api_versions(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    keys = [{"api_key": k, "min_version": low, "max_version": high} for k, (low, high) in cluster.versions.items()]
    return {"api_keys": keys}


def _brokers(cluster: Any, ids: list[int], id_field: str) -> list[dict[str, Any]]:
    return [
        {id_field: b, "host": "127.0.0.1", "port": cluster.ports[b], "rack": None, "is_fenced": b in cluster.fenced}
        for b in ids
    ]


def _partition(index: int, p: Any, live: list[int]) -> dict[str, Any]:
    return {
        "error_code": NONE,
        "partition_index": index,
        "leader_id": p.leader,
        "leader_epoch": p.epoch,
        "replica_nodes": p.replicas,
        "isr_nodes": p.isr,
        "eligible_leader_replicas": p.elr,
        "last_known_elr": p.last_known_elr,
        "offline_replicas": [b for b in p.replicas if b not in live],
    }


def _topic(cluster: Any, broker: int, name: str) -> dict[str, Any]:
    topic = cluster.behind.get(broker, {}).get(name) or cluster.topics.get(name)
    if topic is None:
        return {
            "error_code": ErrorCode.unknown_topic_or_partition, "name": name, "topic_id": ZERO_UUID,
            "is_internal": False, "partitions": [],
        }  # fmt: skip
    partitions = [_partition(i, p, cluster.live) for i, p in enumerate(topic.partitions)]
    return {
        "error_code": NONE, "name": name, "topic_id": topic.id, "is_internal": topic.internal, "partitions": partitions,
    }  # fmt: skip


@answers("Metadata")
def metadata(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    names = sorted(cluster.topics) if request.topics is None else [t.name for t in request.topics]
    return {
        "brokers": _brokers(cluster, cluster.live, "node_id"),
        "cluster_id": "fake",
        "controller_id": cluster.live[0] if cluster.live else -1,
        "topics": [_topic(cluster, broker, name) for name in names],
    }


@answers("DescribeCluster")
def describe_cluster(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    ids = [b for b in cluster.ids if b not in cluster.gone and (version >= 2 or b not in cluster.fenced)]
    return {"cluster_id": "fake", "controller_id": cluster.live[0], "brokers": _brokers(cluster, ids, "broker_id")}


@answers("DescribeTopicPartitions")
def describe_topic_partitions(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    """Pages of two partitions, so that every test with more of them turns pages."""
    names = sorted(t.name for t in request.topics) or sorted(cluster.topics)
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
    room, topics = 2, []
    for name in names:
        found = _topic(cluster, broker, name)
        skip = request.cursor.partition_index if request.cursor and request.cursor.topic_name == name else 0
        page = found["partitions"][skip : skip + room]
        room -= len(page)
        topics.append({**found, "partitions": page})
        if skip + len(page) < len(found["partitions"]):
            cursor = {"topic_name": name, "partition_index": skip + len(page)}
            return {"topics": topics, "next_cursor": cursor}
    return {"topics": topics, "next_cursor": None}


@answers("ListOffsets")
def list_offsets(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    topics = []
    for asked in request.topics:
        topic = cluster.topics[asked.name]
        lines = [_listed(topic.partitions[p.partition_index], p, broker, request.replica_id) for p in asked.partitions]
        topics.append({"name": asked.name, "partitions": lines})
    return {"topics": topics}


def _listed(p: Any, asked: Any, broker: int, replica: int) -> dict[str, Any]:
    line = {"partition_index": asked.partition_index, "error_code": NONE, "timestamp": -1, "leader_epoch": p.epoch}
    if replica == -2:
        end = p.ends.get(broker, p.hwm)
        return {**line, "offset": end, "leader_epoch": p.last_epochs.get(broker, p.epoch)}
    if p.leader != broker:
        return {**line, "error_code": ErrorCode.not_leader_or_follower, "offset": -1}
    if p.refusals:
        return {**line, "error_code": p.refusals.pop(0), "offset": -1}
    if asked.timestamp < 0:
        return {**line, "offset": p.hwm if asked.timestamp == -1 else p.start}
    for pos, _ in batch.iter_headers(p.data):
        for record in batch.records(p.data, pos):
            if record.timestamp_ms >= asked.timestamp:
                return {**line, "offset": record.offset, "timestamp": record.timestamp_ms}
    return {**line, "offset": -1}


@answers("OffsetForLeaderEpoch")
def offset_for_leader_epoch(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    (topic,) = request.topics
    (asked,) = topic.partitions
    p = cluster.topics[topic.topic].partitions[asked.partition]
    line = {
        "error_code": NONE, "partition": asked.partition, "leader_epoch": asked.leader_epoch,
        "end_offset": p.epoch_ends.get(asked.leader_epoch, -1),
    }  # fmt: skip
    return {"topics": [{"topic": topic.topic, "partitions": [line]}]}


@answers("DescribeLogDirs")
def describe_log_dirs(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    wanted = {t.topic: t.partitions for t in request.topics} if request.topics is not None else None
    topics = []
    for topic in cluster.topics.values():
        lines = [
            {
                "partition_index": i, "partition_size": p.sizes.get(broker, len(p.data)), "offset_lag": 0,
                "is_future_key": False,
            }
            for i, p in enumerate(topic.partitions)
            if broker in p.replicas and (wanted is None or i in wanted.get(topic.name, ()))
        ]  # fmt: skip
        topics.append({"name": topic.name, "partitions": lines})
    result = {
        "error_code": NONE, "log_dir": "/data", "topics": topics, "total_bytes": 100_000,
        "usable_bytes": cluster.usable_bytes,
    }  # fmt: skip
    return {"results": [result]}


@answers("DescribeConfigs")
def describe_configs(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    return {"results": [_described(cluster, r) for r in request.resources]}


def _described(cluster: Any, resource: Any) -> dict[str, Any]:
    head = {"resource_type": resource.resource_type, "resource_name": resource.resource_name, "error_message": None}
    if resource.resource_type == 4:
        found, defaults = cluster.broker_configs.get(int(resource.resource_name), {}), {}
    elif resource.resource_name not in cluster.topics:
        return {**head, "error_code": ErrorCode.unknown_topic_or_partition, "configs": []}
    else:
        found, defaults = cluster.topics[resource.resource_name].configs, {"min.insync.replicas": "1"}
    entries = [
        {
            "name": name, "value": value, "read_only": False, "config_source": OWN if name in found else DEFAULT,
            "is_sensitive": False, "synonyms": [], "documentation": None,
        }
        for name, value in {**defaults, **found}.items()
        if resource.configuration_keys is None or name in resource.configuration_keys
    ]  # fmt: skip
    return {**head, "error_code": NONE, "configs": entries}


@answers("IncrementalAlterConfigs")
def incremental_alter_configs(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    results = []
    for resource in request.resources:
        code, message = NONE, None
        if resource.resource_type == 4 and resource.resource_name != str(broker):
            code, message, configs = ErrorCode.invalid_request, f"Unexpected broker id, expected {broker}", {}
        elif resource.resource_type == 4:
            configs = cluster.broker_configs.setdefault(int(resource.resource_name), {})
        elif resource.resource_name in cluster.topics:
            configs = cluster.topics[resource.resource_name].configs
        else:
            code, configs = ErrorCode.unknown_topic_or_partition, {}
        for entry in resource.configs:
            if entry.name.startswith("no."):
                code, message = ErrorCode.invalid_config, f"Unknown config {entry.name}"
            elif entry.config_operation == 1:
                configs.pop(entry.name, None)
            else:
                configs[entry.name] = entry.value
        results.append(
            {
                "error_code": code, "error_message": message, "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
        )  # fmt: skip
    return {"responses": results}


@answers("CreateTopics")
def create_topics(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    (asked,) = request.topics
    code, message = NONE, None
    if asked.name in cluster.topics:
        code, message = ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists."
    elif not request.validate_only:
        count = 1 if asked.num_partitions < 0 else asked.num_partitions
        width = 1 if asked.replication_factor < 0 else asked.replication_factor
        replicas = [a.broker_ids for a in asked.assignments] or [cluster.ids[:width]] * count
        cluster.topic(asked.name, *replicas)
        cluster.topics[asked.name].configs |= {c.name: c.value for c in asked.configs}
    result = {
        "name": asked.name, "topic_id": ZERO_UUID, "error_code": code, "error_message": message, "configs": None,
    }  # fmt: skip
    return {"topics": [result]}


@answers("DeleteTopics")
def delete_topics(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    names = request.topic_names if version < 6 else [t.name for t in request.topics]
    codes = {n: NONE if cluster.topics.pop(n, None) else ErrorCode.unknown_topic_or_partition for n in names}
    head = {"topic_id": ZERO_UUID, "error_message": None}
    return {"responses": [{**head, "name": name, "error_code": code} for name, code in codes.items()]}


@answers("CreatePartitions")
def create_partitions(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    (asked,) = request.topics
    topic = cluster.topics[asked.name]
    first = topic.partitions[0]
    if asked.count <= len(topic.partitions):
        code, message = ErrorCode.invalid_partitions, f"The topic has {len(topic.partitions)} partitions."
    else:
        code, message = NONE, None
        more = asked.count - len(topic.partitions)
        topic.partitions += [type(first)(list(first.replicas), first.leader, list(first.isr)) for _ in range(more)]
    return {"results": [{"name": asked.name, "error_code": code, "error_message": message}]}


@answers("InitProducerId")
def init_producer_id(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    cluster.producers += 1
    return {"producer_id": cluster.producers, "producer_epoch": 0}


@answers("Produce")
def produce(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    (asked,) = request.topic_data
    (data,) = asked.partition_data
    topic = topic_of(cluster, asked)
    code, offset = _stored(topic.partitions[data.index], bytes(data.records), broker)
    line = {
        "index": data.index, "error_code": code, "base_offset": offset, "log_append_time": None,
        "log_start_offset": 0, "record_errors": [], "error_message": None,
    }  # fmt: skip
    return {"responses": [{"name": topic.name, "topic_id": topic.id, "partition_responses": [line]}]}


def _stored(p: Any, data: bytes, broker: int) -> tuple[ErrorCode, int]:
    """Sequences are checked, so that a client that repeats itself or leaves a gap is noticed."""
    if p.refusals:
        return p.refusals.pop(0), -1
    if p.leader != broker:
        return ErrorCode.not_leader_or_follower, -1
    header = batch.validate_produce(data, 10_000_000)
    if isinstance(header, Refusal):
        return header.error, -1
    if header.producer_id >= 0 and header.base_sequence != p.sequences.get(header.producer_id, 0):
        return ErrorCode.out_of_order_sequence_number, -1
    p.sequences[header.producer_id] = header.base_sequence + header.count
    return NONE, p.append(data)


@answers("Fetch")
def fetch(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    topics = []
    for asked in request.topics:
        topic = topic_of(cluster, asked, "topic")
        lines = [_fetched(topic.partitions[p.partition], p, broker) for p in asked.partitions]
        topics.append({"topic": topic.name, "topic_id": topic.id, "partitions": lines})
    return {"session_id": 0, "responses": topics}


def _fetched(p: Any, asked: Any, broker: int) -> dict[str, Any]:
    """At most one batch at a time."""
    code = p.refusals.pop(0) if p.refusals else NONE if p.leader == broker else ErrorCode.not_leader_or_follower
    if code is NONE and not p.start <= asked.fetch_offset <= p.hwm:
        code = ErrorCode.offset_out_of_range
    found = b""
    for pos, header in batch.iter_headers(p.data) if code is NONE else ():
        if header.next_offset > asked.fetch_offset:
            found = bytes(p.data[pos : pos + header.length])
            break
    return {
        "partition_index": asked.partition, "error_code": code, "high_watermark": p.hwm, "last_stable_offset": p.hwm,
        "log_start_offset": p.start, "aborted_transactions": None, "preferred_read_replica": -1, "records": found,
    }  # fmt: skip


@answers("AlterPartitionReassignments")
def alter_reassignments(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    topics = []
    for asked in request.topics:
        lines = [_altered(cluster, asked.name, p) for p in asked.partitions]
        topics.append({"name": asked.name, "partitions": lines})
    return {"responses": topics}


def _altered(cluster: Any, name: str, asked: Any) -> dict[str, Any]:
    key = (name, asked.partition_index)
    line = {"partition_index": asked.partition_index, "error_code": NONE, "error_message": None}
    p = cluster.topics[name].partitions[asked.partition_index]
    if asked.replicas is None:
        code = NONE if cluster.moving.pop(key, None) else ErrorCode.no_reassignment_in_progress
        return {**line, "error_code": code}
    if any(b not in cluster.ids for b in asked.replicas):
        code = ErrorCode.invalid_replica_assignment
        return {
            **line,
            "error_code": code,
            "error_message": "The manual partition assignment includes an unknown broker",
        }
    adding = [b for b in asked.replicas if b not in p.replicas]
    cluster.moving[key] = (adding, [b for b in p.replicas if b not in asked.replicas])
    p.replicas = [*asked.replicas, *cluster.moving[key][1]]
    return line


@answers("ListPartitionReassignments")
def list_reassignments(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    topics = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": index, "replicas": cluster.topics[name].partitions[index].replicas,
                    "adding_replicas": adding, "removing_replicas": removing,
                }
            ],
        }
        for (name, index), (adding, removing) in cluster.moving.items()
    ]  # fmt: skip
    return {"topics": topics}


@answers("ElectLeaders")
def elect_leaders(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    results = []
    for asked in request.topic_partitions:
        lines = []
        for index in asked.partitions:
            p = cluster.topics[asked.topic].partitions[index]
            able = request.election_type == 1 or p.replicas[0] in p.isr
            if able:
                p.leader = p.replicas[0]
            code = NONE if able else ErrorCode.preferred_leader_not_available
            lines.append({"partition_id": index, "error_code": code, "error_message": None})
        results.append({"topic": asked.topic, "partition_result": lines})
    return {"replica_election_results": results}


@answers("DescribeQuorum")
def describe_quorum(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    def state(node: int, end: int) -> dict[str, Any]:
        return {
            "replica_id": node, "replica_directory_id": ZERO_UUID, "log_end_offset": end,
            "last_fetch_timestamp": 1_000, "last_caught_up_timestamp": 1_000,
        }  # fmt: skip

    line = {
        "partition_index": 0, "error_message": None, "leader_id": cluster.quorum_leader,
        "error_code": NONE if broker == cluster.quorum_leader else ErrorCode.not_leader_or_follower,
        "leader_epoch": 5, "high_watermark": 90, "current_voters": [state(b, 100 - b) for b in cluster.ids],
        "observers": [state(9, 80)],
    }  # fmt: skip
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [line]}], "nodes": []}
