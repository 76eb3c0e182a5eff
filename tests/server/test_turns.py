"""Turns: how connections share the loop. The test moves the clock and the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import pack
from typing import Any, cast

import pytest

from insync.sansio import Client, Message
from insync.server.connection import HeldRequest
from insync.server.divided import Answer
from insync.server.listener import MAX_NODE_CONNECTIONS
from insync.server.turns import CLIENT_SLICE_NS, MIN_TURN_NS, NODE_SLICE_NS, ROUND_NS, TLS_SLICE_NS, Turns
from insync.wire import codec
from insync.wire.messages import broker_heartbeat, create_topics
from insync.wire.types import ms
from tests.server.connection_harness import (
    ConnectionHarness,
    Peer,
    ask_id,
    ask_records,
    ask_topics,
    new_id,
    records,
    topics,
    write,
    written,
)

COST_NS = 100_000
"""Of one request."""
SLICES_NS = NODE_SLICE_NS + CLIENT_SLICE_NS


class Loop:
    """An iteration runs the callbacks that were there when it began, as uvloop does."""

    def __init__(self) -> None:
        self.now = 0
        self.soon: deque[Callable[[], None]] = deque()
        self.served: list[str] = []
        self.turns = Turns(self.soon.append, lambda: self.now)

    def iterate(self) -> int:
        """Returns how long it took."""
        began = self.now
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        return self.now - began


class Busy:
    """A connection with some requests, each of the same cost."""

    def __init__(self, loop: Loop, name: str, *, node: bool = False, cost: int = COST_NS) -> None:
        self.is_queued = False
        self.debt_ns = self.served_ns = 0
        self.waiting = 0
        self.longest_turn = 0
        self._loop = loop
        self._name = name
        self._node = node
        self._cost = cost

    def is_node(self) -> bool:
        return self._node

    def send(self, requests: int) -> None:
        self.waiting += requests
        self._loop.turns.ready(self)

    def measure_wait(self) -> int:
        """Send one request, and return how long it waits for its turn and is served."""
        self.send(1)
        asked = self._loop.now
        while self.waiting:
            self._loop.iterate()
        return self._loop.now - asked

    def serve(self, until_ns: int) -> bool:
        began = self._loop.now
        while self.waiting:
            self.waiting -= 1
            self._loop.now += self._cost
            self._loop.served.append(self._name)
            if self._loop.now >= until_ns:
                break
        self.longest_turn = max(self.longest_turn, self._loop.now - began)
        return self.waiting > 0


# --- the scheduler ---


def test_requests_of_a_node_without_load_are_served_in_the_callback_that_read_them() -> None:
    loop = Loop()
    Busy(loop, "a").send(1)
    Busy(loop, "b").send(1)
    assert loop.served == ["a", "b"]
    assert not loop.soon


def test_a_turn_ends_and_the_rest_waits_behind_others() -> None:
    loop = Loop()
    flood, quiet = Busy(loop, "flood"), Busy(loop, "quiet")
    flood.send(10_000)
    assert flood.longest_turn <= CLIENT_SLICE_NS
    assert flood.waiting
    quiet.send(1)
    before = len(loop.served)
    loop.iterate()
    assert loop.served[before] == "quiet"
    assert loop.served[before + 1] == "flood"


def test_a_quiet_client_waits_for_one_slice_however_many_connections_flood() -> None:
    """As in fq_codel: a connection that was idle comes before those whose turn ran out."""
    loop = Loop()
    floods = [Busy(loop, f"flood-{number}") for number in range(500)]
    for flood in floods:
        flood.send(1_000_000)
    while floods[-1].longest_turn == 0:
        loop.iterate()
    quiet = Busy(loop, "quiet")
    assert quiet.measure_wait() <= SLICES_NS + COST_NS


def test_a_client_that_asks_again_at_once_waits_for_one_round() -> None:
    """Many connections that send little have no advantage over one that sends much."""
    loop = Loop()
    floods = [Busy(loop, f"flood-{number}") for number in range(20)]
    for flood in floods:
        flood.send(1_000_000)
    quiet = Busy(loop, "quiet")
    quiet.measure_wait()
    worst = 0
    for _ in range(50):
        worst = max(worst, quiet.measure_wait())
        assert all(flood.waiting for flood in floods)
    assert worst <= ROUND_NS + SLICES_NS
    served = [loop.served.count(f"flood-{number}") for number in range(20)]
    assert min(served) * 2 >= max(served) > 0


def test_connections_that_are_often_idle_do_not_starve_one_that_is_busy() -> None:
    loop = Loop()
    busy = Busy(loop, "busy")
    busy.send(1_000_000)
    sparse = [Busy(loop, f"sparse-{number}", cost=CLIENT_SLICE_NS) for number in range(3)]
    for _ in range(100):
        for connection in sparse:
            if not connection.waiting:
                connection.send(1)
        loop.iterate()
    assert loop.served.count("busy") > 500


def test_a_burst_of_handshakes_delays_requests_by_one_slice_of_theirs() -> None:
    """900 clients that connect at once wait for each other; an established connection waits for a few of them."""
    loop = Loop()
    step_ns = 4 * COST_NS
    handshakes = [Busy(loop, f"handshake-{number}", cost=step_ns) for number in range(900)]
    quiet, asked, worst = Busy(loop, "quiet"), 0, 0
    for handshake in handshakes:
        handshake.waiting = 1
        loop.turns.tls_ready(handshake)
    assert loop.now <= TLS_SLICE_NS + step_ns
    while any(handshake.waiting for handshake in handshakes):
        quiet.send(1)
        began = loop.now
        loop.iterate()
        assert not quiet.waiting
        worst, asked = max(worst, loop.now - began), asked + 1
    assert asked >= 900 * step_ns // (TLS_SLICE_NS + step_ns)
    assert worst <= TLS_SLICE_NS + step_ns + COST_NS


def test_handshakes_that_have_begun_are_completed_first() -> None:
    """Otherwise a steady stream of new clients would keep all others from being served."""
    loop = Loop()
    begun = Busy(loop, "begun")
    begun.waiting = 1
    loop.turns.tls_ready(begun)
    for number in range(100):
        new = Busy(loop, f"new-{number}")
        new.waiting = 1
        loop.turns.tls_ready(new)
    begun.waiting = 1
    loop.turns.tls_ready(begun)
    before = len(loop.served)
    loop.iterate()
    assert loop.served[before] == "begun"


def test_connections_with_expensive_requests_make_no_round_long() -> None:
    """A request cannot be interrupted: a connection that takes more than its turn is passed over until that is paid."""
    loop = Loop()
    expensive = 20 * NODE_SLICE_NS
    floods = [Busy(loop, f"flood-{number}", node=True, cost=expensive) for number in range(16)]
    for flood in floods:
        flood.send(1_000_000)
    for _ in range(100):
        loop.iterate()
    follower = Busy(loop, "follower", node=True)
    assert max(follower.measure_wait() for _ in range(50)) <= 2 * expensive
    served = [loop.served.count(f"flood-{number}") for number in range(16)]
    assert min(served) > 0


def test_connections_that_open_at_once_with_expensive_requests_delay_others_by_one_request_at_a_time() -> None:
    """What their first request costs is not known before it is served."""
    loop = Loop()
    expensive = 3 * CLIENT_SLICE_NS
    client = Busy(loop, "client")
    client.send(1)
    floods = [Busy(loop, f"flood-{number}", cost=expensive) for number in range(30)]
    for flood in floods:
        flood.send(1_000_000)
    worst = 0
    while not all(flood.longest_turn for flood in floods):
        worst = max(worst, client.measure_wait())
    assert worst <= 2 * expensive


def test_connections_that_open_and_close_do_not_starve_one_that_is_there() -> None:
    loop = Loop()
    there = Busy(loop, "there")
    there.send(1_000_000)
    for number in range(1_000):
        for part in range(3):
            Busy(loop, f"new-{number}-{part}").send(1)
        loop.iterate()
    assert loop.served.count("there") >= len(loop.served) // 3


def test_a_connection_that_was_idle_for_as_long_as_it_took_too_much_is_early_again() -> None:
    loop = Loop()
    heavy, flood = Busy(loop, "heavy", cost=10 * CLIENT_SLICE_NS), Busy(loop, "flood")
    flood.send(1_000_000)
    heavy.send(1)
    while heavy.waiting:
        loop.iterate()
    debt = heavy.debt_ns
    assert debt >= 9 * CLIENT_SLICE_NS
    while heavy.is_queued:
        loop.iterate()
    loop.now = heavy.served_ns + debt
    heavy.send(1)
    before = len(loop.served)
    loop.iterate()
    assert loop.served[before] == "heavy"


def test_turns_get_shorter_as_more_connections_wait() -> None:
    loop = Loop()
    floods = [Busy(loop, f"flood-{number}", cost=1_000) for number in range(200)]
    for flood in floods:
        flood.send(1_000_000)
    for _ in range(300):
        loop.iterate()
    assert max(flood.longest_turn for flood in floods[100:]) <= MIN_TURN_NS + 1_000


def test_nodes_are_served_before_clients_that_wait() -> None:
    loop = Loop()
    for number in range(50):
        Busy(loop, f"flood-{number}").send(1_000_000)
    node = Busy(loop, "node", node=True)
    node.send(1)
    assert node.waiting == 0  # at once: clients have used up their slice, and not that of nodes


def test_nodes_do_not_starve_clients() -> None:
    """Any client may call itself a node."""
    loop = Loop()
    for number in range(50):
        Busy(loop, f"node-{number}", node=True).send(1_000_000)
    client = Busy(loop, "client")
    client.send(100)
    asked = loop.now
    while client.waiting:
        assert loop.iterate() <= SLICES_NS + 2 * COST_NS
    assert loop.now - asked <= 100 * COST_NS * 4


def test_every_iteration_of_the_loop_ends_after_one_slice_of_each_class() -> None:
    """So timers, finished disk work and new input do not wait longer either."""
    loop = Loop()
    for number in range(100):
        Busy(loop, f"client-{number}").send(1_000_000)
        Busy(loop, f"node-{number}", node=True).send(1_000_000)
    assert all(loop.iterate() <= SLICES_NS + 2 * COST_NS for _ in range(100))


def test_a_connection_that_becomes_ready_during_a_turn_waits_for_its_end() -> None:
    """A request is never served within the effects of another."""
    loop = Loop()
    other = Busy(loop, "other")

    class Waking(Busy):
        def serve(self, until_ns: int) -> bool:
            other.send(1)
            assert other.waiting == 1
            return super().serve(until_ns)

    Waking(loop, "waking").send(1)
    loop.iterate()
    assert loop.served == ["waking", "other"]


# --- connections ---


def frames(count: int, request: object, client_id: str = "test") -> bytes:
    frame = codec.encode_request(request, 1, client_id)
    return (pack(">i", len(frame)) + frame) * count


class SlowHarness(ConnectionHarness):
    """Every request takes so long to serve that its turn is over, and is answered at once."""

    def _request(self, message: Message, answer: Answer, client: Client, more: bool) -> int:
        token = super()._request(message, answer, client, more)
        self.asked.pop(token)
        self.more.append(more)
        self.askers.append(client.id)
        answer(new_id() if message.__api_key__ == ask_id().__api_key__ else written())
        return token

    def __init__(self) -> None:
        super().__init__()
        self.more: list[bool] = []
        self.askers: list[str] = []
        self.ended: list[int] = []

    def _end_turn(self) -> None:
        super()._end_turn()
        self.ended.append(len(self.more))


class ShortTurns(Turns):
    """Turns of no time: each serves one request."""

    def __init__(self, soon: deque[Callable[[], None]]) -> None:
        super().__init__(soon.append, lambda: 0)


def slow_harness() -> SlowHarness:
    harness = SlowHarness()
    harness.listener.turns = ShortTurns(harness._soon)
    return harness


def test_a_connection_whose_turn_is_over_stops_reading_until_it_has_served_the_rest() -> None:
    harness = slow_harness()
    client = harness.connect()
    client.connection.data_received(frames(3, ask_id()))
    assert (len(harness.more), client.transport.reading) == (1, False)
    harness.run_turns()
    assert (len(client.received), client.transport.reading) == (3, True)


def test_the_end_of_a_turn_ends_what_a_request_left_for_the_next_one() -> None:
    """Followers get what was written in one turn together, and not later."""
    harness = slow_harness()
    client = harness.connect()
    client.connection.data_received(frames(2, write()))
    assert harness.more == [True]
    assert harness.ended == [1]
    harness.run_turns()
    assert harness.more == [True, False]
    assert harness.ended == [1]


def test_a_held_metadata_request_is_served_although_a_fetch_behind_it_takes_all_capacity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers are sent in order: else the fetch would wait for that answer, and the request for capacity, forever."""
    harness = ConnectionHarness()
    held: list[HeldRequest] = []

    def hold(*request: Any, again: bool) -> None:
        held.append(cast(HeldRequest, request))

    monkeypatch.setattr(harness.listener, "submit_metadata", hold)
    client = harness.connect()
    client.send(ask_topics())
    client.send(ask_records())
    (fetch_token,) = harness.asked
    client.connection.submit_later(held.pop())
    harness.run_turns()
    _, question_token = harness.asked
    harness.answer(fetch_token, records())
    harness.answer(question_token, topics())
    assert client.received == [1, 2]


