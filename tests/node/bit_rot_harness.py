"""A topic `t` on real nodes over simulated disks whose batches are damaged, and what readers get of it (D6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.storage import disk as disks
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from tests.node.node_harness import Net, fetch_request, three_brokers

BATCHES = 8
SCRUB = {"scrub_interval_ms": 3_000}
NO_SCRUB = {"scrub_bytes_per_second": 0}


LOG_FILE = "data/t-0/00000000000000000000.log"


def start_with_batches(replicas: tuple[int, ...] = (1, 2, 3), /, *, value_bytes: int = 10, **fields: Any) -> Net:
    """Three brokers and the topic, with committed batches on all its replicas."""
    net = three_brokers(**fields).up()
    net.create("t", replicas, min_insync_replicas="1")
    produce_batches(net, value_bytes)
    return net


def lose_replica(net: Net, node_id: int) -> None:
    """The node is down, without its replica of the topic, and out of the ISR."""
    net.crash(node_id)
    net.disks[node_id].rmtree("data/t-0")
    net.advance(20_000)


def produce_batches(net: Net, value_bytes: int = 10) -> None:
    for number in range(BATCHES):
        net.produce(net.partition("t").leader, "t", b"%d" % number * value_bytes)
    net.advance(2_000)


def damage_batch(net: Net, node_id: int, number: int, at: int = 70) -> None:
    """Change a byte of a batch on disk."""
    size = net.log("t", node_id).active.size // BATCHES
    net.disks[node_id].rot(LOG_FILE, number * size + at)


def findings(net: Net, node_id: int) -> list[str]:
    return [finding.kind for finding in net.nodes[node_id].findings.current()]


def fetch_offsets(net: Net, node_id: int, offset: int = 0, replica_id: int = -1) -> tuple[list[int], ErrorCode]:
    """The base offsets of the batches that a fetch returns, and its error."""
    request = fetch_request(net.partition("t"))
    line = replace(request.topics[0].partitions[0], fetch_offset=offset)
    topics = (replace(request.topics[0], partitions=(line,)),)
    state = fetch.ReplicaState(replica_id=replica_id, replica_epoch=-1)
    answer = net.answered(node_id, replace(request, topics=topics, replica_state=state)).responses[0].partitions[0]
    headers = [header.base_offset for _, header in batch.iter_headers(answer.records or b"")]
    return headers, answer.error_code


def replicas_are_intact(net: Net) -> bool:
    """Every replica holds the same bytes, and all of them are sound."""
    contents = []
    for node_id in net.partition("t").replicas:
        log = net.log("t", node_id)
        data = b"".join(
            disks.read_all(net.disks[node_id], segment.paths()[0]) for segment in log.segments if segment.size
        )
        assert not log.damage
        assert all(batch.crc_ok(data, at, header) for at, header in batch.iter_headers(data))
        contents.append(data)
    return len(dict.fromkeys(contents)) == 1
