"""Whatever a client sends, the node answers or closes the connection, serves others, and uses little memory."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from dataclasses import replace
from struct import pack
from typing import Any

import pytest

from insync.server import node_query
from insync.server.local_cluster import LocalCluster, LocalNode
from insync.wire import batch, bounds_check, codec, compression
from insync.wire.errors import ErrorCode
from insync.wire.messages import api_versions, metadata
from tests.server.server_harness import Topic, Wire, eventually, metric, resident_mb
from tests.wire.batch_harness import write_crc

MAX_REQUEST = 2_000_000
HELD = 8_000_000
ALL_TOPICS = metadata.MetadataRequest(
    topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
)
IDLE_CONNECTIONS = 2_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = {
        "socket.request.max.bytes": str(MAX_REQUEST),
        "queued.max.request.bytes": str(HELD),
        "insync.slow.reader.timeout.ms": "1000",
        "insync.slow.request.timeout.ms": "1500",
        "insync.queued.max.response.bytes": str(64 << 20),
        "message.max.bytes": "1500000",
    }
    with LocalCluster(brokers=1, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def node(cluster: LocalCluster) -> Iterator[LocalNode]:
    """Every test ends with a node that still serves."""
    yield cluster.nodes[1]
    assert node_query.query_live_brokers(cluster.nodes[1].address) == (1,)
    assert "level=ERROR" not in cluster.nodes[1].log.read_text()


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> Topic:
    return Topic(cluster, "bad-input")


def _logged(node: LocalNode, text: str) -> None:
    eventually(lambda: text in node.log.read_text(), f"the log says {text}")


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes_close_the_connection(node: LocalNode, seed: int) -> None:
    rng = random.Random(seed)
    with Wire(node) as wire:
        body = rng.randbytes(rng.randrange(1, 2_000))
        wire.send_raw(pack(">i", len(body)) + body)
        assert wire.is_closed()


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_request_is_answered_or_closes_its_connection(node: LocalNode, topic: Topic, seed: int) -> None:
    """P5: no input stops the node."""
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
    _logged(node, f"frame length {length} is not between")


def test_an_http_request_closes_the_connection(node: LocalNode) -> None:
    with Wire(node) as wire:
        wire.send_raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.is_closed()


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (3, 99), (0, 1)])
def test_an_unknown_api_or_version_closes_the_connection(node: LocalNode, key: int, version: int) -> None:
    """W1."""
    with Wire(node) as wire:
        body = pack(">hhih", key, version, 1, -1)
        wire.send_raw(pack(">i", len(body)) + body)
        assert wire.is_closed()


def test_a_truncated_request_closes_the_connection(node: LocalNode, topic: Topic) -> None:
    frame = codec.encode_request(topic.produce_request(b"value"), 1, "test")[:-9]
    with Wire(node) as wire:
        wire.send_raw(pack(">i", len(frame)) + frame)
        assert wire.is_closed()


def test_answers_are_sent_in_the_order_of_the_requests(node: LocalNode, topic: Topic) -> None:
    """W5: a fetch that waits holds back the answers behind it."""
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


def test_thousands_of_idle_connections_do_not_delay_others(node: LocalNode) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before, wires = resident_mb(node), [Wire(node) for _ in range(min(IDLE_CONNECTIONS, hard - 200))]
    try:
        eventually(lambda: metric(node, "connections") >= len(wires), "all are open")
        assert node_query.query_live_brokers(node.address) == (1,)
        assert resident_mb(node) - before < 60
    finally:
        for wire in wires:
            wire.sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: metric(node, "connections") < 50, "they are forgotten")


def test_a_write_without_acks_that_fails_closes_the_connection(node: LocalNode, topic: Topic) -> None:
    """P1, W6: there is no response that could carry the error."""
    damaged = topic.produce_request(b"never stored", acks=0)
    records = bytearray(damaged.topic_data[0].partition_data[0].records)
    records[-1] ^= 1
    with Wire(node) as wire:
        wire.send(_with_records(damaged, bytes(records)))
        assert wire.is_closed()
    _logged(node, "acks=0, partition 0: corrupt_message")
    assert b"never stored" not in topic.values()


def test_a_damaged_batch_is_refused_and_the_connection_stays_open(node: LocalNode, topic: Topic) -> None:
    """P5"""
    sound = topic.produce_request(b"sound")
    records = bytearray(sound.topic_data[0].partition_data[0].records)
    records[-1] ^= 1
    with Wire(node) as wire:
        wire.send(_with_records(sound, bytes(records)))
        line = wire.receive(type(sound))[1].responses[0].partition_responses[0]
        assert line.error_code is ErrorCode.corrupt_message
        wire.send(sound)
        line = wire.receive(type(sound))[1].responses[0].partition_responses[0]
        assert line.error_code is ErrorCode.none


def _with_records(request: Any, records: bytes) -> Any:
    data = replace(request.topic_data[0].partition_data[0], records=records)
    return replace(request, topic_data=(replace(request.topic_data[0], partition_data=(data,)),))


def test_unknown_tags_are_skipped(node: LocalNode) -> None:
    asked = api_versions.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    frame = codec.encode_request(asked, 1, "test")
    assert frame.endswith(b"\x00")
    tagged = frame[:-1] + b"\x01" + b"\xe8\x07" + b"\x05hello"
    with Wire(node) as wire:
        wire.send_raw(pack(">i", len(tagged)) + tagged)
        assert wire.receive(type(asked))[1].error_code is ErrorCode.none


def test_a_request_that_trickles_in_is_closed_and_others_are_served(node: LocalNode) -> None:
    """A few bytes now and then keep a connection from being idle, but its request never becomes complete."""
    before = node.log.read_text().count("reason=slow_request")
    wires = [Wire(node) for _ in range(50)]
    for wire in wires:
        wire.send_raw(pack(">i", 1_000))

    def all_closed() -> bool:
        for wire in wires:
            try:
                wire.send_raw(b"\x00")
            except ConnectionError:
                continue
        assert node_query.query_live_brokers(node.address) == (1,)
        return node.log.read_text().count("reason=slow_request") - before == len(wires)

    try:
        eventually(all_closed, "every one of them is closed, with one line in the log")
    finally:
        for wire in wires:
            wire.sock.close()


@pytest.mark.parametrize("codec_name", ["gzip", "snappy", "lz4", "zstd"])
def test_a_decompression_bomb_is_refused_without_decompressing_it(
    node: LocalNode, cluster: LocalCluster, codec_name: str
) -> None:
    """P5: what is too large is not decompressed, and the node needs no memory for it."""
    keyed = Topic(cluster, f"bomb-{codec_name}")
    plain = keyed.produce_request(b"x").topic_data[0].partition_data[0].records
    body = _bomb(codec_name)
    before = resident_mb(node)
    with Wire(node) as wire:
        request = _with_records(keyed.produce_request(b"x"), _repacked(plain, codec_name, body))
        wire.send(request)
        line = wire.receive(type(request))[1].responses[0].partition_responses[0]
    assert line.error_code is ErrorCode.message_too_large
    assert "decompressed" in line.error_message
    assert resident_mb(node) - before < 100
    assert keyed.values() == []


def _bomb(codec_name: str) -> bytes:
    """About a megabyte that would decompress to gigabytes."""
    zeros = bytes(64 << 20)
    packed = compression.compress(compression.NAMES.index(codec_name), zeros)
    if codec_name in ("gzip", "zstd"):
        return packed * 12  # these may be joined
    if codec_name == "snappy":
        return b"\xff\xff\xff\xff\x0f" + packed[-1_000:]  # a block says how large it will be
    return packed[:-4] + packed[7:-4] * 4 + packed[-4:]


def _repacked(plain: bytes, codec_name: str, body: bytes) -> bytes:
    """The header of `plain`, made to fit `body`."""
    data = bytearray(plain[: batch.HEADER_SIZE]) + body
    data[8:12] = pack(">i", len(data) - 12)
    data[21:23] = pack(">h", compression.NAMES.index(codec_name))
    return bytes(write_crc(data))


def test_an_array_that_claims_billions_of_entries_closes_the_connection(node: LocalNode) -> None:
    with Wire(node) as wire:
        body = pack(">hhih", 3, 1, 1, -1) + pack(">i", 2**31 - 1)
        wire.send_raw(pack(">i", len(body)) + body)
        assert wire.is_closed()


def test_a_request_with_too_many_entries_closes_the_connection(node: LocalNode) -> None:
    """An entry has three bytes on the wire and hundreds in memory."""
    count = bounds_check.MAX_ENTRIES + 1
    before = resident_mb(node)
    with Wire(node) as wire:
        body = pack(">hhih", 3, 1, 1, -1) + pack(">i", count) + b"\x00\x01a" * count
        wire.send_raw(pack(">i", len(body)) + body)
        assert wire.is_closed()
    _logged(node, "entries in one request")
    assert resident_mb(node) - before < 50


def test_a_bad_request_is_logged_in_one_line(node: LocalNode) -> None:
    with Wire(node) as wire:
        me = "client={}:{} ".format(*wire.sock.getsockname())
        wire.send_raw(pack(">i", 10) + bytes(10) + pack(">i", -1))
        assert wire.is_closed()
    _logged(node, me)
    assert node.log.read_text().count(me) == 1
