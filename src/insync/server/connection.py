"""One client's connection: frames in, requests to the node, answers out in the order of the requests.

Every request takes a slot in a queue; an answer waits until those before it have been sent (W5).

A connection accepts requests while it has capacity. A request that is not answered at once takes some of it, and so
does an answer that has to wait; a fetch that waits for records takes all of it, because its answer may be that large.
A request with many entries reaches the node in parts (see `divided`), and a large one is read from the buffer, decoded
and handled in separate units of a turn. The next request of the connection waits until all parts have reached the node.

The socket is not read while there is no capacity, while requests wait for a turn (see `turns`), while the client does
not read its answers, or while the connection is muted because its client exceeds a quota (KIP-219). The answer that is
over the limit says for how long.

On a listener with SASL a connection has a `session`, which answers until the client is authenticated (see
`authentication`), and longer if sessions expire. A failed authentication is answered after a delay, then closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic_ns
from typing import Protocol

from insync.escaping import log_value
from insync.node.handlers import PARTS
from insync.sansio import Client, HangUp, Message
from insync.security.acl import canonical_host
from insync.security.principal import ANONYMOUS, MappingRuleError
from insync.security.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaManager
from insync.server.acceptor import Acceptor
from insync.server.authentication import SaslAnswer, SaslSession
from insync.server.divided import Answer, DividedRequest
from insync.server.limits import ConnectionBudget, Limits
from insync.server.peers import node_id_of_client
from insync.server.pending import PendingConnections
from insync.server.runner import now_ms
from insync.server.traffic import Traffic
from insync.server.turns import Turns
from insync.wire.codec import RequestHeader
from insync.wire.errors import MalformedFrameError
from insync.wire.frames import FrameBuffer
from insync.wire.handwritten_broker import Pieces
from insync.wire.types import millis, ms
from insync.wire.versions.context import RequestContext
from insync.wire.versions.translator import VersionTranslator

log = logging.getLogger("insync.server")

PRODUCE = 0
FETCH = 1
METADATA = 3
MAX_HELD_ANSWER_BYTES = 1 << 16
"""More bytes of answers are sent at once, without waiting for further answers."""
READ_AHEAD_BYTES = 1 << 16
"""How much a connection reads ahead while it waits for its turn."""
LARGE_BYTES = 1 << 20
"""A request of this size is decoded in a unit of its own: 1 MB takes a millisecond to copy, 100 MB take 100 ms."""
MAX_THROTTLE_MS = 2**31 - 1
"""What an answer can tell."""
UNAUTHENTICATED = "User:UNAUTHENTICATED"
"""The principal of a connection that has to be authenticated. Only ApiVersions is served to it."""
NOT_SUBMITTED = 0
"""The token of a request that has not reached the node."""


class CloseAfterFlush(list[bytes | bytearray]):
    """Takes the place of an answer: the connection is closed once the answers before it have been sent."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__()
        self.reason = reason
        self.detail = detail


class Slot:
    """One unanswered request. `buffers` is its encoded answer once there is one; empty if none is due."""

    __slots__ = ("buffers", "connection", "context", "divided", "size", "started", "token", "weight")

    def __init__(self, connection: Connection, context: RequestContext, size: int) -> None:
        self.connection = connection
        self.context = context
        self.started = monotonic_ns()
        self.buffers: Pieces | None = None
        self.token = NOT_SUBMITTED
        self.divided: DividedRequest | None = None  # set while its parts are handled
        self.size = size  # bytes of the request
        self.weight = 0  # what it takes of its connection's capacity

    def answer(self, response: Message | HangUp | None) -> None:
        self.connection.on_response(self, response)


HeldRequest = tuple[Message, Slot, Client]
SubmitRequest = Callable[[Message, Answer, Client, bool], int]
"""Submits a request to the node and returns the token by which it may be abandoned. True: another request follows at
once, or `end_turn`."""


