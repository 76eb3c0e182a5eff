"""The answers of a FakeCluster's brokers, API by API. A handler returns fields of all versions of a response; those
that the requested version does not have are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.sansio import Message
from insync.wire import batch
from insync.wire.errors import ErrorCode, Refusal
from insync.wire.types import ZERO_UUID
from tests.fake_state import FakePartition, FakeState, FakeTopic

NONE = ErrorCode.none
DYNAMIC_CONFIG, DEFAULT_CONFIG = 1, 5
BROKER_RESOURCE = 4
DELETE_OPERATION = 1
DEBUGGING_REPLICA = -2
LATEST_TIMESTAMP = -1
UNCLEAN_ELECTION = 1
PAGE_SIZE = 2

Fields = dict[str, Any]
Handler = Callable[[FakeState, int, int, Message], Fields]
"""(state, broker, version, request) -> the fields of the response."""
HANDLERS: dict[str, Handler] = {}


def answers(name: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS[name] = handler
        return handler

    return register


def topic_of(state: FakeState, entry: Message, name_field: str = "name") -> FakeTopic:
    """The topic that an entry names, by id or by name, depending on the version."""
    topic_id = getattr(entry, "topic_id", None)
    if topic_id is not None:
        return next(topic for topic in state.topics.values() if topic.id == topic_id)
    return state.topics[getattr(entry, name_field)]


@answers("ApiVersions")
def api_versions(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    keys = [{"api_key": k, "min_version": low, "max_version": high} for k, (low, high) in state.versions.items()]
    return {"api_keys": keys}


def _broker_fields(state: FakeState, ids: list[int], id_field: str) -> list[Fields]:
    return [
        {id_field: b, "host": "127.0.0.1", "port": state.ports[b], "rack": None, "is_fenced": b in state.fenced}
        for b in ids
    ]


def _partition_fields(index: int, p: FakePartition, live: list[int]) -> Fields:
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


def _topic_fields(state: FakeState, broker: int, name: str) -> Fields:
    topic = state.stale_topics.get(broker, {}).get(name) or state.topics.get(name)
    if topic is None:
        return {
            "error_code": ErrorCode.unknown_topic_or_partition, "name": name, "topic_id": ZERO_UUID,
            "is_internal": False, "partitions": [],
        }  # fmt: skip
    partitions = [_partition_fields(i, p, state.live) for i, p in enumerate(topic.partitions)]
    return {
        "error_code": NONE, "name": name, "topic_id": topic.id, "is_internal": topic.internal, "partitions": partitions,
    }  # fmt: skip


@answers("Metadata")
def metadata(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    names = sorted(state.topics) if request.topics is None else [t.name for t in request.topics]
    return {
        "brokers": _broker_fields(state, state.live, "node_id"),
        "cluster_id": "fake",
        "controller_id": state.live[0] if state.live else -1,
        "topics": [_topic_fields(state, broker, name) for name in names],
    }


@answers("DescribeCluster")
def describe_cluster(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    ids = [b for b in state.ids if (version >= 2 or b not in state.fenced)]
    return {"cluster_id": "fake", "controller_id": state.live[0], "brokers": _broker_fields(state, ids, "broker_id")}


@answers("DescribeTopicPartitions")
def describe_topic_partitions(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    """In pages of two partitions, so that tests with more partitions need several requests."""
    names = sorted(t.name for t in request.topics) or sorted(state.topics)
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
    room, topics = min(PAGE_SIZE, request.response_partition_limit), []
    for name in names:
        topic = _topic_fields(state, broker, name)
        skip = request.cursor.partition_index if request.cursor and request.cursor.topic_name == name else 0
        page = topic["partitions"][skip : skip + room]
        room -= len(page)
        topics.append({**topic, "partitions": page})
        if skip + len(page) < len(topic["partitions"]):
            cursor = {"topic_name": name, "partition_index": skip + len(page)}
            return {"topics": topics, "next_cursor": cursor}
    return {"topics": topics, "next_cursor": None}


@answers("ListOffsets")
def list_offsets(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    topics = []
    for asked in request.topics:
        topic = state.topics[asked.name]
        lines = [
            _offset_fields(topic.partitions[p.partition_index], p, broker, request.replica_id) for p in asked.partitions
        ]
        topics.append({"name": asked.name, "partitions": lines})
    return {"topics": topics}


def _offset_fields(p: FakePartition, asked: Message, broker: int, replica: int) -> Fields:
    line = {"partition_index": asked.partition_index, "error_code": NONE, "timestamp": -1, "leader_epoch": p.epoch}
    if replica == DEBUGGING_REPLICA:
        end = p.ends.get(broker, p.hwm)
        return {**line, "offset": end, "leader_epoch": p.last_epochs.get(broker, p.epoch)}
    if p.leader != broker:
        return {**line, "error_code": ErrorCode.not_leader_or_follower, "offset": -1}
    if p.next_errors:
        return {**line, "error_code": p.next_errors.pop(0), "offset": -1}
    if asked.timestamp < 0:
        return {**line, "offset": p.hwm if asked.timestamp == LATEST_TIMESTAMP else p.start}
    for pos, _ in batch.iter_headers(p.data):
        for record in batch.records(p.data, pos):
            if record.timestamp_ms >= asked.timestamp:
                return {**line, "offset": record.offset, "timestamp": record.timestamp_ms}
    return {**line, "offset": -1}


@answers("OffsetForLeaderEpoch")
def offset_for_leader_epoch(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    (topic,) = request.topics
    (asked,) = topic.partitions
    p = state.topics[topic.topic].partitions[asked.partition]
    line = {
        "error_code": NONE, "partition": asked.partition, "leader_epoch": asked.leader_epoch,
        "end_offset": p.epoch_ends.get(asked.leader_epoch, -1),
    }  # fmt: skip
    return {"topics": [{"topic": topic.topic, "partitions": [line]}]}


@answers("DescribeLogDirs")
def describe_log_dirs(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    wanted = {t.topic: t.partitions for t in request.topics} if request.topics is not None else None
    topics = []
    for topic in state.topics.values():
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
        "usable_bytes": state.usable_bytes,
    }  # fmt: skip
    return {"results": [result]}


@answers("DescribeConfigs")
def describe_configs(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    return {"results": [_resource_fields(state, r) for r in request.resources]}


def _resource_fields(state: FakeState, resource: Message) -> Fields:
    head = {"resource_type": resource.resource_type, "resource_name": resource.resource_name, "error_message": None}
    if resource.resource_type == BROKER_RESOURCE:
        configs = state.broker_configs.get(int(resource.resource_name), {})
        defaults: dict[str, str] = {}
    elif resource.resource_name not in state.topics:
        return {**head, "error_code": ErrorCode.unknown_topic_or_partition, "configs": []}
    else:
        configs = state.topics[resource.resource_name].configs
        defaults = {"min.insync.replicas": "1"}
    entries: list[Fields] = [
        {
            "name": name, "value": value, "read_only": False,
            "config_source": DYNAMIC_CONFIG if name in configs else DEFAULT_CONFIG,
            "is_sensitive": False, "synonyms": [], "documentation": None,
        }
        for name, value in {**defaults, **configs}.items()
        if resource.configuration_keys is None or name in resource.configuration_keys
    ]  # fmt: skip
    return {**head, "error_code": NONE, "configs": entries}


@answers("IncrementalAlterConfigs")
def incremental_alter_configs(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    results = []
    for resource in request.resources:
        configs: dict[str, str] = {}
        code, message = NONE, None
        if resource.resource_type == BROKER_RESOURCE and resource.resource_name != str(broker):
            code, message = ErrorCode.invalid_request, f"Unexpected broker id, expected {broker}"
        elif resource.resource_type == BROKER_RESOURCE:
            configs = state.broker_configs.setdefault(int(resource.resource_name), {})
        elif resource.resource_name in state.topics:
            configs = state.topics[resource.resource_name].configs
        else:
            code = ErrorCode.unknown_topic_or_partition
        for entry in resource.configs:
            if entry.name.startswith("no."):
                code, message = ErrorCode.invalid_config, f"Unknown config {entry.name}"
            elif entry.config_operation == DELETE_OPERATION:
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
def create_topics(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    (asked,) = request.topics
    code, message = NONE, None
    if asked.name in state.topics:
        code, message = ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists."
    elif not request.validate_only:
        count = 1 if asked.num_partitions < 0 else asked.num_partitions
        factor = 1 if asked.replication_factor < 0 else asked.replication_factor
        replicas = [a.broker_ids for a in asked.assignments] or [state.ids[:factor]] * count
        state.add_topic(asked.name, *replicas)
        state.topics[asked.name].configs |= {c.name: c.value for c in asked.configs}
    result = {
        "name": asked.name, "topic_id": ZERO_UUID, "error_code": code, "error_message": message, "configs": None,
    }  # fmt: skip
    return {"topics": [result]}


@answers("DeleteTopics")
def delete_topics(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    names = request.topic_names if version < 6 else [t.name for t in request.topics]
    codes = {n: NONE if state.topics.pop(n, None) else ErrorCode.unknown_topic_or_partition for n in names}
    head = {"topic_id": ZERO_UUID, "error_message": None}
    return {"responses": [{**head, "name": name, "error_code": code} for name, code in codes.items()]}


@answers("CreatePartitions")
def create_partitions(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    (asked,) = request.topics
    topic = state.topics[asked.name]
    first = topic.partitions[0]
    if asked.count <= len(topic.partitions):
        code, message = ErrorCode.invalid_partitions, f"The topic has {len(topic.partitions)} partitions."
    else:
        code, message = NONE, None
        new = asked.count - len(topic.partitions)
        topic.partitions += [FakePartition(list(first.replicas), first.leader, list(first.isr)) for _ in range(new)]
    return {"results": [{"name": asked.name, "error_code": code, "error_message": message}]}


@answers("InitProducerId")
def init_producer_id(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    state.producers += 1
    return {"producer_id": state.producers, "producer_epoch": 0}


@answers("Produce")
def produce(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    (asked,) = request.topic_data
    (data,) = asked.partition_data
    topic = topic_of(state, asked)
    code, offset = _append(topic.partitions[data.index], bytes(data.records), broker)
    line = {
        "index": data.index, "error_code": code, "base_offset": offset, "log_append_time": None,
        "log_start_offset": 0, "record_errors": [], "error_message": None,
    }  # fmt: skip
    return {"responses": [{"name": topic.name, "topic_id": topic.id, "partition_responses": [line]}]}


def _append(p: FakePartition, data: bytes, broker: int) -> tuple[ErrorCode, int]:
    """(error, base offset). Sequences are checked, so that a client that repeats or skips a batch gets an error."""
    if p.next_errors:
        return p.next_errors.pop(0), -1
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
def fetch(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    topics = []
    for asked in request.topics:
        topic_id = getattr(asked, "topic_id", None)
        if topic_id is not None and topic_id not in [topic.id for topic in state.topics.values()]:
            lines = [_refused_fetch_fields(p.partition, ErrorCode.unknown_topic_id) for p in asked.partitions]
            topics.append({"topic": "", "topic_id": topic_id, "partitions": lines})
            continue
        topic = topic_of(state, asked, "topic")
        lines = [_fetch_fields(topic.partitions[p.partition], p, broker) for p in asked.partitions]
        topics.append({"topic": topic.name, "topic_id": topic.id, "partitions": lines})
    return {"session_id": 0, "responses": topics}


def _refused_fetch_fields(index: int, code: ErrorCode) -> Fields:
    return _fetch_line(index, code, FakePartition([], -1, []), b"")


def _fetch_fields(p: FakePartition, asked: Message, broker: int) -> Fields:
    """At most one batch."""
    code = NONE if p.leader == broker else ErrorCode.not_leader_or_follower
    if p.next_errors:
        code = p.next_errors.pop(0)
    if code is NONE and 0 <= getattr(asked, "current_leader_epoch", -1) < p.epoch:
        code = ErrorCode.fenced_leader_epoch
    if code is NONE and not p.start <= asked.fetch_offset <= p.hwm:
        code = ErrorCode.offset_out_of_range
    records = b""
    for pos, header in batch.iter_headers(p.data) if code is NONE else ():
        if header.next_offset > asked.fetch_offset:
            records = bytes(p.data[pos : pos + header.length])
            break
    return _fetch_line(asked.partition, code, p, records)


def _fetch_line(index: int, code: ErrorCode, p: FakePartition, records: bytes) -> Fields:
    return {
        "partition_index": index, "error_code": code, "high_watermark": p.hwm, "last_stable_offset": p.hwm,
        "log_start_offset": p.start, "aborted_transactions": None, "preferred_read_replica": -1, "records": records,
    }  # fmt: skip


@answers("AlterPartitionReassignments")
def alter_reassignments(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    topics = []
    for asked in request.topics:
        lines = [_reassign(state, asked.name, p) for p in asked.partitions]
        topics.append({"name": asked.name, "partitions": lines})
    return {"responses": topics}


def _reassign(state: FakeState, name: str, asked: Message) -> Fields:
    key = (name, asked.partition_index)
    line = {"partition_index": asked.partition_index, "error_code": NONE, "error_message": None}
    p = state.topics[name].partitions[asked.partition_index]
    if asked.replicas is None:
        code = NONE if state.reassignments.pop(key, None) else ErrorCode.no_reassignment_in_progress
        return {**line, "error_code": code}
    if any(b not in state.ids for b in asked.replicas):
        code = ErrorCode.invalid_replica_assignment
        return {
            **line,
            "error_code": code,
            "error_message": "The manual partition assignment includes an unknown broker",
        }
    adding = [b for b in asked.replicas if b not in p.replicas]
    state.reassignments[key] = (adding, [b for b in p.replicas if b not in asked.replicas])
    p.replicas = [*asked.replicas, *state.reassignments[key][1]]
    return line


@answers("ListPartitionReassignments")
def list_reassignments(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    topics = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": index, "replicas": state.topics[name].partitions[index].replicas,
                    "adding_replicas": adding, "removing_replicas": removing,
                }
            ],
        }
        for (name, index), (adding, removing) in state.reassignments.items()
    ]  # fmt: skip
    return {"topics": topics}


@answers("ElectLeaders")
def elect_leaders(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    results = []
    for asked in request.topic_partitions:
        lines = []
        for index in asked.partitions:
            p = state.topics[asked.topic].partitions[index]
            can_lead = request.election_type == UNCLEAN_ELECTION or p.replicas[0] in p.isr
            if can_lead:
                p.leader = p.replicas[0]
            code = NONE if can_lead else ErrorCode.preferred_leader_not_available
            lines.append({"partition_id": index, "error_code": code, "error_message": None})
        results.append({"topic": asked.topic, "partition_result": lines})
    return {"replica_election_results": results}


@answers("DescribeQuorum")
def describe_quorum(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    def replica(node: int, end: int) -> Fields:
        return {
            "replica_id": node, "replica_directory_id": ZERO_UUID, "log_end_offset": end,
            "last_fetch_timestamp": 1_000, "last_caught_up_timestamp": 1_000,
        }  # fmt: skip

    line = {
        "partition_index": 0, "error_message": None, "leader_id": state.quorum_leader,
        "error_code": NONE if broker == state.quorum_leader else ErrorCode.not_leader_or_follower,
        "leader_epoch": 5, "high_watermark": 90, "current_voters": [replica(b, 100 - b) for b in state.ids],
        "observers": [replica(9, 80)],
    }  # fmt: skip
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [line]}], "nodes": []}
