"""The simulated network: it guarantees what TCP guarantees, and nothing more."""

from __future__ import annotations

import random
from typing import Any

import pytest

from insync.sansio import Send
from insync.sim.engine.connection import Connection
from insync.sim.engine.engine import Engine
from insync.sim.engine.network import Network
from insync.sim.plans.plan import Latency


class Box:
    """A process that keeps what it receives, and with `answers` responds at once."""

    def __init__(self, network: Network, box_id: int, *, answers: bool = True) -> None:
        self.id = box_id
        self.generation = 1
        self.alive = True
        self.powered_off = False
        self.network = network
        self.answers = answers
        self.requests: list[Any] = []
        self.responses: list[Any] = []
        self.lost: list[int] = []
        self.waiting: list[tuple[Connection, int, Any]] = []
        network.attach(self)

    def on_request(self, connection: Connection, correlation: int, request: Any) -> None:
        self.requests.append(request)
        if self.answers:
            self.network.reply(connection, correlation, f"re {request}")
        else:
            self.waiting.append((connection, correlation, request))

    def on_response(self, send: Send, response: Any) -> None:
        self.responses.append((send.request, response))

    def on_peer_lost(self, peer: int) -> None:
        self.lost.append(peer)

    def ask(
        self, peer: int, request: Any, timeout_ms: int = 1_000, *, channel: str = "c", one_way: bool = False
    ) -> None:
        send = Send(peer, channel, request, lambda _r, _n: None, timeout_ms)
        self.network.send(self.id, send, one_way=one_way)


def world(seed: int = 1, *, answers: bool = True, latency: Latency | None = None) -> tuple[Engine, Network, Box, Box]:
    engine = Engine()
    network = Network(engine, random.Random(seed), latency)
    return engine, network, Box(network, 1), Box(network, 2, answers=answers)


@pytest.mark.parametrize("peer", [1, 2], ids=["itself", "another"])
def test_a_request_is_answered_once(peer: int) -> None:
    """Also a node's request to itself, which goes over a connection too."""
    engine, _, a, b = world()
    a.ask(peer, "hello")
    engine.run_until(5_000_000)
    assert (a.requests, b.requests) == ((["hello"], []) if peer == 1 else ([], ["hello"]))
    assert a.responses == [("hello", "re hello")]


def test_requests_of_one_connection_arrive_in_order_whatever_the_delays() -> None:
    for seed in range(30):
        engine, _, a, b = world(seed, latency=Latency(base_us=10, jitter_us=90_000, spike_every=3))
        for i in range(20):
            a.ask(2, i)
        engine.run_until(5_000_000)
        assert b.requests == list(range(20))
        assert [response for _, response in a.responses] == [f"re {i}" for i in range(20)]


def test_two_channels_may_overtake_each_other() -> None:
    orders = []
    for seed in range(30):
        engine, _, a, b = world(seed, latency=Latency(jitter_us=50_000))
        a.ask(2, "first", channel="x")
        a.ask(2, "second", channel="y")
        engine.run_until(1_000_000)
        orders.append(tuple(b.requests))
    assert {("first", "second"), ("second", "first")} == set(orders)


def test_a_blocked_link_holds_bytes_back_and_delivers_them_in_order_when_it_opens() -> None:
    engine, network, a, b = world()
    network.block(1, [(1, 2)])
    a.ask(2, "one")
    a.ask(2, "two")
    engine.run_until(300_000)
    assert b.requests == []
    network.lift(1)
    a.ask(2, "three")
    engine.run_until(900_000)
    assert b.requests == ["one", "two", "three"]
    assert [request for request, _ in a.responses] == ["one", "two", "three"]


def test_a_one_way_partition_delivers_the_request_and_loses_the_response() -> None:
    engine, network, a, b = world()
    network.block(1, [(2, 1)])
    a.ask(2, "hello", timeout_ms=500)
    engine.run_until(1_000_000)
    assert b.requests == ["hello"]
    assert a.responses == [("hello", None)]


def test_a_partition_of_one_channel_does_not_affect_the_others() -> None:
    engine, network, a, b = world()
    network.block(1, [(1, 2, "quorum")])
    a.ask(2, "vote", 200, channel="quorum")
    a.ask(2, "data", 200, channel="fetch")
    engine.run_until(1_000_000)
    assert b.requests == ["data"]


def test_a_link_stays_blocked_until_the_last_rule_is_lifted() -> None:
    engine, network, a, b = world()
    network.block(1, [(1, 2)])
    network.block(2, [(1, 2)])
    a.ask(2, "hello", 5_000)
    network.lift(1)
    engine.run_until(100_000)
    assert b.requests == []
    network.lift(2)
    engine.run_until(200_000)
    assert b.requests == ["hello"]


def test_a_request_that_times_out_resets_its_connection() -> None:
    engine, network, a, _ = world(answers=False)
    a.ask(2, "patient", timeout_ms=10_000)
    a.ask(2, "impatient", timeout_ms=100)
    engine.run_until(1_000_000)
    assert a.responses == [("patient", None), ("impatient", None)]
    assert network.stats["request_timeout"] == 1


def test_a_response_after_the_reset_is_lost() -> None:
    engine, network, a, b = world(answers=False)
    a.ask(2, "hello", timeout_ms=100)
    engine.run_until(1_000_000)
    connection, correlation, _ = b.waiting[0]
    network.reply(connection, correlation, "too late")
    engine.run_until(2_000_000)
    assert a.responses == [("hello", None)]
    assert network.stats["reply_lost"] == 1


