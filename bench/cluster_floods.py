"""Floods: requests that a client sends as fast as the node accepts them, over several connections at once.

A flood is a list of frames that are sent in turn without waiting for answers; answers are read and discarded. It runs
in a separate process, which counts the answers.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from typing import Any

from kio.schema.list_offsets.v9 import request as list_offsets
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData

from insync.wire import batch, codec
from insync.wire.frames import framed
from insync.wire.messages import (
    api_versions,
    create_topics,
    describe_configs,
    fetch,
    find_coordinator,
    init_producer_id,
    join_group,
    metadata,
    offset_commit,
    offset_fetch,
)
from insync.wire.types import ms

Address = tuple[str, int]
CONNECTIONS = 4
CHUNK = 1 << 18
CLIENT_ID = "flood"
TOPIC_RESOURCE = 2
LATEST = -1


def frame_of(request: Any, client_id: str = CLIENT_ID) -> bytes:
    return b"".join(framed(codec.encode_request(request, 1, client_id)))


def produce_request(topic: str, acks: int, records: int, size: int, partitions: int = 1) -> ProduceRequest:
    built = bytes(batch.build([batch.NewRecord(None, b"x" * size)] * records, timestamp_ms=int(time.time() * 1_000)))
    data = tuple(PartitionProduceData(index=index, records=built) for index in range(partitions))
    return ProduceRequest(
        acks=acks, timeout=ms(30_000), topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )


def metadata_of_all() -> Any:
    return metadata.MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def metadata_of(name: str) -> Any:
    topic = metadata.MetadataRequestTopic(topic_id=None, name=name)
    return metadata.MetadataRequest(
        topics=(topic,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def list_offsets_of(topic: str, partitions: int) -> Any:
    asked = tuple(
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)
    )
    return list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=asked),),
    )


def fetch_of(topic_id: Any, partitions: int, partition_max_bytes: int = 1 << 20) -> Any:
    asked = tuple(
        fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=partition_max_bytes)
        for index in range(partitions)
    )
    return fetch.FetchRequest(
        max_wait=ms(0),
        min_bytes=0,
        max_bytes=50 << 20,
        topics=(fetch.FetchTopic(topic_id=topic_id, partitions=asked),),
        forgotten_topics_data=(),
        rack_id="",
    )


def create_topics_of(prefix: str, count: int, *, validate_only: bool, replication_factor: int = 3) -> Any:
    topics = tuple(
        create_topics.CreatableTopic(
            name=f"{prefix}-{number}",
            num_partitions=1,
            replication_factor=replication_factor,
            assignments=(),
            configs=(),
        )
        for number in range(count)
    )
    return create_topics.CreateTopicsRequest(topics=topics, timeout=ms(60_000), validate_only=validate_only)


def describe_configs_of(topics: list[str]) -> Any:
    resources = tuple(
        describe_configs.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        for name in topics
    )
    return describe_configs.DescribeConfigsRequest(resources=resources, include_synonyms=True)


def offset_commit_of(group: str, topic: str, partitions: int) -> Any:
    committed = tuple(
        offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
        for index in range(partitions)
    )
    return offset_commit.OffsetCommitRequest(
        group_id=group, member_id="", topics=(offset_commit.OffsetCommitRequestTopic(name=topic, partitions=committed),)
    )


def offset_fetch_of(group: str) -> Any:
    asked = offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None)
    return offset_fetch.OffsetFetchRequest(groups=(asked,))


def join_group_of(group: str) -> Any:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"x" * 100)
    return join_group.JoinGroupRequest(
        group_id=group,
        session_timeout=ms(6_000),
        rebalance_timeout=ms(10_000),
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )


def init_producer_id_request() -> Any:
    return init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout=ms(60_000))


def find_coordinator_of(group: str) -> Any:
    return find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))


def api_versions_request() -> Any:
    return api_versions.ApiVersionsRequest(client_software_name="flood", client_software_version="1")


# --- processes -------------------------------------------------------------------------------------------------------


class FloodProcess:
    """Runs `work(stop)` in a separate process until `finish`, which returns its count."""

    def __init__(self, work: Callable[[Event], int]) -> None:
        context = multiprocessing.get_context("fork")
        self._stop = context.Event()
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(work, self._stop, theirs), daemon=True)
        self._process.start()

    def finish(self) -> int:
        self._stop.set()
        count: int = self._ours.recv() if self._ours.poll(30) else -1
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
        return count


def _run(work: Callable[[Event], int], stop: Event, results: Any) -> None:
    results.send(work(stop))


def pipelined(address: Address, frames: list[bytes], connections: int = CONNECTIONS) -> Callable[[Event], int]:
    """Send without waiting for answers, on several connections; a connection that the node closes is reopened."""

    def work(stop: Event) -> int:
        answered, selector = 0, selectors.DefaultSelector()
        load = b"".join(frames)
        load *= max(1, CHUNK // len(load))
        for _ in range(connections):
            _open(selector, address, load)
        while not stop.is_set():
            for key, events in selector.select(0.1):
                answered += _exchange(selector, key, events, address, load)
        return answered

    return work


def _open(selector: selectors.BaseSelector, address: Address, load: bytes) -> None:
    opened = socket.create_connection(address, timeout=60)
    opened.setblocking(False)
    selector.register(opened, selectors.EVENT_READ | selectors.EVENT_WRITE, memoryview(load))


def _exchange(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, events: int, address: Address, load: bytes
) -> int:
    """Read answers; returns the number of bytes."""
    sock: socket.socket = key.fileobj  # type: ignore[assignment]
    received = 0
    try:
        if events & selectors.EVENT_READ:
            received = len(sock.recv(1 << 20))
            if not received:
                raise ConnectionError
        if events & selectors.EVENT_WRITE:
            rest = key.data[sock.send(key.data) :]
            selector.modify(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, rest or memoryview(load))
    except BlockingIOError:
        pass
    except OSError:
        selector.unregister(sock)
        sock.close()
        _open(selector, address, load)
    return received


def reconnecting(address: Address, frame: bytes) -> Callable[[Event], int]:
    """Open a connection, send one request, and close it without reading the answer."""

    def work(stop: Event) -> int:
        count = 0
        while not stop.is_set():
            for _ in range(50):
                with socket.create_connection(address, timeout=60) as opened:
                    opened.sendall(frame)
                count += 1
        return count

    return work


def librdkafka(bootstrap: str, topic: str) -> Callable[[Event], int]:
    """A stock producer: acks=1, one record per batch, as many requests in flight as allowed."""

    def work(stop: Event) -> int:
        from confluent_kafka import Producer

        delivered = [0]

        def on_delivery(error: object, _: object) -> None:
            delivered[0] += error is None

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": 1,
                "linger.ms": 0,
                "batch.num.messages": 1,
                "max.in.flight.requests.per.connection": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        while not stop.is_set():
            try:
                for _ in range(100):
                    producer.produce(topic, b"x" * 20, partition=0, on_delivery=on_delivery)
            except BufferError:
                producer.poll(0.01)
            producer.poll(0)
        producer.purge()
        producer.poll(0)
        return delivered[0]

    return work
