"""One client's connection: frames in, requests to the node, answers out in the order of the requests.

Every request takes a slot in a queue; an answer that is ready waits until those before it have left (WIRE.md, trap 2).
Reading stops while too many slots are taken or while the client does not take its answers, so a client holds at most
what fits its own socket, its slots and one batch of answers. Bytes that make no sense close the connection, with one
line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING

from insync.sansio import Client, Message
from insync.server.frames import FrameBuffer
from insync.server.peers import node_of
from insync.wire.codec import RequestHeader
from insync.wire.edge import Exchange
from insync.wire.errors import MalformedFrame
from insync.wire.fast import Pieces

if TYPE_CHECKING:
    from insync.server.listener import Listener

log = logging.getLogger("insync.server")

PRODUCE = 0
METADATA = 3


class Slot:
    """One request under way; `buffers` is its answer once there is one, empty if none is due."""

    __slots__ = ("buffers", "connection", "exchange", "started")

    def __init__(self, connection: Connection, exchange: Exchange) -> None:
        self.connection = connection
        self.exchange = exchange
        self.started = monotonic_ns()
        self.buffers: Pieces | None = None

    def answer(self, response: Message | None) -> None:
        self.connection.answered(self, response)


class Connection(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.active_ns = monotonic_ns()  # when bytes last came
        self.choked_ns = 0  # since when the client leaves answers unread
        self.peer: int | None = None  # the node at the other end, if it is one
        self.unread = 0
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self._frames = FrameBuffer(listener.limits.max_request_bytes)
        self._held = 0  # bytes of an unfinished frame, as told to the budget
        self._slots: deque[Slot] = deque()
        self._max_in_flight = listener.limits.max_in_flight
        self._greeted = False
        self._oriented = False  # has asked for metadata before
        self._client_id = ""
        self._clients: dict[int, Client] = {}  # by the version of the API they spoke
        self._reading = True
        self._working = False
        self._closed = False
        self._closed_here = False

    @property
    def in_flight(self) -> int:
        return len(self._slots)

    # --- the socket's events -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(high=self.listener.limits.write_buffer_bytes)
        self.listener.joined(self)

    def data_received(self, data: bytes) -> None:
        self.active_ns = monotonic_ns()
        self._frames.add(data)
        self._work()

    def eof_received(self) -> None:
        self._closed = True  # the other side has closed: nobody would read an answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._hold(0)
        self.listener.budget_unread.change(self.unread, 0)
        self._slots.clear()
        self.listener.left(self, self._closed_here)

    def pause_writing(self) -> None:
        self.choked_ns = monotonic_ns()
        self._account_unread()

    def resume_writing(self) -> None:
        self.choked_ns = 0
        self._account_unread()
        self._work()

    # --- requests ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Take frames while there is room for their answers."""
        if self._working or self._closed:
            return
        self._working = True
        try:
            while not self._closed and not self.choked_ns and len(self._slots) < self._max_in_flight:
                frame = self._frames.take()
                if frame is None:
                    break
                self._request(frame)
        except MalformedFrame as error:
            self.close("bad_request", str(error))
        finally:
            self._working = False
        if not self._closed:
            self._hold(len(self._frames))
            self._read_if(not self.choked_ns and len(self._slots) < self._max_in_flight)

    def _request(self, frame: bytes) -> None:
        listener = self.listener
        exchange = listener.edge.receive(frame)
        header = exchange.header
        if not self._greeted:
            self._greet(header)
        slot = Slot(self, exchange)
        self._slots.append(slot)
        listener.traffic.received(header.api_key, len(frame))
        if exchange.request is None:
            self._answer(slot, None)
        elif header.api_key == METADATA:
            listener.metadata(exchange.request, slot.answer, self._client(header.api_version), again=self._oriented)
            self._oriented = True
        else:
            listener.request(exchange.request, slot.answer, self._client(header.api_version))

    def _greet(self, header: RequestHeader) -> None:
        self._greeted = True
        self._client_id = header.client_id or ""
        self.peer = node_of(header.client_id)
        if self.peer is not None:
            self.listener.peer_joined(self.peer)

    def _client(self, version: int) -> Client:
        client = self._clients.get(version)
        if client is None:
            address = self._transport.get_extra_info("peername") or ("",)
            client = self._clients[version] = Client(self._client_id, str(address[0]), version)
        return client

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, slot: Slot, response: Message | None) -> None:
        if self._closed:
            return
        if response is not None:
            self._answer(slot, response)
        elif slot.exchange.header.api_key == PRODUCE and slot.exchange.request.acks == 0:
            slot.buffers = []
            if self._slots[0] is slot:
                self._flush()
        else:
            header = slot.exchange.header
            self.close("not_served", f"api {header.api_key} version {header.api_version}")

    def _answer(self, slot: Slot, response: Message | None) -> None:
        slot.buffers = self.listener.edge.answer(slot.exchange, response)
        if self._slots[0] is slot:
            self._flush()

    def _flush(self) -> None:
        slots, traffic, now = self._slots, self.listener.traffic, monotonic_ns()
        while slots and (buffers := slots[0].buffers) is not None:
            slot = slots.popleft()
            size = 0
            for piece in buffers:
                size += len(piece)
            traffic.sent(slot.exchange.header.api_key, size, now - slot.started)
            if size:
                self._transport.writelines(buffers)
        if not self._reading:
            self._work()

    # --- room --------------------------------------------------------------------------------------------------------

    def _read_if(self, room: bool) -> None:
        if room is self._reading:
            return
        self._reading = room
        if room:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _hold(self, size: int) -> None:
        if size != self._held:
            before, self._held = self._held, size
            if not self.listener.budget_received.change(before, size):
                self.close("out_of_memory", f"{size} bytes of an unfinished request")

    def _account_unread(self) -> None:
        before, self.unread = self.unread, self._transport.get_write_buffer_size()
        if not self.listener.budget_unread.change(before, self.unread):
            self.close("out_of_memory", f"{self.unread} bytes of answers unread")

    def finish(self) -> None:
        """The node has ended: what was answered still goes out."""
        self._closed = self._closed_here = True
        self._transport.close()

    def close(self, why: str, detail: str) -> None:
        if self._closed:
            return
        self._closed = self._closed_here = True
        address = self._transport.get_extra_info("peername")
        log.info("event=connection_closed reason=%s client=%s detail=%r", why, address, detail)
        self._transport.abort()