class ConnectionHost(Protocol):
    """What all connections of a node share: the `Listener`."""

    limits: Limits
    turns: Turns
    traffic: Traffic
    translator: VersionTranslator
    quotas: QuotaManager
    pending: PendingConnections
    budget_received: ConnectionBudget
    budget_unread: ConnectionBudget
    holding: int
    unsent: dict[Connection, None]
    request: SubmitRequest
    end_turn: Callable[[], None]
    abandon: Callable[[int, Message], None]
    check_translated: Callable[[RequestContext, Client], None]

    def on_connected(self, connection: Connection) -> None: ...

    def on_disconnected(self, connection: Connection, closed_here: bool) -> None: ...

    def on_peer_connected(self, peer: int) -> None: ...

    def admit_to_node_turns(self, peer: int, first_api: int) -> bool: ...

    def may_act_as_node(self, client: Client) -> bool: ...

    def submit_metadata(self, message: Message, slot: Slot, client: Client, *, again: bool) -> None: ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def close_largest_receiver(self) -> None: ...

    def close_slowest_reader(self) -> None: ...


class Connection(asyncio.Protocol):
    def __init__(self, listener: ConnectionHost, acceptor: Acceptor) -> None:
        self.listener = listener
        self.acceptor = acceptor
        self.address = ""  # the client's IP address
        self.last_received_ns = monotonic_ns()  # when bytes last arrived
        self.write_paused_ns = 0  # since when the client has not read its answers; 0: it reads
        self.partial_since_ns = 0  # when the first byte of the partial request arrived
        self.peer: int | None = None  # the id of the node at the other end, if it is a node
        self.has_node_turns = False
        self.is_queued = False  # this and the next two belong to the scheduler of turns
        self.debt_ns = self.served_ns = 0
        self.received_bytes = 0  # of incomplete and unanswered requests
        self.unread_bytes = 0  # of answers that the client has not read, or that wait for earlier ones
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self._session = None if acceptor.sasl is None else acceptor.sasl.new_session(listener.translator)
        self._frames = FrameBuffer(
            listener.limits.max_request_bytes if acceptor.sasl is None else acceptor.sasl.max_receive_bytes
        )
        self._slots: deque[Slot] = deque()
        self._unsent: Pieces = []
        self._unsent_size = 0
        self._capacity = listener.limits.in_flight_bytes
        self._min_weight = max(1, self._capacity // listener.limits.max_in_flight)
        self._weight = 0  # the sum of all slots
        self._unanswered_bytes = 0  # of requests that the node has not answered
        self._held_answer_bytes = 0  # of answers that wait for earlier ones
        self._is_identified = False
        self._has_asked_metadata = False  # whether the client has asked for metadata before
        self._client_id = ""
        self._principal = ANONYMOUS if acceptor.sasl is None else UNAUTHENTICATED
        self.first_api = -1
        self._clients: dict[int, Client] = {}  # by API version
        self._due_requests: deque[HeldRequest] = deque()  # requests that were held back and are due now
        self._dividing: deque[tuple[Slot, Client]] = deque()  # requests with parts that have not reached the node yet
        self._large_frame: bytes | None = None  # a request to decode in the next unit
        self._announced_more = False  # the node expects another request, or `end_turn`
        self._has_pending_requests = False  # complete requests wait for a turn
        self._is_reading = True
        self._is_serving = False
        self._muted_until_ms = 0  # 0: not muted
        self._closed = False
        self._closed_here = False

    @property
    def in_flight(self) -> int:
        return len(self._slots)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_authenticated(self) -> bool:
        """Always true on a listener without SASL."""
        return self._principal is not UNAUTHENTICATED

    # --- the socket's events -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(high=self.listener.limits.write_buffer_bytes)
        self.address = canonical_host((transport.get_extra_info("peername") or ("",))[0])
        self.listener.on_connected(self)
        if self._session is not None:
            self.listener.pending.add(self)

    def data_received(self, data: bytes) -> None:
        self.last_received_ns = monotonic_ns()
        self._frames.add(data)
        if self.is_queued:
            self._account_received()
            if len(self._frames) >= READ_AHEAD_BYTES and self._frames.has_whole:
                self._has_pending_requests = True
                self._update_reading(taken=False)
        else:
            self.listener.turns.ready(self)

    def eof_received(self) -> None:
        self._closed = True  # the client has closed: it would not read an answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._release_budgets()
        slots, self._slots = self._slots, deque()
        if self._session is not None:
            self.listener.pending.remove(self)
        self.listener.on_disconnected(self, self._closed_here)
        self._dividing.clear()
        self._large_frame = None
        for slot in slots:
            if slot.buffers is None and slot.divided is not None:
                for token, request in slot.divided.submitted_parts():
                    self.listener.abandon(token, request)
            elif slot.buffers is None and slot.token != NOT_SUBMITTED:
                self.listener.abandon(slot.token, slot.context.request)

    def pause_writing(self) -> None:
        self.write_paused_ns = monotonic_ns()
        self._account_unread()

    def resume_writing(self) -> None:
        self.write_paused_ns = 0
        self._account_unread()
        self.listener.turns.ready_later(self)

    # --- turns -------------------------------------------------------------------------------------------------------

    def is_node(self) -> bool:
        if self.peer is not None and not self.has_node_turns:
            self.has_node_turns = self.listener.admit_to_node_turns(self.peer, self.first_api)
        return self.has_node_turns

    def serve(self, until_ns: int) -> bool:
        """Serve requests while there is capacity, until the turn is over."""
        if self._is_serving or self._closed:
            return False
        self._is_serving, unread = True, len(self._frames)
        began_ns = monotonic_ns() if self.listener.quotas.is_active else 0
        self.listener.hold()
        try:
            while not self._closed and self._serve_unit() and monotonic_ns() < until_ns:
                pass
        except MalformedFrameError as error:
            self.close("bad_request", str(error))
        finally:
            self._is_serving = False
            if self._announced_more:
                self._announced_more = False
                self.listener.end_turn()  # the turn is over, there is no capacity, or the next request is malformed
            self.listener.release()
        if began_ns:
            self._record_request_time(monotonic_ns() - began_ns)
        if self._closed:
            return False
        self._has_pending_requests = self._has_unfinished_request() or (self._has_capacity() and self._frames.has_whole)
        self._account_received()
        self._update_reading(taken=len(self._frames) < unread)
        return self._has_pending_requests

    def _has_unfinished_request(self) -> bool:
        return bool(self._due_requests or self._dividing or self._large_frame)

    def _serve_unit(self) -> bool:
        """The smallest unit of a turn: one request, one part of a large one, or its decoding. False if there is nothing
        to do. Requests that were held back are served without capacity: a fetch behind one may have taken all of it."""
        if self._dividing:
            slot, client = self._dividing[0]
            self._submit_part(slot, client)
        elif self._due_requests:
            message, slot, client = self._due_requests.popleft()
            self.submit(message, slot, client, more=False)
        elif self._large_frame is not None:
            large, self._large_frame = self._large_frame, None
            self._receive(large)
        else:
            frame = self._frames.take() if self._has_capacity() else None
            if frame is None:
                return False
            if len(frame) >= LARGE_BYTES:
                self._large_frame = frame
            elif self._session is None:
                self._on_frame(frame)
            else:
                self._receive(frame)
        return True

    def submit_later(self, request: HeldRequest) -> None:
        """A request that was held back is due: it is submitted in this connection's next turn."""
        self._due_requests.append(request)
        self.listener.turns.ready_later(self)

    def _has_capacity(self) -> bool:
        return (
            not self._closed and not self.write_paused_ns and not self._muted_until_ms and self._weight < self._capacity
        )

    # --- requests ----------------------------------------------------------------------------------------------------

    def submit(self, message: Message, slot: Slot, client: Client, *, more: bool) -> None:
        """Submit a request to the node, in parts if it is large."""
        parts = PARTS.get(slot.context.header.api_key)
        if parts is not None and slot.size >= parts.smallest:
            requests = parts.divide(message)
            if len(requests) > 1:
                slot.divided = DividedRequest(parts, requests, slot.answer)
                self._dividing.append((slot, client))
                self._submit_part(slot, client)
                return
            message = requests[0]
        slot.token = self._submit(message, slot.answer, client, more=more)

    def _submit(self, message: Message, answer: Answer, client: Client, *, more: bool) -> int:
        """Work that a produce has postponed is done by the next produce, or when the turn ends; requests of other APIs
        do not do it."""
        if more:
            self._announced_more = True
        elif message.__api_key__ == PRODUCE:
            self._announced_more = False
        return self.listener.request(message, answer, client, more)

    def _submit_part(self, slot: Slot, client: Client) -> None:
        divided = slot.divided
        if divided is not None and divided.has_more:
            request, answer = divided.next_part()
            more = divided.has_more or self._frames.has_whole
            divided.on_submitted(self._submit(request, answer, client, more=more))
        if divided is None or not divided.has_more:
            self._dividing.popleft()

    def _receive(self, frame: bytes) -> None:
        """A frame on a connection that may have to be authenticated first."""
        session = self._session
        answer = None if session is None else session.receive(frame)
        if session is None or answer is None:
            self._on_frame(frame)
            return
        slot = Slot(self, answer.context, len(frame))
        self._slots.append(slot)
        self.listener.traffic.record_request(answer.context.header.api_key, len(frame))
        if answer.is_expiry:
            self.close("session_expired", answer.failure)
        elif answer.failure:
            self._delay_failure(slot, session, answer)
        else:
            if session.is_authenticated and self._principal is UNAUTHENTICATED:
                self._on_authenticated(session)
            self._complete_request(slot, answer.pieces)

    def _on_authenticated(self, session: SaslSession) -> None:
        self._principal = f"User:{session.user}"
        self._clients.clear()
        self._frames.set_limit(self.listener.limits.max_request_bytes)
        self.listener.pending.remove(self)
        if not session.expires:
            self._session = None

    def _delay_failure(self, slot: Slot, session: SaslSession, answer: SaslAnswer) -> None:
        """Guessing takes time, and the time says nothing. Meanwhile nothing else is read: there is no capacity."""
        slot.weight = self._capacity
        self._weight += slot.weight
        self._unanswered_bytes += slot.size
        if self.acceptor.sasl is not None:
            self.acceptor.sasl.record_failure(self._transport, session, answer.failure)
        delay_s = self.listener.limits.failed_authentication_delay_ms / 1_000
        self.listener.call_later(delay_s, partial(self._answer_failure, slot, answer))

    def _answer_failure(self, slot: Slot, answer: SaslAnswer) -> None:
        if not self._closed:
            self._complete_request(slot, answer.pieces)
            self._close_after_flush(CloseAfterFlush("authentication_failed", answer.failure))

    def give_up(self, reason: str, detail: str) -> None:
        """The authentication takes too long, or there are too many."""
        self.close(reason, detail)

    def _on_frame(self, frame: bytes) -> None:
        listener = self.listener
        context = listener.translator.receive(frame)
        header = context.header
        if not self._is_identified:
            self._on_first_request(header)
        if context.refused or header.api_key == METADATA:
            listener.check_translated(context, self._client(header.api_version))
        slot = Slot(self, context, len(frame))
        self._slots.append(slot)
        listener.traffic.record_request(header.api_key, len(frame))
        if header.api_key == FETCH and listener.quotas.is_active:
            self._limit_fetch(context)
        if context.request is None:
            self._encode_response(slot, None)
        elif header.api_key == METADATA:
            listener.submit_metadata(
                context.request, slot, self._client(header.api_version), again=self._has_asked_metadata
            )
            self._has_asked_metadata = True
        else:
            self.submit(context.request, slot, self._client(header.api_version), more=self._frames.has_whole)
        if slot.buffers is None:
            self._charge(slot)

    def _charge(self, slot: Slot) -> None:
        """The request was not answered at once: it is held in memory, and takes capacity, until it is."""
        slot.weight = self._capacity if slot.context.header.api_key == FETCH else self._min_weight + slot.size
        self._weight += slot.weight
        self._unanswered_bytes += slot.size

    def _on_first_request(self, header: RequestHeader) -> None:
        if self._principal is UNAUTHENTICATED:
            return  # it asks for the versions before it logs in
        self._is_identified = True
        self._client_id = header.client_id or ""
        if self.acceptor.sasl is None:
            self._principal = self._principal_of_transport()
        self.first_api = header.api_key
        peer = node_id_of_client(header.client_id)
        if peer is not None and self.listener.may_act_as_node(self._client(header.api_version)):
            self.peer = peer
            self.listener.on_peer_connected(peer)

    def _principal_of_transport(self) -> str:
        try:
            return self.acceptor.principal_of(self._transport)
        except MappingRuleError as error:
            raise MalformedFrameError(str(error)) from error

    def _client(self, version: int) -> Client:
        client = self._clients.get(version)
        if client is None:
            address = self._transport.get_extra_info("peername") or ("",)
            client = self._clients[version] = Client(
                id=self._client_id,
                host=f"/{address[0]}",  # with a slash, as Kafka has it in the hosts of group members: tools expect it
                version=version,
                principal=self._principal,
                listener=self.acceptor.name,
                on_node_listener=self.acceptor.serves_nodes,
            )
        return client

    # --- answers -----------------------------------------------------------------------------------------------------

    def on_response(self, slot: Slot, response: Message | HangUp | None) -> None:
        if self._closed:
            return
        if response is None:
            # W6: acks=0 is not answered. Partitions that the translator refused never reached the node.
            refused = slot.context.refused
            if self.listener.quotas.is_active:
                self._throttle(slot, None, [])
            self._complete_request(slot, CloseAfterFlush("refused", f"acks=0, {refused[0][2].name}") if refused else [])
        elif type(response) is HangUp:
            self._complete_request(slot, CloseAfterFlush("refused", response.reason))
        else:
            self._encode_response(slot, response)

    def _encode_response(self, slot: Slot, response: Message | None) -> None:
        buffers = self.listener.translator.encode_response(slot.context, response)
        if self.listener.quotas.is_active:
            buffers = self._throttle(slot, response, buffers)
        self._complete_request(slot, buffers)

    def _complete_request(self, slot: Slot, buffers: Pieces) -> None:
        slot.buffers = buffers
        if slot.weight:
            self._weight -= slot.weight
            self._unanswered_bytes -= slot.size
            slot.weight = 0
            self._account_received()
        if self._slots[0] is slot:
            self._flush()
        else:
            self._hold_answer(slot, buffers)

    def _hold_answer(self, slot: Slot, buffers: Pieces) -> None:
        """Earlier requests are not answered yet."""
        size = sum(len(piece) for piece in buffers)
        slot.weight = self._min_weight + size
        self._weight += slot.weight
        self._held_answer_bytes += size
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
                self._held_answer_bytes -= size
            if size:
                self._send(buffers, size)
                if self._closed:
                    return  # it exceeded the memory budget
            elif isinstance(buffers, CloseAfterFlush):
                self._close_after_flush(buffers)
                return
        if waited or self.write_paused_ns:
            self._account_unread()
        if not self._is_reading and not self._is_serving:
            self.listener.turns.ready_later(self)

    def _send(self, buffers: Pieces, size: int) -> None:
        """Small consecutive answers are sent together."""
        self._unsent += buffers
        self._unsent_size += size
        if self.listener.holding and self._unsent_size < MAX_HELD_ANSWER_BYTES:
            self.listener.unsent[self] = None
        else:
            self.send_unsent()

    def send_unsent(self) -> None:
        if self._unsent and not self._closed:
            unsent, self._unsent, self._unsent_size = self._unsent, [], 0
            self._transport.writelines(unsent)

    # --- quotas ------------------------------------------------------------------------------------------------------

    def _throttle(self, slot: Slot, response: Message | None, buffers: Pieces) -> Pieces:
        """KIP-219: a client above its limits is answered at once, told how long to wait, and not read meanwhile."""
        if self.peer is not None:  # A9
            return buffers
        key, quotas, now = slot.context.header.api_key, self.listener.quotas, now_ms()
        client = self._client(slot.context.header.api_version)
        throttle_ms = quotas.record_request_time(client.user, client.id, 0, now)
        if key == PRODUCE:
            throttle_ms = max(throttle_ms, quotas.record(PRODUCER_BYTE_RATE, client.user, client.id, slot.size, now))
        elif key == FETCH:
            size = sum(len(piece) for piece in buffers)
            throttle_ms = max(throttle_ms, quotas.record(CONSUMER_BYTE_RATE, client.user, client.id, size, now))
        throttle_ms = min(throttle_ms, MAX_THROTTLE_MS)
        if response is not None and hasattr(response, "throttle_time"):
            told_ms = millis(response.throttle_time)  # by the controller, which has quotas too
            if throttle_ms > told_ms:
                response = replace(response, throttle_time=ms(throttle_ms))
                buffers = self.listener.translator.encode_response(slot.context, response)
            throttle_ms = max(throttle_ms, told_ms)
        if throttle_ms:
            self.mute(throttle_ms)
        return buffers

    def _record_request_time(self, time_ns: int) -> None:
        if self.peer is None and self._is_identified:
            client = self._client(-1)
            self.listener.quotas.record_request_time(client.user, client.id, time_ns, now_ms())

    def _limit_fetch(self, context: RequestContext) -> None:
        client = self._client(context.header.api_version)
        most = self.listener.quotas.max_fetch_bytes(client.user, client.id)
        if self.peer is None and most is not None and context.request.max_bytes > most:
            context.request = replace(context.request, max_bytes=most)

    def mute(self, for_ms: int) -> None:
        """Do not read requests for a while. Those that have been read are answered."""
        until_ms = now_ms() + for_ms
        if until_ms > self._muted_until_ms:
            self._muted_until_ms = until_ms
            self.listener.call_later(for_ms / 1_000, partial(self._unmute, until_ms))
            if not self._is_serving:
                self._update_reading(taken=False)

    def _unmute(self, until_ms: int) -> None:
        if self._muted_until_ms == until_ms and not self._closed:
            self._muted_until_ms = 0
            self.listener.turns.ready_later(self)

    # --- capacity ----------------------------------------------------------------------------------------------------

    def _update_reading(self, *, taken: bool) -> None:
        """Read the socket unless there is no capacity or enough to do. A partial request ages only while it is read."""
        if self._closed:
            return
        should_read = not self._has_pending_requests and self._has_capacity()
        if not should_read or not len(self._frames):
            self.partial_since_ns = 0
        elif taken or not self.partial_since_ns:
            self.partial_since_ns = self.last_received_ns
        if should_read is not self._is_reading:
            self._is_reading = should_read
            if should_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _account_received(self) -> None:
        size = self._unanswered_bytes + len(self._frames) + (len(self._large_frame) if self._large_frame else 0)
        if size != self.received_bytes:
            before, self.received_bytes = self.received_bytes, size
            if not self.listener.budget_received.change(before, size):
                self.listener.close_largest_receiver()

    def _account_unread(self) -> None:
        before, self.unread_bytes = self.unread_bytes, self._held_answer_bytes + self._transport.get_write_buffer_size()
        if not self.listener.budget_unread.change(before, self.unread_bytes):
            self.listener.close_slowest_reader()

    def _release_budgets(self) -> None:
        """Nothing is held for this client any longer."""
        self.listener.budget_received.change(self.received_bytes, 0)
        self.listener.budget_unread.change(self.unread_bytes, 0)
        self.received_bytes = self.unread_bytes = 0

    # --- closing -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The node has stopped: send the answers that are ready, then close."""
        self.send_unsent()
        self._closed = self._closed_here = True
        self._transport.close()

    def _close_after_flush(self, closing: CloseAfterFlush) -> None:
        """Send the earlier answers, then close; a client that does not read them is cut off after a while."""
        self.send_unsent()
        self._log_close(closing.reason, closing.detail)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            timeout_s = self.listener.limits.slow_reader_ms / 1_000
            asyncio.get_running_loop().call_later(timeout_s, self._transport.abort)

    def close(self, reason: str, detail: str) -> None:
        if self._closed:
            return
        self._log_close(reason, detail)
        self._release_budgets()
        self._transport.abort()

    def _log_close(self, reason: str, detail: str) -> None:
        self._closed = self._closed_here = True
        address = self._transport.get_extra_info("peername")
        client = f"{address[0]}:{address[1]}" if address else "unknown"
        log.info("event=connection_closed reason=%s client=%s detail=%s", reason, client, log_value(detail))
