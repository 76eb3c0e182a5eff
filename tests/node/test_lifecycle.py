"""The lifecycle of a broker: its requests to the controller, and how it handles the responses (B1, B3, B5, B7)."""

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


class Harness:
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

    def registered(self, epoch: int = 40, now: int = 0) -> Harness:
        (send,) = self.tick(now)
        send.on_response(registered(epoch), now)
        return self

    def running(self, now: int = 10) -> Harness:
        self.registered().life.metadata_applied(40, now)
        (send,) = self.tick(now)
        send.on_response(beaten(fenced=False), now)
        assert self.life.state == RUNNING
        return self


def test_a_broker_with_the_wrong_directory_or_cluster_gives_up() -> None:
    """B9: a retry would not help; the refusal names the cause."""
    for error, words in (
        (ErrorCode.invalid_registration, "registered by another broker"),
        (ErrorCode.inconsistent_cluster_id, "belongs to cluster node-tests, and the controller to another"),
    ):
        harness = Harness()
        (send,) = harness.tick(0)
        send.on_response(registered(-1, error), 0)
        assert words in harness.life.refusal


def test_a_broker_retries_while_its_id_is_registered_by_another_incarnation() -> None:
    """B2: the earlier incarnation is fenced eventually."""
    harness = Harness()
    (send,) = harness.tick(0)
    send.on_response(registered(-1, ErrorCode.duplicate_broker_registration), 0)
    assert harness.life.refusal == ""
    assert len(harness.tick(RETRY)) == 1


def registered(epoch: int, error: ErrorCode = ErrorCode.none) -> Any:
    return broker_registration.BrokerRegistrationResponse(
        throttle_time=NO_DURATION, error_code=error, broker_epoch=epoch
    )


def beaten(*, fenced: bool = True, stop: bool = False, error: ErrorCode = ErrorCode.none) -> Any:
    return broker_heartbeat.BrokerHeartbeatResponse(
        throttle_time=NO_DURATION, error_code=error, is_fenced=fenced, should_shut_down=stop
    )


def test_registration_carries_the_epoch_of_a_clean_incarnation_or_none() -> None:
    """B5: the epoch of the last incarnation if it stopped cleanly, else -1."""
    assert [send.request.previous_broker_epoch for send in Harness(previous=33).tick(0)] == [33]
    assert [send.request.previous_broker_epoch for send in Harness(previous=-1).tick(0)] == [-1]


def test_the_answer_to_the_registration_is_the_broker_epoch() -> None:
    """B1: it identifies this incarnation in all requests of the broker."""
    harness = Harness().registered(epoch=77)
    assert (harness.life.broker_epoch, harness.life.state) == (77, RECOVERY)
    (beat,) = harness.tick(0)
    assert beat.request.broker_epoch == 77


def test_a_refused_or_lost_registration_is_repeated_under_the_same_incarnation() -> None:
    """B1, B2: the controller tells a retry from another broker by the incarnation id."""
    harness = Harness()
    (first,) = harness.tick(0)
    first.on_response(registered(-1, ErrorCode.duplicate_broker_registration), 10)
    assert harness.tick(10) == []
    (second,) = harness.tick(RETRY)
    second.on_response(None, RETRY + 10)
    (third,) = harness.tick(2 * RETRY + 10)
    assert first.request == second.request == third.request
    assert harness.life.state == STARTING


def test_every_start_has_an_incarnation_id_of_its_own() -> None:
    """B1."""
    lives = [Lifecycle(config(1), random.Random(seed), Outbox(), lambda: 9, -1) for seed in (1, 2)]
    assert lives[0].incarnation_id != lives[1].incarnation_id


def test_nothing_is_sent_while_no_controller_is_known() -> None:
    harness = Harness(controller=-1)
    assert harness.tick(0) == []
    assert harness.life.next_deadline() == RETRY
    harness.controller = 9
    assert [send.peer for send in harness.tick(RETRY)] == [9]


def test_a_broker_wants_to_be_fenced_until_it_has_seen_its_own_registration() -> None:
    """B3: unfenced too early, it would act on the metadata of its last incarnation."""
    harness = Harness().registered(epoch=40)
    harness.life.metadata_applied(39, 1)
    (early,) = harness.tick(1)
    early.on_response(beaten(), 2)
    assert (early.request.want_fence, early.request.current_metadata_offset) == (True, 39)
    harness.life.metadata_applied(40, 3)
    (ready,) = harness.tick(3)
    assert (ready.request.want_fence, ready.request.current_metadata_offset) == (False, 40)


def test_a_broker_that_sees_its_registration_during_a_heartbeat_sends_the_next_at_once() -> None:
    """B3: it does not stay fenced for an interval only because a heartbeat was under way."""
    harness = Harness().registered(epoch=40)
    (early,) = harness.tick(1)
    harness.life.metadata_applied(40, 2)
    assert harness.tick(2) == []
    early.on_response(beaten(), 3)
    (ready,) = harness.tick(3)
    assert (early.request.want_fence, ready.request.want_fence) == (True, False)
    ready.on_response(beaten(), 4)
    assert harness.tick(4) == [], "the controller knows; from now on the interval counts"


