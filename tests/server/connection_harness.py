"""A listener with connections over fake sockets: what arrives, what is sent, and the requests that the node gets."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from struct import pack, unpack
from typing import Any, cast
from uuid import UUID

from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData

from insync.sansio import UNKNOWN_CLIENT, Client, HangUp, Message
from insync.security.quotas import QuotaManager
from insync.server.acceptor import Acceptor
from insync.server.connection import Connection
from insync.server.divided import Answer
from insync.server.limits import Limits
from insync.server.listener import Listener
from insync.server.peers import Peers
from insync.server.pending import PendingConnections
from insync.server.traffic import Traffic
from insync.server.turns import Turns
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, init_producer_id, metadata, produce
from insync.wire.types import NO_DURATION, ms
from insync.wire.versions.translator import VersionTranslator

TOPIC_ID = UUID(int=7)


class FlowControl:
    """A pretended socket: whether it is read, and how it ended."""

    def __init__(self, high: int) -> None:
        self.high = high
        self.reading = True
        self.ended = ""

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class Transport(FlowControl):
    """Keeps what is written. If it is `stuck`, the peer does not read."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(high=1 << 20)
        self.connection = connection
        self.written = bytearray()
        self.writes = 0
        self.buffered = 0
        self.stuck = False

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.1", 5_000)

    def writelines(self, pieces: list[bytes]) -> None:
        self.writes += 1
        for piece in pieces:
            self.written += piece
        if self.stuck:
            before, self.buffered = self.buffered, self.buffered + sum(map(len, pieces))
            if before <= self.high < self.buffered:
                self.connection.pause_writing()


class Names:
    def id_of(self, name: str) -> UUID | None:
        return TOPIC_ID if name == "known" else None

    def name_of(self, topic_id: UUID) -> str | None:
        return "known" if topic_id == TOPIC_ID else None


class NoPeers:
    """Connections of other nodes have no effect."""

    def __init__(self) -> None:
        self.lost: dict[int, float] = {}

    def on_connected(self, peer: int) -> None: ...
    def is_known(self, peer: int) -> bool:
        return peer < 10

    def on_closed_here(self, peer: int) -> None: ...
    def on_dropped(self, peer: int) -> None: ...


START_NS = 1 << 62
"""A stopped clock, set far ahead: a turn that has begun has time left, however slow the machine is."""


PLAINTEXT = Acceptor("PLAINTEXT", serves_nodes=True)


class ConnectionHarness:
    """`asked` has the requests that the node has not answered, by token.

    `turns` has, in order, for every request whether another one follows, and "ended" for every end of a turn.
    """

    def __init__(self, acceptor: Acceptor = PLAINTEXT, **limits: Any) -> None:
        self.acceptor = acceptor
        self.asked: dict[int, tuple[Message, Answer]] = {}
        self.abandoned: list[int] = []
        self.asker = UNKNOWN_CLIENT
        self.turn_open = False  # the last request said that another follows
        self.turns: list[bool | str] = []
        self._tokens = 0
        self._soon: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.listener = Listener(
            limits=Limits(**limits),
            pending=PendingConnections(limit=10, timeout_ms=10_000),
            turns=Turns(self._soon.append, lambda: START_NS),
            request=self._request,
            end_turn=self._end_turn,
            abandon=lambda token, _message: self.abandoned.append(token),
            peers=cast(Peers, NoPeers()),
            known_brokers=lambda: [1],
            traffic=Traffic(),
            quotas=QuotaManager(),
            translator=VersionTranslator(Names()),
        )

        self.listener.call_later = lambda delay_s, callback: self.timers.append((delay_s, callback))  # type: ignore[method-assign]

    def _request(self, message: Message, answer: Answer, client: Client, more: bool) -> int:
        self.turn_open = more
        self.turns.append(more)
        self._tokens += 1
        self.asked[self._tokens] = (message, answer)
        self.asker = client
        return self._tokens

    def _end_turn(self) -> None:
        self.turn_open = False
        self.turns.append("ended")

    def run_turns(self) -> None:
        """Run the loop until no connection waits for a turn."""
        while self._soon:
            self._soon.popleft()()

    def run_timers(self) -> None:
        """The time of every timer has come."""
        timers, self.timers = self.timers, []
        for _, callback in timers:
            callback()
        self.run_turns()

    def connect(self) -> Peer:
        return Peer(self)

    def answer(self, token: int, response: Message | HangUp | None) -> None:
        self.asked.pop(token)[1](response)
        self.run_turns()


class Peer:
    """The client's end of a connection."""

    def __init__(self, harness: ConnectionHarness) -> None:
        self.connection = Connection(harness.listener, harness.acceptor)
        self.transport = Transport(self.connection)
        self.connection.connection_made(cast(asyncio.Transport, self.transport))
        self._correlation = 0

    def send(self, request: Any, client_id: str = "test") -> int:
        self._correlation += 1
        frame = codec.encode_request(request, self._correlation, client_id)
        self.connection.data_received(pack(">i", len(frame)) + frame)
        return self._correlation

    def disconnect(self) -> None:
        self.connection.connection_lost(None)

    @property
    def received(self) -> list[int]:
        """The correlation ids of the answers that have arrived."""
        data, ids = bytes(self.transport.written), list[int]()
        while data:
            (length,) = unpack(">i", data[:4])
            ids.append(unpack(">i", data[4:8])[0])
            data = data[4 + length :]
        return ids

    @property
    def ended(self) -> str:
        return self.transport.ended


def ask_id() -> Any:
    return init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout=ms(1))


def new_id() -> Any:
    return init_producer_id.InitProducerIdResponse(
        throttle_time=NO_DURATION, error_code=ErrorCode.none, producer_id=1, producer_epoch=0
    )


def ask_records() -> Any:
    return fetch.FetchRequest(max_wait=ms(500), min_bytes=1, topics=(), forgotten_topics_data=())


def records(size: int = 0) -> Any:
    line = fetch.PartitionData(
        partition_index=0, high_watermark=0, aborted_transactions=None, records=bytes(size), error_code=ErrorCode.none
    )
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(line,))
    return fetch.FetchResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, session_id=0, responses=(topic,))


def ask_topics() -> Any:
    return metadata.MetadataRequest(topics=(), include_topic_authorized_operations=False)


def topics() -> Any:
    return metadata.MetadataResponse(throttle_time=NO_DURATION, brokers=(), topics=(), error_code=ErrorCode.none)


def write(size: int = 10, acks: int = -1) -> Any:
    data = produce.PartitionProduceData(index=0, records=bytes(size))
    topic = produce.TopicProduceData(topic_id=TOPIC_ID, partition_data=(data,))
    return produce.ProduceRequest(transactional_id=None, acks=acks, timeout=ms(1_000), topic_data=(topic,))


def written() -> Any:
    return produce.ProduceResponse(responses=())


def write_by_name(topic: str, acks: int) -> Any:
    data = PartitionProduceData(index=0, records=b"")
    topics = (TopicProduceData(name=topic, partition_data=(data,)),)
    return ProduceRequest(transactional_id=None, acks=acks, timeout=ms(1_000), topic_data=topics)