def test_connections_serve_their_requests_in_turn() -> None:
    harness = slow_harness()
    first, second = harness.connect(), harness.connect()
    first.connection.data_received(frames(4, ask_id(), "first"))
    second.connection.data_received(frames(2, ask_id(), "second"))
    harness.run_turns()
    assert harness.askers == ["first", "second", "first", "second", "first", "first"]


def test_a_connection_that_waits_for_its_turn_reads_a_bounded_amount() -> None:
    harness = slow_harness()
    first, second = harness.connect(), harness.connect()
    first.connection.data_received(frames(5, ask_id()))
    second.connection.data_received(frames(1, ask_id()))
    load = frames(100, write(1_000))
    read = 0
    while second.transport.reading:
        second.connection.data_received(load)
        read += len(load)
    assert read <= 2 * len(load)
    harness.run_turns()
    assert second.transport.reading
    assert not len(second.connection._frames)


def test_a_length_above_the_limit_closes_the_connection_even_when_its_turn_ended_before_it() -> None:
    harness = slow_harness()
    client = harness.connect()
    client.connection.data_received(frames(1, ask_id()) + pack(">i", 2**31 - 1))
    harness.run_turns()
    assert client.ended == "aborted"


# --- which connections count as those of a node ---


def heartbeat() -> object:
    return broker_heartbeat.BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=1, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )


