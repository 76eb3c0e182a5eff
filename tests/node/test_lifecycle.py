"""A broker's life, step by step: what it asks of the controller, and what it makes of the answers (B1, B3, B5, B7)."""

from __future__ import annotations

import random
from typing import Any

from insync.node.lifecycle import RECOVERY, RUNNING, SHUTTING_DOWN, STARTING, STOPPED, Lifecycle
from insync.sansio import Outbox, Send
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat, broker_registration
from insync.wire.types import NO_DURATION
from tests.node.node_harness import config

RETRY, BEAT = 500, 2_000


class Bench:
    def __init__(self, previous: int = -1, controller: int = 9) -> None:
        self.out = Outbox()
        self.controller = controller
        self.life = Lifecycle(config(1), random.Random(1), self.out, lambda: self.controller, previous)
        self.life.start(0)

    def tick(self, now: int) -> list[Send]:
        self.life.tick(now)
        return self.sent()

    def sent(self) -> list[Send]:
        return [effect for effect in self.out.drain() if isinstance(effect, Send)]

    def registered(self, epoch: int = 40, now: int = 0) -> Bench:
        (send,) = self.tick(now)
        send.on_response(registered(epoch), now)
        return self

    def running(self, now: int = 10) -> Bench:
        self.registered().life.metadata_applied(40, now)
        (send,) = self.tick(now)
        send.on_response(beaten(fenced=False), now)
        assert self.life.state == RUNNING
        return self


def test_a_broker_that_is_not_what_its_directory_says_gives_up() -> None:
    """B9: asking again would not help; what stands in the way is named."""
    for error, words in (
        (ErrorCode.invalid_registration, "registered by another broker"),
        (ErrorCode.inconsistent_cluster_id, "belongs to cluster node-tests, and the controller to another"),
    ):
        bench = Bench()
        (send,) = bench.tick(0)
        send.on_response(registered(-1, error), 0)
        assert words in bench.life.refusal


def test_a_broker_whose_name_is_taken_asks_again() -> None:
    """B2: the earlier incarnation is fenced eventually."""
    bench = Bench()
    (send,) = bench.tick(0)
    send.on_response(registered(-1, ErrorCode.duplicate_broker_registration), 0)
    assert bench.life.refusal == ""
    assert len(bench.tick(RETRY)) == 1


def registered(epoch: int, error: ErrorCode = ErrorCode.none) -> Any:
    return broker_registration.BrokerRegistrationResponse(
        throttle_time=NO_DURATION, error_code=error, broker_epoch=epoch
    )


def beaten(*, fenced: bool = True, stop: bool = False, error: ErrorCode = ErrorCode.none) -> Any:
    return broker_heartbeat.BrokerHeartbeatResponse(
        throttle_time=NO_DURATION, error_code=error, is_fenced=fenced, should_shut_down=stop
    )


def test_registration_carries_the_epoch_of_a_clean_uptime_or_none() -> None:
    """B5: the epoch of the last incarnation if it stopped cleanly, else -1."""
    assert [send.request.previous_broker_epoch for send in Bench(previous=33).tick(0)] == [33]
    assert [send.request.previous_broker_epoch for send in Bench(previous=-1).tick(0)] == [-1]


def test_the_answer_to_the_registration_is_the_broker_epoch() -> None:
    """B1: it identifies this incarnation in all requests of the broker."""
    bench = Bench().registered(epoch=77)
    assert (bench.life.broker_epoch, bench.life.state) == (77, RECOVERY)
    (beat,) = bench.tick(0)
    assert beat.request.broker_epoch == 77


def test_a_refused_or_lost_registration_is_repeated_under_the_same_incarnation() -> None:
    """B1, B2: the controller tells a retry from another broker by the incarnation id."""
    bench = Bench()
    (first,) = bench.tick(0)
    first.on_response(registered(-1, ErrorCode.duplicate_broker_registration), 10)
    assert bench.tick(10) == []
    (second,) = bench.tick(RETRY)
    second.on_response(None, RETRY + 10)
    (third,) = bench.tick(2 * RETRY + 10)
    assert first.request == second.request == third.request
    assert bench.life.state == STARTING


def test_two_uptimes_are_two_incarnations() -> None:
    """B1."""
    lives = [Lifecycle(config(1), random.Random(seed), Outbox(), lambda: 9, -1) for seed in (1, 2)]
    assert lives[0].incarnation_id != lives[1].incarnation_id


def test_nothing_is_asked_while_no_controller_is_known() -> None:
    bench = Bench(controller=-1)
    assert bench.tick(0) == []
    assert bench.life.next_deadline() == RETRY
    bench.controller = 9
    assert [send.peer for send in bench.tick(RETRY)] == [9]


def test_a_broker_wants_to_be_fenced_until_it_has_seen_its_own_registration() -> None:
    """B3: unfenced too early, it would act on the metadata of its last incarnation."""
    bench = Bench().registered(epoch=40)
    bench.life.metadata_applied(39, 1)
    (early,) = bench.tick(1)
    early.on_response(beaten(), 2)
    assert (early.request.want_fence, early.request.current_metadata_offset) == (True, 39)
    bench.life.metadata_applied(40, 3)
    (ready,) = bench.tick(3)
    assert (ready.request.want_fence, ready.request.current_metadata_offset) == (False, 40)


