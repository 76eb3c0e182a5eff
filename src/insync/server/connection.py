"""One client's connection: frames in, requests to the node, answers out in the order of the requests.

Every request takes a slot in a queue; an answer that is ready waits until those before it have left (W5).

A connection takes requests while it has room. A request that is not answered at once takes some, and so does an answer
that has to wait; one that waits for records takes all of it, because what it brings may be as large as a fetch may be.
A request with many entries reaches the node in parts (see `divided`), and a large one is read from the buffer, decoded
and handled in separate units of a turn. The next request of the connection waits until all of it has reached the node.

Reading stops while there is no room, while requests that have arrived wait for a turn (see `turns`), or while the
client does not take its answers: the rest stays in its socket. Bytes that make no sense close the connection, with one
line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING

from insync.escaping import log_value
from insync.node.handlers import PARTS
from insync.sansio import Client, HangUp, Message
from insync.server.divided import Answer, DividedRequest
from insync.server.peers import node_of
from insync.wire.codec import RequestHeader
from insync.wire.errors import MalformedFrameError
from insync.wire.frames import FrameBuffer
from insync.wire.handwritten_responses import Pieces
from insync.wire.versions.context import RequestContext

if TYPE_CHECKING:
    from insync.server.listener import Listener, Question

log = logging.getLogger("insync.server")

PRODUCE = 0
FETCH = 1
METADATA = 3
MUCH = 1 << 16
"""So many bytes of answers are not held back."""
READ_AHEAD_BYTES = 1 << 16
"""A connection that waits for its turn reads on until it has this much."""
LARGE_BYTES = 1 << 20
"""A request of this size is decoded in a unit of its own: copying it takes a millisecond, a hundred of them 100 ms."""
NOT_ASKED = 0
"""The token of a request that has not reached the node."""


class Farewell(list[bytes | bytearray]):
    """In the place of an answer: nothing is written, the connection ends here."""

    def __init__(self, why: str, detail: str) -> None:
        super().__init__()
        self.why = why
        self.detail = detail


class Slot:
    """One request under way; `buffers` is its answer once there is one, empty if none is due."""

    __slots__ = ("buffers", "connection", "context", "divided", "size", "started", "token", "weight")

    def __init__(self, connection: Connection, context: RequestContext, size: int) -> None:
        self.connection = connection
        self.context = context
        self.started = monotonic_ns()
        self.buffers: Pieces | None = None
        self.token = NOT_ASKED
        self.divided: DividedRequest | None = None  # while its parts are handled
        self.size = size  # of the request
        self.weight = 0  # what it takes of its connection's room

    def answer(self, response: Message | HangUp | None) -> None:
        self.connection.answered(self, response)


class Connection(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.active_ns = monotonic_ns()  # when bytes last came
        self.choked_ns = 0  # since when the client leaves answers unread
        self.begun_ns = 0  # since when the request that is coming in is coming in
        self.peer: int | None = None  # the node at the other end, if it is one
        self.has_node_turns = False
        self.is_queued = False  # this and the next two are kept by the scheduler of turns
        self.debt_ns = self.served_ns = 0
        self.received = 0  # bytes of requests that are not whole, or not answered
        self.unread = 0  # bytes of answers that the client has not taken, or must not have yet
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self._frames = FrameBuffer(listener.limits.max_request_bytes)
        self._slots: deque[Slot] = deque()
        self._unsent: Pieces = []
        self._unsent_size = 0
        self._room = listener.limits.in_flight_bytes
        self._least = max(1, self._room // listener.limits.max_in_flight)
        self._weight = 0  # of all slots
        self._under_way = 0  # bytes of requests that the node has and has not answered
        self._waiting = 0  # bytes of answers whose turn has not come
        self._greeted = False
        self._oriented = False  # has asked for metadata before
        self._client_id = ""
        self.first_api = -1
        self._clients: dict[int, Client] = {}  # by the version of the API they spoke
        self._due: deque[Question] = deque()  # questions that were held back and are due now
        self._dividing: deque[tuple[Slot, Client]] = deque()  # requests with parts that the node has not got yet
        self._large: bytes | None = None  # a request that is to be decoded in the next unit
        self._more = False  # the node was told that another request follows
        self._has_rest = False  # requests that have arrived wait for a turn
        self._reading = True
        self._working = False
        self._closed = False
        self._closed_here = False

    @property
    def in_flight(self) -> int:
        return len(self._slots)

    @property
    def closed(self) -> bool:
        return self._closed

    # --- the socket's events -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(high=self.listener.limits.write_buffer_bytes)
        self.listener.joined(self)

    def data_received(self, data: bytes) -> None:
        self.active_ns = monotonic_ns()
        self._frames.add(data)
        if self.is_queued:
            self._account_received()
            if len(self._frames) >= READ_AHEAD_BYTES and self._frames.has_whole:
                self._has_rest = True
                self._read_on(taken=False)
        else:
            self.listener.turns.ready(self)

    def eof_received(self) -> None:
        self._closed = True  # the other side has closed: nobody would read an answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._let_go()
        slots, self._slots = self._slots, deque()
        self.listener.left(self, self._closed_here)
        self._dividing.clear()
        self._large = None
        for slot in slots:
            if slot.buffers is None and slot.divided is not None:
                for token, request in slot.divided.under_way():
                    self.listener.abandon(token, request)
            elif slot.buffers is None and slot.token != NOT_ASKED:
                self.listener.abandon(slot.token, slot.context.request)

    def pause_writing(self) -> None:
        self.choked_ns = monotonic_ns()
        self._account_unread()

    def resume_writing(self) -> None:
        self.choked_ns = 0
        self._account_unread()
        self.listener.turns.ready_later(self)

    # --- turns -------------------------------------------------------------------------------------------------------

    def is_node(self) -> bool:
        if self.peer is not None and not self.has_node_turns:
            self.has_node_turns = self.listener.admit_to_node_turns(self.peer, self.first_api)
        return self.has_node_turns

    def serve(self, until_ns: int) -> bool:
        """Serve requests while there is room for their answers, until the turn is over."""
        if self._working or self._closed:
            return False
        self._working, unread = True, len(self._frames)
        self.listener.hold()
        try:
            while not self._closed and self._serve_unit() and monotonic_ns() < until_ns:
                pass
        except MalformedFrameError as error:
            self.close("bad_request", str(error))
        finally:
            self._working = False
            if self._more:
                self._more = False
                self.listener.end_turn()  # the turn is over, there was no room for it, or it made no sense
            self.listener.release()
        if self._closed:
            return False
        self._has_rest = self._has_begun() or (self._has_room() and self._frames.has_whole)
        self._account_received()
        self._read_on(taken=len(self._frames) < unread)
        return self._has_rest

    def _has_begun(self) -> bool:
        return bool(self._due or self._dividing or self._large)

    def _serve_unit(self) -> bool:
        """The least that is done in a turn: one request, one part of a large one, or its decoding. False: nothing is
        there to be done. Held questions have their room; a fetch behind one of them may have taken the rest."""
        if self._dividing:
            slot, client = self._dividing[0]
            self._ask_part(slot, client)
        elif self._due:
            message, slot, client = self._due.popleft()
            self.ask(message, slot, client, more=False)
        elif self._large is not None:
            large, self._large = self._large, None
            self._request(large)
        else:
            frame = self._frames.take() if self._has_room() else None
            if frame is None:
                return False
            if len(frame) >= LARGE_BYTES:
                self._large = frame
            else:
                self._request(frame)
        return True

    def ask_later(self, question: Question) -> None:
        """A question that was held back is due: it is asked in this connection's next turn."""
        self._due.append(question)
        self.listener.turns.ready_later(self)

    def _has_room(self) -> bool:
        return not self._closed and not self.choked_ns and self._weight < self._room

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(self, message: Message, slot: Slot, client: Client, *, more: bool) -> None:
        """Hand a request to the node, in parts if it is large."""
        parts = PARTS.get(slot.context.header.api_key)
        if parts is not None and slot.size >= parts.smallest:
            requests = parts.divide(message)
            if len(requests) > 1:
                slot.divided = DividedRequest(parts, requests, slot.answer)
                self._dividing.append((slot, client))
                self._ask_part(slot, client)
                return
            message = requests[0]
        slot.token = self._hand_over(message, slot.answer, client, more=more)

    def _hand_over(self, message: Message, answer: Answer, client: Client, *, more: bool) -> int:
        """What a produce left for the next request is done by the next produce, or when the turn ends; the requests of
        other APIs leave it."""
        if more:
            self._more = True
        elif message.__api_key__ == PRODUCE:
            self._more = False
        return self.listener.request(message, answer, client, more)

    def _ask_part(self, slot: Slot, client: Client) -> None:
        divided = slot.divided
        if divided is not None and divided.has_more:
            request, answer = divided.next()
            more = divided.has_more or self._frames.has_whole
            divided.asked(self._hand_over(request, answer, client, more=more))
        if divided is None or not divided.has_more:
            self._dividing.popleft()

    def _request(self, frame: bytes) -> None:
        listener = self.listener
        context = listener.translator.receive(frame)
        header = context.header
        if not self._greeted:
            self._greet(header)
        slot = Slot(self, context, len(frame))
        self._slots.append(slot)
        listener.traffic.record_request(header.api_key, len(frame))
        if context.request is None:
            self._answer(slot, None)
        elif header.api_key == METADATA:
            listener.metadata(context.request, slot, self._client(header.api_version), again=self._oriented)
            self._oriented = True
        else:
            self.ask(context.request, slot, self._client(header.api_version), more=self._frames.has_whole)
        if slot.buffers is None:
            self._waits(slot)

    def _waits(self, slot: Slot) -> None:
        """It was not answered at once: until it is, it is held in memory, and takes room."""
        slot.weight = self._room if slot.context.header.api_key == FETCH else self._least + slot.size
        self._weight += slot.weight
        self._under_way += slot.size

    def _greet(self, header: RequestHeader) -> None:
        self._greeted = True
        self._client_id = header.client_id or ""
        self.first_api = header.api_key
        self.peer = node_of(header.client_id)
        if self.peer is not None:
            self.listener.peer_joined(self.peer)

    def _client(self, version: int) -> Client:
        client = self._clients.get(version)
        if client is None:
            address = self._transport.get_extra_info("peername") or ("",)
            # With a slash, as Kafka writes the hosts of a group's members: tools that show them expect it.
            client = self._clients[version] = Client(self._client_id, f"/{address[0]}", version)
        return client

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, slot: Slot, response: Message | HangUp | None) -> None:
        if self._closed:
            return
        if response is None:
            # W6: acks=0 is not answered. What the translator refused never reached the node.
            lost = slot.context.refused
            self._settle(slot, Farewell("refused", f"acks=0, {lost[0][2].name}") if lost else [])
        elif type(response) is HangUp:
            self._settle(slot, Farewell("refused", response.reason))
        else:
            self._answer(slot, response)

    def _answer(self, slot: Slot, response: Message | None) -> None:
        self._settle(slot, self.listener.translator.encode_response(slot.context, response))

    def _settle(self, slot: Slot, buffers: Pieces) -> None:
        slot.buffers = buffers
        if slot.weight:
            self._weight -= slot.weight
            self._under_way -= slot.size
            slot.weight = 0
            self._account_received()
        if self._slots[0] is slot:
            self._flush()
        else:
            self._keep(slot, buffers)

    def _keep(self, slot: Slot, buffers: Pieces) -> None:
        """Those before it are not answered yet."""
        size = sum(len(piece) for piece in buffers)
        slot.weight = self._least + size
        self._weight += slot.weight
        self._waiting += size
        self._account_unread()

    def _flush(self) -> None:
        slots, traffic, now = self._slots, self.listener.traffic, monotonic_ns()
        waited = False
        while slots and (buffers := slots[0].buffers) is not None:
            slot = slots.popleft()
            size = 0
            for piece in buffers:
                size += len(piece)
            traffic.record_response(slot.context.header.api_key, size, now - slot.started)
            if slot.weight:
                waited = True
                self._weight -= slot.weight
                self._waiting -= size
            if size:
                self._send(buffers, size)
                if self._closed:
                    return  # it would have held too much
            elif isinstance(buffers, Farewell):
                self._leave(buffers)
                return
        if waited or self.choked_ns:
            self._account_unread()
        if not self._reading and not self._working:
            self.listener.turns.ready_later(self)

    def _send(self, buffers: Pieces, size: int) -> None:
        """Small answers that follow one another leave together."""
        self._unsent += buffers
        self._unsent_size += size
        if self.listener.holding and self._unsent_size < MUCH:
            self.listener.unsent[self] = None
        else:
            self.send_unsent()

    def send_unsent(self) -> None:
        if self._unsent and not self._closed:
            unsent, self._unsent, self._unsent_size = self._unsent, [], 0
            self._transport.writelines(unsent)

    # --- room --------------------------------------------------------------------------------------------------------

    def _read_on(self, *, taken: bool) -> None:
        """Or not, if there is no room or enough to do. Slowness of a request counts only while it is read."""
        if self._closed:
            return
        room = not self._has_rest and self._has_room()
        if not room or not len(self._frames):
            self.begun_ns = 0
        elif taken or not self.begun_ns:
            self.begun_ns = self.active_ns
        if room is not self._reading:
            self._reading = room
            if room:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _account_received(self) -> None:
        size = self._under_way + len(self._frames) + (len(self._large) if self._large else 0)
        if size != self.received:
            before, self.received = self.received, size
            if not self.listener.budget_received.change(before, size):
                self.listener.relieve_received()

    def _account_unread(self) -> None:
        before, self.unread = self.unread, self._waiting + self._transport.get_write_buffer_size()
        if not self.listener.budget_unread.change(before, self.unread):
            self.listener.relieve_unread()

    def _let_go(self) -> None:
        """Whatever was held for this client is held no longer."""
        self.listener.budget_received.change(self.received, 0)
        self.listener.budget_unread.change(self.unread, 0)
        self.received = self.unread = 0

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The node has ended: what was answered still goes out."""
        self.send_unsent()
        self._closed = self._closed_here = True
        self._transport.close()

    def _leave(self, farewell: Farewell) -> None:
        """What was answered before still goes out, if the client takes it."""
        self.send_unsent()
        self._say_closed(farewell.why, farewell.detail)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            patience = self.listener.limits.slow_reader_ms / 1_000
            asyncio.get_running_loop().call_later(patience, self._transport.abort)

    def close(self, why: str, detail: str) -> None:
        if self._closed:
            return
        self._say_closed(why, detail)
        self._let_go()
        self._transport.abort()

    def _say_closed(self, why: str, detail: str) -> None:
        self._closed = self._closed_here = True
        address = self._transport.get_extra_info("peername")
        client = f"{address[0]}:{address[1]}" if address else "unknown"
        log.info("event=connection_closed reason=%s client=%s detail=%s", why, client, log_value(detail))
