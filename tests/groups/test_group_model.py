"""Consumers that join, sync, read, fall silent and leave at random, under a coordinator that fails over at random.

What must hold whatever happens: a generation has one leader, one protocol and one assignment; nobody is given anything
that was not assigned to it in the generation it asked for; an acknowledged offset is never forgotten; every request is
answered exactly once.
"""

from __future__ import annotations

from typing import Any

from group_world import REBALANCE, World
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from insync.wire.errors import ErrorCode

NONE = ErrorCode.none


class Consumer:
    """What a client knows; `waiting` is the token of its open join or sync."""

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
        self.world = World()
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
    def a_consumer_comes(self, static: bool) -> None:
        if len(self.consumers) < 5:
            self.consumers.append(Consumer(f"i{len(self.consumers)}" if static else None))

    @rule(times=st.integers(1, 3), pause=st.sampled_from((0, 3_000)))
    def everybody_acts(self, times: int, pause: int) -> None:
        for _ in range(times):
            for consumer in list(self.consumers):
                self._act(consumer)
            self.time_passes(pause)

    @rule(which=st.integers(0, 4))
    def one_acts(self, which: int) -> None:
        self._act(self._one(which))

    def _one(self, which: int) -> Consumer:
        return self.consumers[which % len(self.consumers)]

    def _act(self, consumer: Consumer) -> None:
        if consumer.waiting is not None:
            return
        if consumer.step == "join":
            self._open(consumer, self.world.join(consumer.id, instance=consumer.instance))
        elif consumer.step == "sync":
            self.attempts += 1
            given = {m: b"%d|%s|" % (self.attempts, consumer.id.encode()) + m.encode() for m in consumer.members}
            token = self.world.sync(consumer.id, consumer.generation, given, instance=consumer.instance)
            self._open(consumer, token)
        else:
            self._heard(consumer, self.world.heartbeat(consumer.id, consumer.generation, consumer.instance))
        self._look()

    @rule(which=st.integers(0, 4))
    def commits_offsets(self, which: int) -> None:
        consumer = self._one(which)
        if consumer.step != "read":
            return
        self.last_commit += 1
        token = self.world.commit(
            self.last_commit, member_id=consumer.id, generation=consumer.generation, instance=consumer.instance
        )
        self.commits[token] = self.last_commit
        self._look()

    @rule(which=st.integers(0, 4))
    def leaves(self, which: int) -> None:
        consumer = self._one(which)
        if consumer.id:
            self.world.leave((consumer.id, consumer.instance))
            self._restart(consumer)

    @rule(which=st.integers(0, 4))
    def its_process_restarts(self, which: int) -> None:
        """It knows nothing of what it was; whatever it waits for nobody will read."""
        self._restart(self._one(which))

    def _restart(self, consumer: Consumer) -> None:
        self.consumers[self.consumers.index(consumer)] = Consumer(consumer.instance)
        self._look()

    # --- the world ---

    @rule(by=st.sampled_from((10, 3_000, 5_000, 61_000)))
    def time_passes(self, by: int) -> None:
        self.world.advance(by)
        self._look()

    @rule()
    def the_log_stalls(self) -> None:
        if self.world.log.waiting is None:
            self.world.log.hold()

    @rule(refused=st.booleans())
    def the_log_goes_on(self, refused: bool) -> None:
        self.world.release(ErrorCode.not_enough_replicas if refused else NONE)
        self._look()

    @rule()
    def writes_time_out(self) -> None:
        """They are in the log and commit later, or are lost with the coordinator."""
        self.world.log.time_out(self.world.now)
        self.world.drain()
        self._look()

    @rule(stored=st.booleans())
    def the_coordinator_fails_over(self, stored: bool) -> None:
        old = self.world
        if stored:
            old.log.commit_late(old.now)
        old.log.late.clear()
        old.release(ErrorCode.not_leader_or_follower, stored=stored)
        old.coordinator.unload(0)
        old.drain()
        self.world = old.reloaded()
        self.world.tokens, self.world.answers = old.tokens, old.answers
        self._look()
        self.life += 1

    # --- what is seen ---

    def _open(self, consumer: Consumer, token: int) -> None:
        consumer.waiting = token
        self.open[token] = consumer

    def _look(self) -> None:
        answers = self.world.answers
        for token in [t for t in self.open if t in answers]:
            consumer = self.open.pop(token)
            if consumer.step == "join":
                self._joined(consumer, answers[token])
            else:
                self._synced(consumer, answers[token])
            consumer.waiting = None
        for token in [t for t in self.commits if t in answers]:
            value = self.commits.pop(token)
            if self.world.commit_error(token) == "none":
                self.acknowledged = max(self.acknowledged, value)
        self._check_offset()

    def _check_offset(self) -> None:
        """G2: memory holds what the log holds, neither less nor more."""
        if self.acknowledged:
            assert self.acknowledged <= self.world.fetched() <= self.last_commit
        assert self.world.fetched() == self.world.reloaded().fetched()

    def _leader_name(self, member_id: str) -> str:
        """A static leader that restarts has another member id in the same generation."""
        instances = [consumer.instance for consumer in self.consumers if consumer.instance is not None]
        return next((name for name in instances if member_id.startswith(f"{name}-")), member_id)

    def _joined(self, consumer: Consumer, answer: Any) -> None:
        if answer.error_code is ErrorCode.member_id_required:
            consumer.id = answer.member_id
        elif answer.error_code is NONE:
            told = (self._leader_name(answer.leader), answer.protocol_name)
            if not answer.skip_assignment:
                assert self.leaders.setdefault((self.life, answer.generation_id), told) == told
            assert answer.generation_id >= max(self.assigned, default=0)
            consumer.id, consumer.generation = answer.member_id, answer.generation_id
            consumer.leads = answer.leader == consumer.id
            consumer.members = [m.member_id for m in answer.members]
            assert bool(consumer.members) == consumer.leads
            consumer.step = "sync"
        else:
            self._heard(consumer, answer.error_code.name)

    def _synced(self, consumer: Consumer, answer: Any) -> None:
        if answer.error_code is not NONE:
            self._heard(consumer, answer.error_code.name)
            return
        if answer.assignment:
            attempt, leader, member = answer.assignment.split(b"|")
            mark = attempt + b"|" + leader
            assert self.assigned.setdefault(consumer.generation, mark) == mark
            assert consumer.instance is not None or member == consumer.id.encode()
            assert consumer.instance is None or member.startswith(consumer.instance.encode() + b"-")
        consumer.step = "read"

    def _heard(self, consumer: Consumer, error: str) -> None:
        if error in ("unknown_member_id", "fenced_instance_id"):
            consumer.id, consumer.step = "", "join"
        elif error in ("rebalance_in_progress", "illegal_generation"):
            consumer.step = "join"

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.release()
        self.world.advance(10 * REBALANCE)
        self._look()
        assert sorted(self.world.answers) == list(range(1, self.world.tokens + 1)), "a request without an answer"


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
