"""A blocking client for tests of real processes. It uses the node's own versions and retries only where a test asks for
it. Every wait has a condition and a timeout."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from struct import pack, unpack
from typing import Any, TypeVar
from uuid import UUID

from insync.server import node_query
from insync.server.local_cluster import LocalCluster, LocalNode
from insync.wire import batch, codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics, fetch, init_producer_id, metadata, produce
from insync.wire.types import ms

T = TypeVar("T")

TIMEOUT_S = 20.0
"""Much longer than anything takes; only a defect waits this long."""


def eventually(
    condition: Callable[[], T | None], what: str, timeout_s: float = TIMEOUT_S, *, interval_s: float = 0.005
) -> T:
    """The first true value of `condition`."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still not: {what}")
        time.sleep(interval_s)
    return value


class Wire:
    """One connection. Requests are sent and responses returned without interpretation."""

    def __init__(self, node: LocalNode) -> None:
        self.sock = socket.create_connection(node.address, TIMEOUT_S)
        self.correlation = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, request: Any) -> int:
        self.correlation += 1
        frame = codec.encode_request(request, self.correlation, "test")
        self.send_raw(pack(">i", len(frame)) + frame)
        return self.correlation

    def send_raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def receive(self, kind: Any) -> tuple[int, Any]:
        """(correlation id, answer to a request of this class)."""
        (length,) = unpack(">i", self._exactly(4))
        return codec.decode_response(self._exactly(length), kind)

    def is_closed(self) -> bool:
        """Whether the node closes this connection within the timeout; what it sends before that is ignored."""
        try:
            while self.sock.recv(65_536):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True

    def is_answered_or_closed(self) -> bool:
        """Whether the node reacts to what was sent. If it closes with bytes unread, the connection is reset."""
        try:
            self.sock.recv(4)
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the node")
            data += piece
        return bytes(data)


class Topic:
    """A topic with one partition, which is written and read through its leader."""

    def __init__(self, cluster: LocalCluster, name: str, **configs: str) -> None:
        self.cluster = cluster
        self.name = name
        replicas = min(3, len(cluster.nodes))
        wanted = create_topics.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=replicas,
            assignments=(),
            configs=tuple(create_topics.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()),
        )
        request = create_topics.CreateTopicsRequest(topics=(wanted,), timeout=ms(10_000), validate_only=False)
        answer = node_query.send_request(self._any().address, request, TIMEOUT_S).topics[0]
        assert answer.error_code is ErrorCode.none, answer
        self.id: UUID = answer.topic_id
        eventually(lambda: self.partition() and self.partition().leader_id > 0, f"{name} has a leader")
        self._producer_id = -1
        self._next_sequence = 0

    def partition(self, node: LocalNode | None = None) -> Any:
        """As one running broker sees it; None if it cannot be asked or does not know it."""
        asked = metadata.MetadataRequestTopic(topic_id=None, name=self.name)
        request = metadata.MetadataRequest(
            topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        try:
            partitions = node_query.send_request((node or self._any()).address, request).topics[0].partitions
        except node_query.NoAnswerError:
            return None
        return partitions[0] if partitions else None

    def leader(self) -> LocalNode:
        def known() -> LocalNode | None:
            partition = self.partition()
            node = self.cluster.nodes.get(partition.leader_id) if partition else None
            return node if node is not None and node.is_running else None

        return eventually(known, f"{self.name} has a live leader")

    def fail_over(self) -> None:
        """Kill the leader, produce b"after" within five seconds, and wait until the restarted node is in sync."""
        dead = self.leader().id
        self.cluster.kill(dead)
        self.produce(b"after", timeout_s=5.0)
        self.cluster.start_node(dead)
        self.cluster.wait_until_ready()
        eventually(lambda: len(self.partition().isr_nodes) == 3, "the restarted node is in sync")

    def try_produce(self, value: bytes, acks: int = -1) -> int | None:
        """The record's offset, or None if the client should retry."""
        return self._try(self.produce_request(value, acks))

    def _try(self, request: Any) -> int | None:
        try:
            answer = node_query.send_request(self.leader().address, request, 5.0)
        except node_query.NoAnswerError:
            return None
        line = answer.responses[0].partition_responses[0]
        return line.base_offset if line.error_code is ErrorCode.none else None

    def produce(self, value: bytes, timeout_s: float = TIMEOUT_S) -> int:
        """Like a retrying, idempotent client (P4): a retry after a lost response is not written again."""
        if self._producer_id < 0:
            self._producer_id = eventually(self._new_producer_id, "a producer id")
        sequence = self._next_sequence
        self._next_sequence += 1

        def attempt() -> tuple[int] | None:
            offset = self._try(self.produce_request(value, -1, self._producer_id, sequence))
            return None if offset is None else (offset,)

        return int(eventually(attempt, "a write is acknowledged", timeout_s)[0])

    def _new_producer_id(self) -> int | None:
        request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout=ms(60_000))
        try:
            answer = node_query.send_request(self._any().address, request)
        except node_query.NoAnswerError:
            return None
        return int(answer.producer_id) if answer.error_code is ErrorCode.none else None

    def produce_request(self, value: bytes, acks: int = -1, producer_id: int = -1, sequence: int = -1) -> Any:
        records = bytes(
            batch.build(
                [batch.NewRecord(key=None, value=value)],
                timestamp_ms=1_700_000_000_000,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
            )
        )
        data = produce.PartitionProduceData(index=0, records=records)
        topic = produce.TopicProduceData(topic_id=self.id, partition_data=(data,))
        return produce.ProduceRequest(transactional_id=None, acks=acks, timeout=ms(5_000), topic_data=(topic,))

    def fetch_request(self, offset: int, *, max_wait_ms: int = 0, max_bytes: int = 50 << 20) -> Any:
        wanted = fetch.FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=max_bytes,
        )
        topic = fetch.FetchTopic(topic_id=self.id, partitions=(wanted,))
        return fetch.FetchRequest(
            max_wait=ms(max_wait_ms),
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=(topic,),
            forgotten_topics_data=(),
            rack_id="",
        )

    def values(self) -> list[bytes]:
        """Everything that a consumer can read, from the leader."""
        values: list[bytes] = []
        offset = 0
        while True:
            (data,) = eventually(partial(self._try_fetch, offset), f"{self.name} can be read")
            if not data:
                return values
            for position, header in batch.iter_headers(data):
                values += [record.value or b"" for record in batch.records(data, position)]
                offset = header.next_offset

    def _try_fetch(self, offset: int) -> tuple[bytes] | None:
        try:
            answer = (
                node_query.send_request(self.leader().address, self.fetch_request(offset), 5.0)
                .responses[0]
                .partitions[0]
            )
        except node_query.NoAnswerError:
            return None
        return (bytes(answer.records or b""),) if answer.error_code is ErrorCode.none else None

    def _any(self) -> LocalNode:
        return next(node for node in self.cluster.nodes.values() if node.is_running and node.is_broker)


def metric(node: LocalNode, name: str) -> float:
    """The sum over all labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics", timeout=TIMEOUT_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"insync_{name} ", f"insync_{name}{{"))
    )


def resident_mb(node: LocalNode) -> int:
    with open(f"/proc/{node.pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) // 1_024
