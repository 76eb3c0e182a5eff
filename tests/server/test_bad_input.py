"""Whatever a client sends, the node answers or closes that connection, serves the others, and stays small."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from struct import pack

import pytest
from server_harness import Topic, Wire, eventually, metric, resident_mb

from insync.server import ask
from insync.server.local_cluster import LocalCluster, LocalNode
from insync.wire import codec
from insync.wire.messages import metadata

MAX_REQUEST = 2_000_000
HELD = 8_000_000
ALL_TOPICS = metadata.MetadataRequest(
    topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
)
IDLE_CONNECTIONS = 2_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    cluster = LocalCluster(
        brokers=1,
        settings={
            "socket.request.max.bytes": str(MAX_REQUEST),
            "queued.max.request.bytes": str(HELD),
            "insync.slow.reader.timeout.ms": "1000",
            "insync.queued.max.response.bytes": str(64 << 20),
            "message.max.bytes": "1500000",
        },
    )
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def node(cluster: LocalCluster) -> Iterator[LocalNode]:
    """Every test ends with a node that still serves."""
    yield cluster.nodes[1]
    assert ask.live_brokers(cluster.nodes[1].address) == (1,)
    assert "level=ERROR" not in cluster.nodes[1].log.read_text()


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> Topic:
    return Topic(cluster, "bad-input")


def _logged(node: LocalNode, text: str) -> None:
    eventually(lambda: text in node.log.read_text(), f"the log says {text}")


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes_cost_their_sender_the_connection(node: LocalNode, seed: int) -> None:
    rng = random.Random(seed)
    with Wire(node) as wire:
        body = rng.randbytes(rng.randrange(1, 2_000))
        wire.send_raw(pack(">i", len(body)) + body)
        assert wire.is_closed()


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_request_is_answered_or_closes_its_connection(node: LocalNode, topic: Topic, seed: int) -> None:
    """P5: nothing that arrives takes the node down."""
    rng = random.Random(seed)
    frame = bytearray(codec.encode_request(topic.produce_request(b"v" * 50), 7, "test"))
    for _ in range(rng.randrange(1, 6)):
        frame[rng.randrange(4, len(frame))] = rng.randrange(256)
    sound = codec.encode_request(ALL_TOPICS, 8, "test")
    with Wire(node) as wire:
        # In one write: the node may close the connection before a second one could leave.
        wire.send_raw(pack(">i", len(frame)) + bytes(frame) + pack(">i", len(sound)) + sound)
        assert wire.is_answered_or_closed()
    with Wire(node) as other:
        other.send(ALL_TOPICS)
        assert other.receive(type(ALL_TOPICS))[0] == other.correlation


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_REQUEST + 1, 2**31 - 1])
def test_an_impossible_length_closes_the_connection_at_once(node: LocalNode, length: int) -> None:
    with Wire(node) as wire:
        wire.send_raw(pack(">i", length))
        assert wire.is_closed()
    _logged(node, f"a frame of {length} bytes")


def test_a_web_browser_is_sent_away(node: LocalNode) -> None:
    with Wire(node) as wire:
        wire.send_raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.is_closed()


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (3, 99), (0, 1)])
def test_an_unknown_api_or_version_closes_the_connection(node: LocalNode, key: int, version: int) -> None:
    """WIRE.md, trap 1."""
    with Wire(node) as wire:
        body = pack(">hhih", key, version, 1, -1)
        wire.send_raw(pack(">i", len(body)) + body)
        assert wire.is_closed()


def test_a_request_that_is_cut_short_closes_the_connection(node: LocalNode, topic: Topic) -> None:
    frame = codec.encode_request(topic.produce_request(b"value"), 1, "test")[:-9]
    with Wire(node) as wire:
        wire.send_raw(pack(">i", len(frame)) + frame)
        assert wire.is_closed()


def test_answers_leave_in_the_order_of_the_requests(node: LocalNode, topic: Topic) -> None:
    """WIRE.md, trap 2: a fetch that waits holds back the answers behind it."""
    with Wire(node) as wire:
        parked = topic.fetch_request(topic.produce(b"first") + 1, max_wait_ms=300)
        first, second = wire.send(parked), wire.send(ALL_TOPICS)
        assert wire.receive(type(parked))[0] == first
        assert wire.receive(type(ALL_TOPICS))[0] == second


def test_many_more_requests_than_fit_are_all_answered_in_order(node: LocalNode) -> None:
    with Wire(node) as wire:
        sent = [wire.send(ALL_TOPICS) for _ in range(500)]
        assert [wire.receive(type(ALL_TOPICS))[0] for _ in sent] == sent


def test_a_write_without_acks_gets_no_answer_and_is_stored(node: LocalNode, topic: Topic) -> None:
    """P1"""
    with Wire(node) as wire:
        wire.send(topic.produce_request(b"no-acks", acks=0))
        asked = wire.send(ALL_TOPICS)
        assert wire.receive(type(ALL_TOPICS))[0] == asked
    assert b"no-acks" in topic.values()


def test_requests_that_never_end_share_a_budget(node: LocalNode) -> None:
    before, wires = resident_mb(node), [Wire(node) for _ in range(30)]
    try:
        for wire in wires:
            try:
                wire.send_raw(pack(">i", MAX_REQUEST) + bytes(MAX_REQUEST - 1))
            except ConnectionError:
                continue  # closed while it was still sending
        _logged(node, "reason=out_of_memory")
        assert metric(node, "unfinished_request_bytes") <= HELD
        assert resident_mb(node) - before < 60
    finally:
        for wire in wires:
            wire.sock.close()
    eventually(lambda: metric(node, "unfinished_request_bytes") == 0, "what was held is given back")


def test_a_client_that_never_reads_is_closed(node: LocalNode, topic: Topic) -> None:
    value = bytes(1_000_000)
    for _ in range(10):
        topic.produce(value)
    before = resident_mb(node)
    with Wire(node) as wire:
        for _ in range(200):
            wire.send(topic.fetch_request(0))
        _logged(node, "reason=slow_reader")
        assert resident_mb(node) - before < 100
        assert wire.is_closed()


def test_thousands_of_idle_connections_are_served_around(node: LocalNode) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before, wires = resident_mb(node), [Wire(node) for _ in range(min(IDLE_CONNECTIONS, hard - 200))]
    try:
        eventually(lambda: metric(node, "connections") >= len(wires), "all are open")
        assert ask.live_brokers(node.address) == (1,)
        assert resident_mb(node) - before < 60
    finally:
        for wire in wires:
            wire.sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: metric(node, "connections") < 50, "they are forgotten")