def test_a_request_in_the_receivers_socket_may_outlive_the_reset_but_its_response_does_not() -> None:
    processed = []
    for seed in range(40):
        engine, network, a, b = world(seed, latency=Latency(base_us=10_000, jitter_us=0, spike_every=0))
        a.ask(2, "warm up")
        engine.run_until(100_000)
        a.ask(2, "old copy")
        network.reset_all_of(1)
        assert a.responses[-1] == ("old copy", None)
        a.ask(2, "new copy")
        engine.run_until(2_000_000)
        processed.append(tuple(b.requests[1:]))
        assert ("new copy", "re new copy") in a.responses
        assert len(a.responses) == 3
    assert set(processed) == {("new copy",), ("old copy", "new copy"), ("new copy", "old copy")}


def test_requests_of_a_dead_process_wait_in_its_kernel_until_the_link_opens() -> None:
    arrivals = []
    for seed in range(40):
        engine, network, a, b = world(seed)
        a.ask(2, "warm up")
        engine.run_until(100_000)
        network.block(1, [(1, 2)])
        a.ask(2, "old incarnation")
        engine.run_until(150_000)
        network.process_died(1)
        a.generation = 2
        a.ask(2, "new incarnation")
        engine.run_until(400_000)
        assert b.requests == ["warm up"]
        network.lift(1)
        engine.run_until(3_000_000)
        arrivals.append(tuple(b.requests[1:]))
    assert set(arrivals) >= {("new incarnation",), ("new incarnation", "old incarnation")}


def test_a_dead_process_refuses_connections_at_once() -> None:
    engine, _, a, b = world()
    b.alive = False
    a.ask(2, "hello", timeout_ms=60_000)
    engine.run_until(300_000)
    assert a.responses == [("hello", None)]


def test_a_machine_without_power_is_silent_until_the_timeout() -> None:
    engine, _, a, b = world()
    b.alive, b.powered_off = False, True
    a.ask(2, "hello", timeout_ms=700)
    engine.run_until(600_000)
    assert a.responses == []
    engine.run_until(800_000)
    assert a.responses == [("hello", None)]


def test_a_restarted_process_does_not_know_old_connections() -> None:
    engine, network, a, b = world(answers=False)
    a.ask(2, "before", timeout_ms=60_000)
    engine.run_until(100_000)
    b.powered_off = True
    network.process_died(2)
    b.generation, b.powered_off = 2, False
    a.ask(2, "after", timeout_ms=60_000)
    engine.run_until(500_000)
    assert b.requests == ["before"]
    assert a.responses == [("before", None), ("after", None)]


def test_the_death_of_a_process_closes_its_connections_and_some_peers_learn_of_it() -> None:
    lost = []
    for seed in range(20):
        engine, network, a, b = world(seed, answers=False)
        a.ask(2, "hello", timeout_ms=60_000)
        engine.run_until(100_000)
        b.alive = False
        network.process_died(2)
        engine.run_until(300_000)
        assert a.responses == [("hello", None)]
        lost.append(bool(a.lost))
    assert set(lost) == {True, False}


def test_a_dead_source_gets_no_response() -> None:
    engine, network, a, b = world(answers=False)
    a.ask(2, "hello")
    engine.run_until(100_000)
    network.process_died(1)
    a.generation = 2
    connection, correlation, _ = b.waiting[0]
    network.reply(connection, correlation, "for whom")
    engine.run_until(3_000_000)
    assert a.responses == []


def test_a_one_way_request_expects_no_response() -> None:
    engine, network, a, b = world(answers=False)
    a.ask(2, "acks=0", timeout_ms=100, one_way=True)
    engine.run_until(1_000_000)
    assert b.requests == ["acks=0"]
    assert a.responses == []
    connection, correlation, _ = b.waiting[0]
    network.refuse_to_reply(connection, correlation)
    engine.run_until(2_000_000)
    assert network.stats["reset"] == 0


def test_a_server_that_will_not_answer_closes_the_connection() -> None:
    engine, network, a, b = world(answers=False)
    a.ask(2, "what?", timeout_ms=60_000)
    engine.run_until(100_000)
    connection, correlation, _ = b.waiting[0]
    network.refuse_to_reply(connection, correlation)
    engine.run_until(200_000)
    assert a.responses == [("what?", None)]


def test_a_request_to_an_unknown_peer_gets_no_response() -> None:
    engine, _, a, _ = world()
    a.ask(-1, "anyone?")
    engine.run_until(10_000)
    assert a.responses == [("anyone?", None)]


def test_a_slow_link_adds_its_delay_only_while_it_is_slow() -> None:
    engine, network, a, b = world()
    network.slow(1, [(1, 2)], 400_000)
    a.ask(2, "slow", 5_000)
    engine.run_until(390_000)
    assert b.requests == []
    engine.run_until(1_000_000)
    network.lift(1)
    a.ask(2, "fast", 5_000)
    engine.run_until(1_100_000)
    assert b.requests == ["slow", "fast"]


def test_a_reset_is_sometimes_taken_for_a_death() -> None:
    """A lost peer is a hint, never proof."""
    alarms = 0
    for seed in range(60):
        engine, network, a, b = world(seed)
        a.ask(2, "hello")
        engine.run_until(100_000)
        network.reset_all_of(1)
        engine.run_until(300_000)
        alarms += len(a.lost) + len(b.lost)
        assert set(a.lost) <= {2}
        assert set(b.lost) <= {1}
    assert 0 < alarms < 60
