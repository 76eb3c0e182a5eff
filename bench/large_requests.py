"""What one request with many entries costs a node by itself, without sockets: decoding, steps, encoding, in ms.

python bench/large_requests.py [--entries N] [api...]

One node with a topic of N partitions and N groups. `decode` and `encode` are between frame and message; `steps` is
everything that the node does until it has answered all parts of the request, `longest` the longest of its steps.
Nothing that runs at a stretch should take more than 50 ms.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import cluster_floods as floods
from common import Rig, table
from kio.schema.list_offsets.v9 import request as list_offsets

from insync.node.handlers import PARTS
from insync.sansio import Effect, Event
from insync.server.process import GC_THRESHOLD
from insync.storage.posix import PosixDisk
from insync.wire import batch, codec
from insync.wire.messages import (
    create_acls,
    create_topics,
    delete_groups,
    delete_records,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    find_coordinator,
    join_group,
    leave_group,
    list_groups,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from insync.wire.types import ms
from insync.wire.versions.translator import VersionTranslator

MANY = "many"
PART = 500


class Names:
    def __init__(self, rig: Rig) -> None:
        self._image = rig.nodes[1].metadata_loader

    def id_of(self, name: str) -> UUID | None:
        return self._image.image.topic_ids.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return self._image.image.topics.get(topic_id)


class Stage:
    def __init__(self, rig: Rig, entries: int) -> None:
        self.rig = rig
        self.entries = entries
        self.translator = VersionTranslator(Names(rig))
        self.steps = _timed(rig)

    @property
    def many_id(self) -> UUID:
        return self.rig.nodes[1].image.topic_ids[MANY]

    @property
    def names(self) -> list[str]:
        return [f"topic-{number}" for number in range(self.entries)]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(f"group-{number}" for number in range(self.entries))


def _produce(stage: Stage, acks: int = 1) -> Any:
    built = bytes(batch.build([batch.NewRecord(None, b"x" * 20)], timestamp_ms=int(time.time() * 1_000)))
    data = tuple(produce.PartitionProduceData(index=index, records=built) for index in range(stage.entries))
    topic = produce.TopicProduceData(topic_id=stage.many_id, partition_data=data)
    return produce.ProduceRequest(acks=acks, timeout=ms(30_000), topic_data=(topic,))


def _list_offsets(stage: Stage, timestamp: int) -> Any:
    asked = tuple(
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(stage.entries)
    )
    topic = list_offsets.ListOffsetsTopic(name=MANY, partitions=asked)
    return list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,))


def _metadata_by_name(stage: Stage) -> Any:
    topics = tuple(metadata.MetadataRequestTopic(topic_id=None, name=name) for name in stage.names)
    return metadata.MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def _epochs(stage: Stage) -> Any:
    asked = tuple(
        offset_for_leader_epoch.OffsetForLeaderPartition(partition=index, current_leader_epoch=-1, leader_epoch=0)
        for index in range(stage.entries)
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=MANY, partitions=asked)
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,))


def _delete_records(stage: Stage) -> Any:
    asked = tuple(
        delete_records.DeleteRecordsPartition(partition_index=index, offset=0) for index in range(stage.entries)
    )
    topic = delete_records.DeleteRecordsTopic(name=MANY, partitions=asked)
    return delete_records.DeleteRecordsRequest(topics=(topic,), timeout=ms(1_000))


def _log_dirs(stage: Stage) -> Any:
    topics = tuple(describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=(0,)) for name in stage.names)
    return describe_log_dirs.DescribeLogDirsRequest(topics=topics)


def _producers(stage: Stage) -> Any:
    topic = describe_producers.TopicRequest(name=MANY, partition_indexes=tuple(range(stage.entries)))
    return describe_producers.DescribeProducersRequest(topics=(topic,))


def _offset_fetch(stage: Stage) -> Any:
    topic = offset_fetch.OffsetFetchRequestTopics(name=MANY, partition_indexes=tuple(range(stage.entries)))
    asked = offset_fetch.OffsetFetchRequestGroup(group_id="group", topics=(topic,))
    return offset_fetch.OffsetFetchRequest(groups=(asked,))


def _offset_fetch_groups(stage: Stage) -> Any:
    asked = tuple(offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None) for group in stage.groups)
    return offset_fetch.OffsetFetchRequest(groups=asked)


def _offset_delete(stage: Stage) -> Any:
    asked = tuple(offset_delete.OffsetDeleteRequestPartition(partition_index=index) for index in range(stage.entries))
    topic = offset_delete.OffsetDeleteRequestTopic(name=MANY, partitions=asked)
    return offset_delete.OffsetDeleteRequest(group_id="group", topics=(topic,))


def _topic_partitions(stage: Stage) -> Any:
    topics = tuple(describe_topic_partitions.TopicRequest(name=name) for name in stage.names)
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2_000)


REQUESTS: dict[str, Callable[[Stage], Any]] = {
    "OffsetCommit": lambda stage: floods.offset_commit_of("group", MANY, stage.entries),
    "Produce acks=1": _produce,
    "Produce acks=1, again": _produce,
    "Produce acks=all": lambda stage: _produce(stage, -1),
    "Fetch": lambda stage: floods.fetch_of(stage.many_id, stage.entries),
    "Fetch, small": lambda stage: floods.fetch_of(stage.many_id, stage.entries, 1),
    "ListOffsets, latest": lambda stage: _list_offsets(stage, -1),
    "ListOffsets, max timestamp": lambda stage: _list_offsets(stage, -3),
    "ListOffsets, by time": lambda stage: _list_offsets(stage, 5),
    "Metadata, all": lambda stage: floods.metadata_of_all(),
    "Metadata, all, again": lambda stage: floods.metadata_of_all(),
    "Metadata, by name (unknown)": _metadata_by_name,
    "OffsetForLeaderEpoch": _epochs,
    "DeleteRecords": _delete_records,
    "DescribeConfigs (unknown)": lambda stage: floods.describe_configs_of(stage.names),
    "DescribeConfigs (same topic)": lambda stage: floods.describe_configs_of([MANY] * stage.entries),
    "DescribeLogDirs, all": lambda stage: describe_log_dirs.DescribeLogDirsRequest(topics=None),
    "DescribeLogDirs, by name": _log_dirs,
    "DescribeProducers": _producers,
    "DescribeTopicPartitions": _topic_partitions,
    "OffsetFetch, partitions": _offset_fetch,
    "OffsetFetch, all": lambda stage: floods.offset_fetch_of("group"),
    "OffsetFetch, groups": _offset_fetch_groups,
    "OffsetDelete": _offset_delete,
    "FindCoordinator": lambda stage: find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=stage.groups),
    "ListGroups": lambda stage: list_groups.ListGroupsRequest(states_filter=(), types_filter=()),
    "DescribeGroups": lambda stage: describe_groups.DescribeGroupsRequest(
        groups=stage.groups, include_authorized_operations=True
    ),
    "DescribeTransactions": lambda stage: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=stage.groups
    ),
    "CreateTopics, validate only": lambda stage: floods.create_topics_of(
        "new", stage.entries, validate_only=True, replication_factor=1
    ),
    "JoinGroup, protocols": lambda stage: join_group.JoinGroupRequest(
        group_id="joined",
        session_timeout=ms(6_000),
        rebalance_timeout=ms(10_000),
        member_id="",
        protocol_type="consumer",
        protocols=tuple(join_group.JoinGroupRequestProtocol(name=name, metadata=b"x") for name in stage.groups),
    ),
    "SyncGroup, assignments": lambda stage: sync_group.SyncGroupRequest(
        group_id="joined",
        generation_id=1,
        member_id="",
        protocol_type="consumer",
        protocol_name="group-0",
        assignments=tuple(
            sync_group.SyncGroupRequestAssignment(member_id=name, assignment=b"x") for name in stage.groups
        ),
    ),
    "LeaveGroup, members": lambda stage: leave_group.LeaveGroupRequest(
        group_id="joined",
        members=tuple(leave_group.MemberIdentity(member_id=name, reason=None) for name in stage.groups),
    ),
    "ListGroups, filters": lambda stage: list_groups.ListGroupsRequest(states_filter=stage.groups, types_filter=()),
    "ListTransactions, filters": lambda stage: list_transactions.ListTransactionsRequest(
        state_filters=stage.groups, producer_id_filters=(), transactional_id_pattern="(a|b)*" * stage.entries
    ),
    "DescribeQuorum (unknown)": lambda stage: describe_quorum.DescribeQuorumRequest(
        topics=tuple(
            describe_quorum.RequestTopic(
                topic_name=name, partitions=(describe_quorum.RequestPartition(partition_index=0),)
            )
            for name in stage.names
        )
    ),
    "CreateAcls": lambda stage: create_acls.CreateAclsRequest(
        creations=tuple(
            create_acls.AclCreation(
                resource_type=2,
                resource_name=name,
                resource_pattern_type=3,
                principal="User:a",
                host="*",
                operation=2,
                permission_type=3,
            )
            for name in stage.names
        )
    ),
    "DeleteGroups": lambda stage: delete_groups.DeleteGroupsRequest(groups_names=stage.groups),
}


def main() -> None:
    arguments = _arguments()
    root = tempfile.mkdtemp(prefix="insync-bench-")
    try:
        stage = _stage(root, arguments.entries)
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 50)  # as a node's process does
        rows = []
        for name, request in REQUESTS.items():
            if arguments.apis and not any(word in name for word in arguments.apis):
                continue
            rows.append((name, *_measure(stage, request(stage))))
            print("   ", *(cell if isinstance(cell, str) else f"{cell:.1f}" for cell in rows[-1]), flush=True)
    finally:
        shutil.rmtree(root)
    table(
        f"one request with {arguments.entries:,} entries, ms",
        ("", "decode", "parts", "longest", "steps", "encode"),
        rows,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="large_requests", description=__doc__)
    parser.add_argument("apis", nargs="*", help="parts of names; all by default")
    parser.add_argument("--entries", type=int, default=10_000)
    return parser.parse_args()


def _measure(stage: Stage, request: Any) -> tuple[float, int, float, float, float]:
    frame = codec.encode_request(request, 1, "bench")
    rig, steps = stage.rig, stage.steps
    began = time.process_time()
    context = stage.translator.receive(frame)
    parts = PARTS.get(request.__api_key__)
    requests = (context.request,) if parts is None else parts.divide(context.request)
    decoded = time.process_time()
    steps.clear()
    tokens = []
    for part in requests:
        tokens.append(rig.ask(1, part))
        rig.deliver_all()
    for _ in range(100):
        if all(token in rig.answers for token in tokens):
            break
        rig.advance(100)
    took = list(steps)
    answers = [rig.answers.pop(token) for token in tokens]
    encoding = time.process_time()
    answer = answers[0] if parts is None or len(answers) == 1 else parts.join(answers)
    stage.translator.encode_response(context, answer)
    encoded = time.process_time()
    return (
        (decoded - began) * 1e3,
        len(requests),
        max(took) * 1e3,
        sum(took) * 1e3,
        (encoded - encoding) * 1e3,
    )


def _timed(rig: Rig) -> list[float]:
    """From now on: how long each step of the node takes."""
    node, took = rig.nodes[1], []
    step = node.step

    def timed(event: Event, now: int) -> list[Effect]:
        began = time.process_time()
        effects = step(event, now)
        took.append(time.process_time() - began)
        return effects

    node.step = timed  # type: ignore[method-assign]
    return took


def _stage(root: str, entries: int) -> Stage:
    rig = Rig([PosixDisk(root)])
    rig.advance(10_000)
    assignments = tuple(
        create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in range(entries)
    )
    topic = create_topics.CreatableTopic(
        name=MANY, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=()
    )
    rig.ask(1, create_topics.CreateTopicsRequest(topics=(topic,), timeout=ms(1_000), validate_only=False))
    rig.advance(2_000)
    rig.ask(1, floods.find_coordinator_of("group"))
    rig.advance(2_000)
    for number in range(entries):
        committed = offset_commit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata=""
        )
        line = offset_commit.OffsetCommitRequestTopic(name=MANY, partitions=(committed,))
        rig.ask(1, offset_commit.OffsetCommitRequest(group_id=f"group-{number}", member_id="", topics=(line,)))
        if number % PART == 0:
            rig.deliver_all()
    rig.advance(1_000)
    return Stage(rig, entries)


if __name__ == "__main__":
    main()
