"""Produce requests of 16 KB as fast as one connection accepts them, without the work of a client library.

One frame, built once, is sent repeatedly: the producer is not idempotent, so the same bytes are new records each
time. `DEPTH` requests are in flight at any moment.
"""

from __future__ import annotations

import socket
import time
from struct import Struct

from cluster_clients import BenchError
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData

from insync.wire import batch, codec
from insync.wire.errors import ErrorCode
from insync.wire.types import ms

SIZE = 16_384
DEPTH = 10
ACKS_ALL = -1

_LENGTH = Struct(">i")


class RawProducer:
    """Sends to partition 0 of one topic, on a connection to its leader."""

    def __init__(self, leader: tuple[str, int], topic: str) -> None:
        self._socket = socket.create_connection(leader, timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        frame = codec.encode_request(_request(topic), 1, "bench")
        self._frame = _LENGTH.pack(len(frame)) + frame

    def produce(self, count: int) -> None:
        """Return when all requests are acknowledged by the whole ISR."""
        asked = min(DEPTH, count)
        self._socket.sendall(self._frame * asked)
        for _ in range(count):
            self._check(self._answer())
            if asked < count:
                asked += 1
                self._socket.sendall(self._frame)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def _answer(self) -> bytes:
        (length,) = _LENGTH.unpack(self._answers.read(4))
        return self._answers.read(length)

    def _check(self, answer: bytes) -> None:
        _, response = codec.decode_response(answer, ProduceRequest)
        error = response.responses[0].partition_responses[0].error_code
        if error is not ErrorCode.none:
            raise BenchError(f"a produce request was refused: {error.name}")


def _request(topic: str) -> ProduceRequest:
    """One batch of sixteen records."""
    records = [batch.NewRecord(None, b"x" * (SIZE // 16 - 16)) for _ in range(16)]
    built = batch.build(records, timestamp_ms=int(time.time() * 1_000))
    data = PartitionProduceData(index=0, records=bytes(built))
    return ProduceRequest(
        acks=ACKS_ALL, timeout=ms(30_000), topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )
