"""Well-formed requests with arbitrary values to a node: it answers or the connection is closed.

An input is the stream of frames of a connection. Every input has a new node with a topic `t` with records, a compacted
one `c`, and a group `g`. After the last frame the time advances, so that delayed effects of the requests are seen too.
A node that stops or raises is a finding.
"""

from __future__ import annotations

from functools import cache
from random import Random
from struct import pack
from typing import Any

from fuzz import generate
from fuzz.mutate import mutate_bytes
from fuzz.one_node import OneNode
from fuzz.target import Target
from fuzz.targets import common
from insync.sim.engine.disk import SimDisk
from insync.wire import codec
from insync.wire.errors import MalformedFrameError
from insync.wire.frames import FrameBuffer
from insync.wire.messages import create_topics, fetch, find_coordinator, join_group, produce
from insync.wire.types import ms

MAX_FRAMES = 40
_TYPES = common.request_types()


def run(data: bytes) -> None:
    node = start_prepared_node()
    for frame in _split_frames(data)[:MAX_FRAMES]:
        try:
            node.receive(frame)
        except MalformedFrameError:
            continue
        node.advance(frame[-1] if frame else 0)
    node.advance(700_000 if len(data) % 10 == 0 else 40_000)
    if node.stop is not None:
        raise AssertionError(f"the node stopped: {node.stop.reason}")


def start_prepared_node() -> OneNode:
    """A node with two topics, records in them, and a group."""
    node = OneNode(SimDisk())
    node.advance(3_000)
    for request in _setup_requests():
        node.receive(codec.encode_request(request, 1, "c"))
        node.advance(50)
    for frame in record_requests(node):
        node.receive(frame)
    return node


def _setup_requests() -> list[Any]:
    def topic(name: str, **configs: str) -> Any:
        entries = tuple(
            create_topics.CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()
        )
        return create_topics.CreatableTopic(
            name=name, num_partitions=2, replication_factor=1, assignments=(), configs=entries
        )

    topics = (topic("t"), topic("c", cleanup_policy="compact", segment_bytes="1000"))
    member = join_group.JoinGroupRequest(
        group_id="g",
        session_timeout=ms(10_000),
        rebalance_timeout=ms(10_000),
        member_id="",
        group_instance_id="m",
        protocol_type="consumer",
        protocols=(join_group.JoinGroupRequestProtocol(name="range", metadata=common.SUBSCRIPTION),),
        reason=None,
    )
    return [
        create_topics.CreateTopicsRequest(topics=topics, timeout=ms(1_000), validate_only=False),
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)),
        member,
    ]


def record_requests(node: OneNode) -> list[bytes]:
    """Frames that write to and read from every topic of the node."""
    frames = []
    for topic_id in node.node.image.topics:
        lines = tuple(
            produce.PartitionProduceData(index=index, records=bytes(generate.random_batch(Random(7))))
            for index in (0, 1)
        )
        topic = produce.TopicProduceData(topic_id=topic_id, partition_data=lines)
        request = produce.ProduceRequest(acks=-1, timeout=ms(1_000), topic_data=(topic,))
        frames += [codec.encode_request(request, 1, "c")] * 2
        wanted = tuple(fetch.FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=9_999) for at in (0, 1))
        topics = (fetch.FetchTopic(topic_id=topic_id, partitions=wanted),)
        read = fetch.FetchRequest(
            max_wait=ms(0), min_bytes=0, session_epoch=-1, topics=topics, forgotten_topics_data=()
        )
        frames.append(codec.encode_request(read, 1, "c"))
    return frames


@cache
def _pool() -> generate.Pool:
    return common.pool(*start_prepared_node().node.image.topics)


def seeds() -> list[bytes]:
    return [_join_frames([generate.request(cls, _pool(), Random(at))]) for at, cls in enumerate(_TYPES)]


def mutate(data: bytes, rng: Random) -> bytes:
    frames = _split_frames(data)
    for _ in range(rng.choice((1, 4, 12, 30))):
        frames.insert(rng.randrange(len(frames) + 1), generate.request(common.random_type(_TYPES, rng), _pool(), rng))
    if rng.random() < 0.3:
        at = rng.randrange(len(frames))
        frames[at] = mutate_bytes(frames[at], rng)
    while len(frames) > MAX_FRAMES:
        del frames[rng.randrange(len(frames))]
    return _join_frames(frames)


def _split_frames(data: bytes) -> list[bytes]:
    """The frames before the first malformed one."""
    buffer = FrameBuffer(1 << 20)
    buffer.add(data)
    frames: list[bytes] = []
    try:
        while (frame := buffer.take()) is not None:
            frames.append(frame)
    except MalformedFrameError:
        return frames
    return frames


def _join_frames(frames: list[bytes]) -> bytes:
    return b"".join(pack(">i", len(frame)) + frame for frame in frames)


TARGET = Target(name="nodes", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=90)
