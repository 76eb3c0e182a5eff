"""How long a quiet client and a broker's heartbeat wait while one client floods a node, by kind of flood.

python bench/cluster_worst_wait.py [--quick] [--topics N] [--json FILE] [name...]

Three nodes in the fast profile. Every flood goes to one node, which leads the probe's partition and is the active
controller. The first table has a row per flood, the second one per request that is expensive by itself, sent once.
Times are milliseconds. Nothing should exceed 200 (one request, one client) on a machine that is otherwise idle.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import cluster_floods as floods
from cluster_clients import BenchError, settings
from cluster_floods import FloodProcess, frame_of
from cluster_probe import Probe, Waits
from cluster_results import INSYNC
from cluster_sides import Side, cluster_of
from common import table
from confluent_kafka.admin import AdminClient, NewTopic

from insync.wire import codec
from insync.wire.messages import broker_heartbeat, describe_quorum, metadata

PROBE = "probe"
FLOOD = "flood"
MANY = "many"
PARTITIONS = 1_000
ASKED = ("produce", "metadata", "heartbeat")
METADATA_TOPIC = "__cluster_metadata"


@dataclass(slots=True)
class Stage:
    """The target: `node` leads the topics of the probe and of the floods, and is the controller."""

    side: Side
    node: int
    topics: int
    many_id: Any

    @property
    def address(self) -> floods.Address:
        return self.side.address(self.node)

    @property
    def names(self) -> list[str]:
        return [f"topic-{number}" for number in range(self.topics)]


Work = Callable[[Stage], Callable[[Event], int]]


def _frames(*requests: Any) -> Work:
    return lambda stage: floods.pipelined(stage.address, [frame_of(request) for request in requests])


FLOODS: dict[str, Work] = {
    "nothing": lambda stage: _idle,
    "librdkafka, acks=1, one record a batch": lambda stage: floods.librdkafka(stage.side.cluster.bootstrap, FLOOD),
    "Produce acks=1, one record": _frames(floods.produce_request(FLOOD, 1, 1, 20)),
    "Produce acks=all, one record": _frames(floods.produce_request(FLOOD, -1, 1, 20)),
    "Produce acks=1, 900 KB": _frames(floods.produce_request(FLOOD, 1, 9, 100_000)),
    "Produce acks=0, one record, 100 connections": lambda stage: floods.pipelined(
        stage.address, [frame_of(floods.produce_request(FLOOD, 0, 1, 20))], connections=100
    ),
    "Metadata, all topics": _frames(floods.metadata_of_all()),
    "ListOffsets, 1,000 partitions": _frames(floods.list_offsets_of(MANY, PARTITIONS)),
    "Fetch, 1,000 partitions": lambda stage: floods.pipelined(
        stage.address, [frame_of(floods.fetch_of(stage.many_id, PARTITIONS))]
    ),
    "CreateTopics, 100 topics, validate only": _frames(floods.create_topics_of("new", 100, validate_only=True)),
    "JoinGroup": lambda stage: floods.pipelined(
        stage.address, [frame_of(floods.join_group_of(f"group-{number}")) for number in range(1_000)]
    ),
    "ApiVersions": _frames(floods.api_versions_request()),
    "OffsetCommit, 100 partitions": _frames(floods.offset_commit_of("group", MANY, 100)),
    "OffsetFetch, all of a group": _frames(floods.offset_fetch_of("group")),
    "FindCoordinator": _frames(floods.find_coordinator_of("group")),
    "DescribeConfigs, 100 topics": lambda stage: floods.pipelined(
        stage.address, [frame_of(floods.describe_configs_of(stage.names[:100]))]
    ),
    "InitProducerId": _frames(floods.init_producer_id_request()),
    "connections opened and closed": lambda stage: floods.reconnecting(
        stage.address, frame_of(floods.api_versions_request())
    ),
    "bytes that are no request": lambda stage: floods.pipelined(stage.address, [b"\x00\x00\x00\x10" + b"\xff" * 16]),
    "under a broker's name: Metadata": lambda stage: floods.pipelined(
        stage.address, [frame_of(floods.metadata_of_all(), f"insync-node-{stage.node % 3 + 1}")]
    ),
    "under a broker's name: Fetch": lambda stage: floods.pipelined(
        stage.address,
        [frame_of(floods.fetch_of(stage.many_id, PARTITIONS), f"insync-node-{stage.node % 3 + 1}")],
        connections=32,
    ),
}

ONCE: dict[str, Callable[[Stage], Any]] = {
    "Metadata of all topics": lambda stage: floods.metadata_of_all(),
    "ListOffsets of 1,000 partitions": lambda stage: floods.list_offsets_of(MANY, PARTITIONS),
    "Fetch of 1,000 partitions": lambda stage: floods.fetch_of(stage.many_id, PARTITIONS),
    "Produce to 1,000 partitions": lambda stage: floods.produce_request(MANY, 1, 1, 20, PARTITIONS),
    "Produce of 90 MB to 100 partitions": lambda stage: floods.produce_request(MANY, 1, 9, 100_000, 100),
    "Fetch of 50 MB from 1,000 partitions": lambda stage: floods.fetch_of(stage.many_id, PARTITIONS),
    "OffsetCommit of 1,000 partitions": lambda stage: floods.offset_commit_of("group", MANY, PARTITIONS),
    "OffsetFetch of all": lambda stage: floods.offset_fetch_of("group"),
    "DescribeConfigs of all topics": lambda stage: floods.describe_configs_of(stage.names),
    "CreateTopics, validate only": lambda stage: floods.create_topics_of("new", stage.topics, validate_only=True),
    "CreateTopics": lambda stage: floods.create_topics_of("new", stage.topics, validate_only=False),
}


def main() -> None:
    arguments = _arguments()
    seconds = 1.5 if arguments.quick else 4.0
    with cluster_of(INSYNC) as side:
        stage = _stage(side, arguments.topics)
        rows, document = [], []
        base: Waits | None = None
        for name, work in FLOODS.items():
            if name != "nothing" and not _is_wanted(name, arguments.names):
                continue
            waits, answered = _measure(stage, work, seconds)
            base = base or waits
            rows.append(_row(name, waits, base, answered))
            document.append({"flood": name, "waits_ms": waits.by_name})
            print("   ", *rows[-1], flush=True)
        table("worst wait of others during a flood, ms", COLUMNS, rows)
        wanted = {name: request for name, request in ONCE.items() if _is_wanted(name, arguments.names)}
        once = [_once(stage, name, request(stage)) for name, request in wanted.items()]
        table(f"one request, {stage.topics:,} topics, ms", ("", "answered in", *ASKED), once)
    if arguments.json:
        arguments.json.write_text(json.dumps(document) + "\n")


COLUMNS = (
    "",
    *(f"{name} {what}" for name in ASKED for what in ("p99", "worst", "ratio")),
    "answers",
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cluster_worst_wait", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="parts of rows' names; all by default")
    parser.add_argument("--quick", action="store_true", help="a second and a half per flood")
    parser.add_argument("--without-kafka", action="store_true", help="no effect: Kafka is never measured here")
    parser.add_argument("--topics", type=int, default=1_000, help="number of topics, besides one with 1,000 partitions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file")
    return parser.parse_args()


def _is_wanted(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


def _idle(stop: Event) -> int:
    stop.wait()
    return 0


def _row(name: str, waits: Waits, base: Waits, answered: int) -> tuple[object, ...]:
    cells: list[object] = [name]
    for asked in ASKED:
        worst = waits.worst(asked)
        cells += [f"{waits.p99(asked):.1f}", f"{worst:.0f}", f"{worst / base.worst(asked):.1f}"]
    return (*cells, answered)


def _measure(stage: Stage, work: Work, seconds: float) -> tuple[Waits, int]:
    probe = Probe(_asked(stage))
    flood = FloodProcess(work(stage))
    time.sleep(seconds)
    answered = flood.finish()
    waits = probe.finish()
    _wait_until_quiet(stage)
    return waits, answered


def _asked(stage: Stage) -> dict[str, tuple[floods.Address, bytes]]:
    heartbeat = broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=stage.node % 3 + 1, broker_epoch=-1, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )
    return {
        "produce": (stage.address, frame_of(floods.produce_request(PROBE, -1, 1, 20), "probe")),
        "metadata": (stage.address, frame_of(floods.metadata_of(PROBE), "probe")),
        "heartbeat": (stage.address, frame_of(heartbeat, f"insync-node-{stage.node % 3 + 1}")),
    }


def _wait_until_quiet(stage: Stage) -> None:
    """The node has worked off the flood when requests of other clients are answered quickly again."""
    deadline = time.monotonic() + 60
    frame, quick = frame_of(floods.produce_request(PROBE, -1, 1, 20), "probe"), 0
    with socket.create_connection(stage.address, timeout=60) as opened:
        while quick < 20 and time.monotonic() < deadline:
            quick = quick + 1 if _ask(opened, frame)[0] < 0.03 else 0


def _ask(opened: socket.socket, frame: bytes) -> tuple[float, bytes]:
    began = time.monotonic()
    opened.sendall(frame)
    answers = opened.makefile("rb")
    length = int.from_bytes(answers.read(4), "big")
    return time.monotonic() - began, answers.read(length)


def _once(stage: Stage, name: str, request: Any) -> tuple[object, ...]:
    frame = frame_of(request)
    probe = Probe(_asked(stage))
    time.sleep(0.3)
    with socket.create_connection(stage.address, timeout=60) as opened:
        began = time.monotonic()
        opened.sendall(frame)
        length = int.from_bytes(opened.recv(4, socket.MSG_WAITALL), "big")
        took = (time.monotonic() - began) * 1_000
        while length > 0:
            length -= len(opened.recv(min(length, 1 << 20)))
    time.sleep(0.5)
    waits = probe.finish()
    _wait_until_quiet(stage)
    row = (name, f"{took:.0f}", *(f"{waits.worst(asked):.0f}" for asked in ASKED))
    print("   ", *row, flush=True)
    return row


# --- the target ------------------------------------------------------------------------------------------------------


def _stage(side: Side, topics: int) -> Stage:
    side.launch()
    side.wait_until_ready()
    node = _controller(side)
    others = [other for other in (1, 2, 3) if other != node]
    admin = AdminClient(settings(side.bootstrap))
    wanted = [NewTopic(name, num_partitions=1, replica_assignment=[[node, *others]]) for name in (PROBE, FLOOD)]
    wanted.append(NewTopic(MANY, num_partitions=PARTITIONS, replica_assignment=[[node, *others]] * PARTITIONS))
    for future in admin.create_topics(wanted, request_timeout=60).values():
        future.result()
    stage = Stage(side, node, topics, None)
    for start in range(0, topics, 250):
        more = [NewTopic(name, num_partitions=1, replication_factor=3) for name in stage.names[start : start + 250]]
        for future in admin.create_topics(more, request_timeout=60).values():
            future.result()
    with socket.create_connection(stage.address, timeout=60) as opened:
        _, answer = _ask(opened, frame_of(floods.metadata_of(MANY)))
        topic = codec.decode_response(answer, metadata.MetadataRequest)[1].topics[0]
        stage.many_id = topic.topic_id
        _ask(opened, frame_of(floods.find_coordinator_of("group")))
    _wait_until_quiet(stage)
    return stage


def _controller(side: Side) -> int:
    asked = describe_quorum.RequestPartition(partition_index=0)
    topic = describe_quorum.RequestTopic(topic_name=METADATA_TOPIC, partitions=(asked,))
    request = describe_quorum.DescribeQuorumRequest(topics=(topic,))
    with socket.create_connection(side.address(1), timeout=60) as opened:
        _, answer = _ask(opened, frame_of(request))
    leader: int = codec.decode_response(answer, type(request))[1].topics[0].partitions[0].leader_id
    if leader < 0:
        raise BenchError("the quorum has no leader")
    return leader


if __name__ == "__main__":
    main()
