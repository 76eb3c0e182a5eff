"""Produce requests of 16 KB as fast as one connection accepts them, without the work of a client library.

One frame, built once, is sent repeatedly: the producer is not idempotent, so the same bytes are new records each
time. `DEPTH` requests are in flight at any moment.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from struct import Struct
from typing import Any

from cluster_clients import BenchError
from cluster_sides import USER
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData

from insync.client import sasl
from insync.client.apis import Api
from insync.client.request_builder import build_request
from insync.server.local_security import MECHANISM, LocalSecurity
from insync.wire import batch, codec
from insync.wire.errors import ErrorCode
from insync.wire.types import ms

SIZE = 16_384
DEPTH = 10
ACKS_ALL = -1

_LENGTH = Struct(">i")


def connect(address: tuple[str, int], security: LocalSecurity | None) -> socket.socket:
    """With the handshake of TLS, if the cluster is secured."""
    sock = socket.create_connection(address, timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if security is None:
        return sock
    return ssl.create_default_context(cafile=str(security.ca)).wrap_socket(sock, server_hostname=address[0])


def log_in(sock: socket.socket, security: LocalSecurity) -> None:
    credentials = sasl.Credentials(mechanism=MECHANISM, username=USER, password=security.users[USER])

    async def ask(api: Api, values: Mapping[str, Any]) -> Any:
        request = build_request(codec.pinned_request_type(api.key), values)
        return codec.decode_response(exchange(sock, codec.encode_request(request, 1, "bench")), type(request))[1]

    asyncio.run(sasl.authenticate(ask, credentials, "the broker"))


def exchange(sock: socket.socket, frame: bytes) -> bytes:
    """Send one request, and return its answer."""
    sock.sendall(_LENGTH.pack(len(frame)) + frame)
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + _LENGTH.unpack_from(answer)[0]:
        received = sock.recv(1 << 16)
        if not received:
            raise BenchError("the broker closed the connection")
        answer += received
    return answer[4:]


class RawProducer:
    """Sends to partition 0 of one topic, on a connection to its leader."""

    def __init__(self, leader: tuple[str, int], topic: str, security: LocalSecurity | None = None) -> None:
        self._socket = connect(leader, security)
        if security is not None:
            log_in(self._socket, security)
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