def test_a_broker_runs_when_the_controller_has_unfenced_it() -> None:
    """B3."""
    harness = Harness().registered()
    harness.life.metadata_applied(40, 1)
    (first,) = harness.tick(1)
    first.on_response(beaten(fenced=True), 2)
    assert harness.life.state == RECOVERY
    (second,) = harness.tick(1 + BEAT)
    second.on_response(beaten(fenced=False), 2 + BEAT)
    assert (harness.life.state, harness.life.fenced) == (RUNNING, False)


def test_heartbeats_go_on_at_their_interval_and_one_at_a_time() -> None:
    """B4: they are what keeps a broker unfenced."""
    harness = Harness().running(now=10)
    assert harness.tick(10 + BEAT - 1) == []
    (beat,) = harness.tick(10 + BEAT)
    assert harness.tick(10 + 2 * BEAT) == []
    beat.on_response(None, 10 + 2 * BEAT)
    assert len(harness.tick(10 + 2 * BEAT + RETRY)) == 1


def test_a_broker_that_is_fenced_again_keeps_its_epoch() -> None:
    """B4: a heartbeat unfences it under the same epoch."""
    harness = Harness().running(now=10)
    (beat,) = harness.tick(10 + BEAT)
    beat.on_response(beaten(fenced=True), 10 + BEAT)
    assert (harness.life.state, harness.life.fenced, harness.life.broker_epoch) == (RUNNING, True, 40)


def test_a_new_controller_is_asked_at_once_and_the_old_ones_late_answer_is_ignored() -> None:
    """B1: the epoch that counts is the one that the last registration asked for."""
    harness = Harness()
    (old,) = harness.tick(0)
    harness.controller = 8
    harness.life.controller_changed(100)
    (new,) = harness.tick(100)
    assert (new.peer, new.request) == (8, old.request)
    old.on_response(registered(40), 101)
    assert not harness.life.registered
    new.on_response(registered(55), 102)
    assert harness.life.broker_epoch == 55


def test_a_controlled_shutdown_stops_only_when_the_controller_says_so() -> None:
    """B7."""
    harness = Harness().running(now=10)
    harness.life.begin_shutdown(100)
    (asked,) = harness.tick(100)
    assert asked.request.want_shut_down
    asked.on_response(beaten(fenced=False, stop=False), 101)
    assert harness.life.state == SHUTTING_DOWN
    (again,) = harness.tick(100 + BEAT)
    again.on_response(beaten(fenced=False, stop=True), 101 + BEAT)
    assert harness.life.state == STOPPED
    assert harness.life.next_deadline() is None


def test_a_heartbeat_from_before_the_shutdown_does_not_end_it() -> None:
    """B7: its answer is to another question."""
    harness = Harness().running(now=10)
    (before,) = harness.tick(10 + BEAT)
    harness.life.begin_shutdown(10 + BEAT)
    (asked,) = harness.tick(10 + BEAT)
    before.on_response(beaten(fenced=False, stop=True), 11 + BEAT)
    assert harness.life.state == SHUTTING_DOWN
    asked.on_response(beaten(fenced=False, stop=True), 12 + BEAT)
    assert harness.life.state == STOPPED


def test_new_metadata_sends_a_heartbeat_during_a_shutdown_at_once() -> None:
    """B7: the controller may be waiting for this broker to have seen that it leads nothing."""
    harness = Harness().running(now=10)
    harness.life.begin_shutdown(100)
    (asked,) = harness.tick(100)
    asked.on_response(beaten(fenced=False), 101)
    harness.life.metadata_applied(50, 102)
    (again,) = harness.tick(102)
    assert (again.request.current_metadata_offset, again.request.want_shut_down) == (50, True)


def test_an_unanswered_shutdown_ends_after_its_timeout() -> None:
    """B7."""
    harness = Harness().running(now=10)
    harness.life.begin_shutdown(100)
    harness.tick(100)
    deadline = 100 + harness.life.config.controlled_shutdown_timeout_ms
    harness.life.tick(deadline - 1)
    assert harness.life.state == SHUTTING_DOWN
    harness.life.tick(deadline)
    assert harness.life.state == STOPPED


def test_a_second_shutdown_request_stops_a_broker_at_once() -> None:
    """B7: when a whole cluster stops, no controller is left to permit the last brokers."""
    harness = Harness().running(now=10)
    harness.life.begin_shutdown(100)
    harness.tick(100)
    harness.life.begin_shutdown(200)
    harness.life.tick(200)
    assert harness.life.state == STOPPED


def test_a_broker_that_never_registered_stops_at_once() -> None:
    """B7: there is nothing to move away from it."""
    harness = Harness()
    (asked,) = harness.tick(0)
    harness.life.begin_shutdown(5)
    assert harness.life.state == STOPPED
    asked.on_response(registered(40), 6)
    assert not harness.life.registered
    harness.life.begin_shutdown(7)
    assert harness.tick(10_000) == []