def connected(harness: ConnectionHarness, request: object, client_id: str) -> Peer:
    peer = harness.connect()
    peer.send(request, client_id)
    harness.run_turns()
    return peer


def test_a_node_of_the_cluster_has_the_turns_of_nodes() -> None:
    assert connected(ConnectionHarness(), heartbeat(), "insync-node-2").connection.is_node()


def test_clients_and_unknown_nodes_have_the_turns_of_clients() -> None:
    harness = ConnectionHarness()
    assert not connected(harness, heartbeat(), "app").connection.is_node()
    assert not connected(harness, heartbeat(), "insync-node-77").connection.is_node()


def test_what_a_node_forwards_for_clients_has_the_turns_of_clients() -> None:
    request = create_topics.CreateTopicsRequest(topics=(), timeout=ms(1), validate_only=True)
    assert not connected(ConnectionHarness(), request, "insync-node-2").connection.is_node()


def test_only_some_connections_count_as_those_of_one_node() -> None:
    """A client that uses the name of a node gets no more than its share."""
    harness = ConnectionHarness()
    claimed = [connected(harness, heartbeat(), "insync-node-2") for _ in range(50)]
    admitted = [peer for peer in claimed if peer.connection.is_node()]
    assert len(admitted) == MAX_NODE_CONNECTIONS
    assert connected(harness, heartbeat(), "insync-node-3").connection.is_node()
    assert connected(harness, ask_records(), "insync-node-2").connection.is_node(), "another API is another channel"
    admitted[0].disconnect()
    assert connected(harness, heartbeat(), "insync-node-2").connection.is_node()