def test_a_broker_that_sees_its_registration_during_a_heartbeat_says_so_with_the_next_at_once() -> None:
    """B3: it does not stay fenced for an interval only because a heartbeat was under way."""
    bench = Bench().registered(epoch=40)
    (early,) = bench.tick(1)
    bench.life.metadata_applied(40, 2)
    assert bench.tick(2) == []
    early.on_response(beaten(), 3)
    (ready,) = bench.tick(3)
    assert (early.request.want_fence, ready.request.want_fence) == (True, False)
    ready.on_response(beaten(), 4)
    assert bench.tick(4) == [], "the controller has heard it; from now on the interval counts"


def test_a_broker_runs_when_the_controller_has_unfenced_it() -> None:
    """B3."""
    bench = Bench().registered()
    bench.life.metadata_applied(40, 1)
    (first,) = bench.tick(1)
    first.on_response(beaten(fenced=True), 2)
    assert bench.life.state == RECOVERY
    (second,) = bench.tick(1 + BEAT)
    second.on_response(beaten(fenced=False), 2 + BEAT)
    assert (bench.life.state, bench.life.fenced) == (RUNNING, False)


def test_heartbeats_go_on_at_their_interval_and_one_at_a_time() -> None:
    """B4: they are what keeps a broker unfenced."""
    bench = Bench().running(now=10)
    assert bench.tick(10 + BEAT - 1) == []
    (beat,) = bench.tick(10 + BEAT)
    assert bench.tick(10 + 2 * BEAT) == []
    beat.on_response(None, 10 + 2 * BEAT)
    assert len(bench.tick(10 + 2 * BEAT + RETRY)) == 1


def test_a_broker_that_is_fenced_again_keeps_its_epoch_and_says_so() -> None:
    """B4: a heartbeat unfences it under the same epoch."""
    bench = Bench().running(now=10)
    (beat,) = bench.tick(10 + BEAT)
    beat.on_response(beaten(fenced=True), 10 + BEAT)
    assert (bench.life.state, bench.life.fenced, bench.life.broker_epoch) == (RUNNING, True, 40)


def test_a_new_controller_is_asked_at_once_and_the_old_ones_late_answer_is_ignored() -> None:
    """B1: the epoch that counts is the one that the last registration asked for."""
    bench = Bench()
    (old,) = bench.tick(0)
    bench.controller = 8
    bench.life.controller_changed(100)
    (new,) = bench.tick(100)
    assert (new.peer, new.request) == (8, old.request)
    old.on_response(registered(40), 101)
    assert not bench.life.registered
    new.on_response(registered(55), 102)
    assert bench.life.broker_epoch == 55


def test_a_controlled_shutdown_stops_only_when_the_controller_says_so() -> None:
    """B7."""
    bench = Bench().running(now=10)
    bench.life.begin_shutdown(100)
    (asked,) = bench.tick(100)
    assert asked.request.want_shut_down
    asked.on_response(beaten(fenced=False, stop=False), 101)
    assert bench.life.state == SHUTTING_DOWN
    (again,) = bench.tick(100 + BEAT)
    again.on_response(beaten(fenced=False, stop=True), 101 + BEAT)
    assert bench.life.state == STOPPED
    assert bench.life.next_deadline() is None


def test_a_heartbeat_from_before_the_shutdown_does_not_end_it() -> None:
    """B7: its answer is to another question."""
    bench = Bench().running(now=10)
    (before,) = bench.tick(10 + BEAT)
    bench.life.begin_shutdown(10 + BEAT)
    (asked,) = bench.tick(10 + BEAT)
    before.on_response(beaten(fenced=False, stop=True), 11 + BEAT)
    assert bench.life.state == SHUTTING_DOWN
    asked.on_response(beaten(fenced=False, stop=True), 12 + BEAT)
    assert bench.life.state == STOPPED


def test_news_of_the_metadata_hastens_a_shutdown() -> None:
    """B7: the controller may be waiting for this broker to have seen that it leads nothing."""
    bench = Bench().running(now=10)
    bench.life.begin_shutdown(100)
    (asked,) = bench.tick(100)
    asked.on_response(beaten(fenced=False), 101)
    bench.life.metadata_applied(50, 102)
    (again,) = bench.tick(102)
    assert (again.request.current_metadata_offset, again.request.want_shut_down) == (50, True)


def test_a_shutdown_that_nobody_answers_ends_after_its_time() -> None:
    """B7."""
    bench = Bench().running(now=10)
    bench.life.begin_shutdown(100)
    bench.tick(100)
    deadline = 100 + bench.life.config.controlled_shutdown_timeout_ms
    bench.life.tick(deadline - 1)
    assert bench.life.state == SHUTTING_DOWN
    bench.life.tick(deadline)
    assert bench.life.state == STOPPED


def test_a_broker_that_is_told_twice_to_stop_waits_no_longer() -> None:
    """B7: when a whole cluster stops, no controller is left to permit the last brokers."""
    bench = Bench().running(now=10)
    bench.life.begin_shutdown(100)
    bench.tick(100)
    bench.life.begin_shutdown(200)
    bench.life.tick(200)
    assert bench.life.state == STOPPED


def test_a_broker_that_never_registered_stops_at_once() -> None:
    """B7: there is nothing to move away from it."""
    bench = Bench()
    (asked,) = bench.tick(0)
    bench.life.begin_shutdown(5)
    assert bench.life.state == STOPPED
    asked.on_response(registered(40), 6)
    assert not bench.life.registered
    bench.life.begin_shutdown(7)
    assert bench.tick(10_000) == []
