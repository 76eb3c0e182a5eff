"""Consumers that join, sync, commit, restart and leave at random, with a coordinator that fails over at random.

Checked all the time: a generation has one leader, one protocol and one assignment; a member gets nothing that was not
assigned to it in the generation it asked for; an acknowledged offset is never forgotten; every request is answered
exactly once.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from insync.wire.errors import ErrorCode
from tests.groups.group_harness import REBALANCE, GroupHarness

NONE = ErrorCode.none


class Consumer:
    """The state of a client; `waiting` is the token of its open join or sync."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.leads = False
        self.members: list[str] = []
        self.step = "join"
        self.waiting: int | None = None


class Groups(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.harness = GroupHarness()
        self.consumers = [Consumer(None), Consumer(None), Consumer("i2")]
        self.life = 0
        self.leaders: dict[tuple[int, int], tuple[str, str]] = {}  # (life, generation) -> (leader, protocol)
        self.assigned: dict[int, bytes] = {}  # generation -> whose assignment, which attempt
        self.attempts = 0
        self.last_commit = 0
        self.acknowledged = 0
        self.commits: dict[int, int] = {}  # token -> value
        self.open: dict[int, Consumer] = {}

    # --- consumers ---

    @rule(static=st.booleans())
    def add_consumer(self, static: bool) -> None:
        if len(self.consumers) < 5:
            self.consumers.append(Consumer(f"i{len(self.consumers)}" if static else None))

    @rule(times=st.integers(1, 3), pause=st.sampled_from((0, 3_000)))
    def all_consumers_act(self, times: int, pause: int) -> None:
        for _ in range(times):
            for consumer in list(self.consumers):
                self._act(consumer)
            self.advance_time(pause)

    @rule(which=st.integers(0, 4))
    def one_consumer_acts(self, which: int) -> None:
        self._act(self._one(which))

    def _one(self, which: int) -> Consumer:
        return self.consumers[which % len(self.consumers)]

    def _act(self, consumer: Consumer) -> None:
        if consumer.waiting is not None:
            return
        if consumer.step == "join":
            self._open(consumer, self.harness.join(consumer.id, instance=consumer.instance))
        elif consumer.step == "sync":
            self.attempts += 1
            assigned = {m: b"%d|%s|" % (self.attempts, consumer.id.encode()) + m.encode() for m in consumer.members}
            token = self.harness.sync(consumer.id, consumer.generation, assigned, instance=consumer.instance)
            self._open(consumer, token)
        else:
            self._handle_error(consumer, self.harness.heartbeat(consumer.id, consumer.generation, consumer.instance))
        self._handle_answers()

    @rule(which=st.integers(0, 4))
    def commit_offset(self, which: int) -> None:
        consumer = self._one(which)
        if consumer.step != "read":
            return
        self.last_commit += 1
        token = self.harness.commit(
            self.last_commit, member_id=consumer.id, generation=consumer.generation, instance=consumer.instance
        )
        self.commits[token] = self.last_commit
        self._handle_answers()

    @rule(which=st.integers(0, 4))
    def leave(self, which: int) -> None:
        consumer = self._one(which)
        if consumer.id:
            self.harness.leave((consumer.id, consumer.instance))
            self._restart(consumer)

    @rule(which=st.integers(0, 4))
    def restart_consumer(self, which: int) -> None:
        """The new process knows nothing of the old one, and the answers to that are ignored."""
        self._restart(self._one(which))

    def _restart(self, consumer: Consumer) -> None:
        self.consumers[self.consumers.index(consumer)] = Consumer(consumer.instance)
        self._handle_answers()

    # --- time, log and coordinator ---

    @rule(by=st.sampled_from((10, 3_000, 5_000, 61_000)))
    def advance_time(self, by: int) -> None:
        self.harness.advance(by)
        self._handle_answers()

    @rule()
    def stall_log(self) -> None:
        if self.harness.log.waiting is None:
            self.harness.log.hold()

    @rule(refused=st.booleans())
    def release_log(self, refused: bool) -> None:
        self.harness.release(ErrorCode.not_enough_replicas if refused else NONE)
        self._handle_answers()

    @rule()
    def time_out_writes(self) -> None:
        """The records are in the log and are committed later, or lost with the coordinator."""
        self.harness.log.time_out(self.harness.now)
        self.harness.drain()
        self._handle_answers()

    @rule(stored=st.booleans())
    def fail_over_coordinator(self, stored: bool) -> None:
        old = self.harness
        if stored:
            old.log.commit_late(old.now)
        old.log.late.clear()
        old.release(ErrorCode.not_leader_or_follower, stored=stored)
        old.coordinator.unload(0)
        old.drain()
        self.harness = old.reloaded()
        self.harness.tokens, self.harness.answers = old.tokens, old.answers
        self._handle_answers()
        self.life += 1

    # --- answers ---

    def _open(self, consumer: Consumer, token: int) -> None:
        consumer.waiting = token
        self.open[token] = consumer

    def _handle_answers(self) -> None:
        answers = self.harness.answers
        for token in [token for token in self.open if token in answers]:
            consumer = self.open.pop(token)
            if consumer.step == "join":
                self._joined(consumer, answers[token])
            else:
                self._synced(consumer, answers[token])
            consumer.waiting = None
        for token in [token for token in self.commits if token in answers]:
            value = self.commits.pop(token)
            if self.harness.commit_error(token) == "none":
                self.acknowledged = max(self.acknowledged, value)
        self._check_offset()

    def _check_offset(self) -> None:
        """G2: memory holds exactly what the log holds."""
        if self.acknowledged:
            assert self.acknowledged <= self.harness.fetched() <= self.last_commit
        assert self.harness.fetched() == self.harness.reloaded().fetched()

    def _leader_name(self, member_id: str) -> str:
        """A static leader that restarts has another member id in the same generation."""
        instances = [consumer.instance for consumer in self.consumers if consumer.instance is not None]
        return next((name for name in instances if member_id.startswith(f"{name}-")), member_id)

    def _joined(self, consumer: Consumer, answer: Any) -> None:
        if answer.error_code is ErrorCode.member_id_required:
            consumer.id = answer.member_id
        elif answer.error_code is NONE:
            leader = (self._leader_name(answer.leader), answer.protocol_name)
            if not answer.skip_assignment:
                assert self.leaders.setdefault((self.life, answer.generation_id), leader) == leader
            assert answer.generation_id >= max(self.assigned, default=0)
            consumer.id, consumer.generation = answer.member_id, answer.generation_id
            consumer.leads = answer.leader == consumer.id
            consumer.members = [m.member_id for m in answer.members]
            assert bool(consumer.members) == consumer.leads
            consumer.step = "sync"
        else:
            self._handle_error(consumer, answer.error_code.name)

    def _synced(self, consumer: Consumer, answer: Any) -> None:
        if answer.error_code is not NONE:
            self._handle_error(consumer, answer.error_code.name)
            return
        if answer.assignment:
            attempt, leader, member = answer.assignment.split(b"|")
            assignment = attempt + b"|" + leader
            assert self.assigned.setdefault(consumer.generation, assignment) == assignment
            assert consumer.instance is not None or member == consumer.id.encode()
            assert consumer.instance is None or member.startswith(consumer.instance.encode() + b"-")
        consumer.step = "read"

    def _handle_error(self, consumer: Consumer, error: str) -> None:
        if error in ("unknown_member_id", "fenced_instance_id"):
            consumer.id, consumer.step = "", "join"
        elif error in ("rebalance_in_progress", "illegal_generation"):
            consumer.step = "join"

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        self.harness.release()
        self.harness.advance(10 * REBALANCE)
        self._handle_answers()
        assert sorted(self.harness.answers) == list(range(1, self.harness.tokens + 1)), "a request without an answer"


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=120, stateful_step_count=40)
