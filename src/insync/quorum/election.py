"""Elections: who may ask for votes, who grants them, and what a voter is while there is no leader (Q4, KIP-996).

    unattached --timeout--> prospective --majority of pre-votes--> candidate (epoch + 1) --majority of votes--> leader
        ^                        |                                     |
        +------- refused --------+-------------------------------------+       a follower whose leader is silent, and a
                                                                               leader that resigned, become prospective

A pre-vote asks "would you vote for me?" and changes nothing on either side. A voter that hears from its leader says
no, so a voter that was paused or cut off cannot unseat a leader that the others follow. A real vote binds the voter for
its epoch and is on disk before the answer leaves.

Notes: quorum_election_started(epoch, pre_vote), quorum_vote_granted(epoch, candidate, pre_vote),
quorum_vote_refused(epoch, candidate, pre_vote, reason).

A damaged voter (Q8, `damage`) asks for pre-votes only to find the leader and the other damaged voters, and answers all
requests for votes with KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from insync.quorum import bounds, damage, messages
from insync.quorum.config import NOBODY, QUORUM_CHANNEL
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import INTACT, NEW
from insync.quorum.role import Role
from insync.quorum.state_file import ElectionState
from insync.sansio import Message
from insync.storage.checkpoints import MAX_OFFSET
from insync.wire.errors import ErrorCode

if TYPE_CHECKING:
    from insync.quorum.core import Core

FIRST_EPOCH = 1


# --- granting --------------------------------------------------------------------------------------------------------


def answer_vote(core: Core, asked: Any, now: int) -> Message:
    """Decide one Vote request, and remember a real vote before it is told."""
    error = request_error(core, asked)
    if error is not ErrorCode.none:
        return messages.vote_response(core.standing(error), granted=False)
    if not has_right_to_vote(core, asked):
        _note_refusal(core, asked, core.condition)
        return messages.vote_response(core.standing(ErrorCode.kafka_storage_error), granted=False)
    if asked.replica_epoch > core.epoch:
        core.become_unattached(asked.replica_epoch, now, core.role.next_deadline() if _waiting(core) else None)
    reason = refusal(core, asked)
    if reason:
        _note_refusal(core, asked, reason)
    else:
        core.noted_refusals.pop(asked.replica_id, None)
        core.out.note(
            "quorum_vote_granted", epoch=asked.replica_epoch, candidate=asked.replica_id, pre_vote=asked.pre_vote
        )
    if not reason and not asked.pre_vote:
        if core.condition == NEW and asked.replica_epoch == FIRST_EPOCH:
            core.condition = INTACT  # a majority has never heard of any epoch: this cluster is new
        core.vote_for(asked.replica_id, now)
    return messages.vote_response(core.standing(), granted=not reason)


def _note_refusal(core: Core, asked: Any, reason: str) -> None:
    """Once for each change: a candidate that cannot win asks again and again."""
    refused = (asked.replica_epoch, asked.pre_vote, reason)
    if core.noted_refusals.get(asked.replica_id) != refused:
        core.noted_refusals[asked.replica_id] = refused
        core.out.note(
            "quorum_vote_refused",
            epoch=asked.replica_epoch,
            candidate=asked.replica_id,
            pre_vote=asked.pre_vote,
            reason=reason,
        )


def request_error(core: Core, asked: Any) -> ErrorCode:
    newest = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
    if asked.last_offset < 0 or not 0 <= asked.last_offset_epoch <= newest:
        return ErrorCode.invalid_request
    if asked.replica_epoch < core.epoch:
        return ErrorCode.fenced_leader_epoch
    if not core.is_voter or asked.replica_id not in core.other_voters:
        return ErrorCode.inconsistent_voter_set
    if not bounds.epoch_in_range(core.epoch, asked.replica_epoch) or asked.last_offset > MAX_OFFSET:
        core.refuse_claim(asked.replica_epoch, asked.replica_id, "epoch_out_of_range")
        return ErrorCode.invalid_request
    return ErrorCode.none


def has_right_to_vote(core: Core, asked: Any) -> bool:
    """Q8: a damaged voter has none. A new one may have been replaced: it helps to elect an empty log only, which in a
    cluster that holds anything finds no majority."""
    return core.may_vote or (core.condition == NEW and asked.last_offset == 0)


def refusal(core: Core, asked: Any) -> str:
    """Why the asker does not get this vote; empty if it does."""
    if asked.pre_vote and core.role.refuses_pre_votes():
        return "has_leader"
    if not asked.pre_vote and not one_vote_per_epoch(core.election, asked.replica_id):
        return "voted_or_led"
    if not log_is_up_to_date(core, OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch)):
        return "log_behind"
    return ""


def one_vote_per_epoch(state: ElectionState, candidate: int) -> bool:
    """Q4: no second candidate gets a vote in an epoch, and none at all in an epoch that has its leader."""
    return state.leader_id == NOBODY and state.voted_id in (NOBODY, candidate)


def log_is_up_to_date(core: Core, theirs: OffsetAndEpoch) -> bool:
    """Q4: the later last epoch wins, then the longer log; so no elected log lacks a committed entry."""
    ours = core.log_end()
    return (theirs.epoch, theirs.offset) >= (ours.epoch, ours.offset)


def wins_pre_vote(granted: int, majority: int) -> bool:
    """Q4: nobody raises the epoch unless a majority would vote for it."""
    return granted >= majority


def wins_vote(granted: int, majority: int) -> bool:
    return granted >= majority


def _waiting(core: Core) -> bool:
    """A voter that waits for its own turn keeps its timer, or a hopeless candidate could put it off for ever."""
    return isinstance(core.role, Unattached | Campaign)


# --- roles -----------------------------------------------------------------------------------------------------------


class Unattached(Role):
    """A voter that knows no leader. It may have voted in this epoch."""

    __slots__ = ("deadline", "retries")

    name = "unattached"

    def __init__(self, core: Core, deadline: int, retries: int) -> None:
        super().__init__(core)
        self.deadline = deadline
        self.retries = retries

    def postpone(self, by_ms: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if now >= self.deadline:
            self.core.become_prospective(now, self.retries)

    def next_deadline(self) -> int | None:
        return self.deadline


class Campaign(Role):
    """A voter that asks all others once. Silence is no verdict; the round ends by majority or by time."""

    __slots__ = ("deadline", "granted", "refused", "retries")

    pre_vote = False

    def __init__(self, core: Core, retries: int) -> None:
        super().__init__(core)
        self.retries = retries
        self.deadline = 0
        self.granted: dict[int, None] = {core.node_id: None}
        self.refused: dict[int, None] = {}

    def enter(self, now: int) -> None:
        core = self.core
        self.deadline = core.election_deadline(now)
        if core.no_majority_ms is None or not self.pre_vote:  # Q8: else a finding says why there is no leader
            core.out.note("quorum_election_started", epoch=core.epoch, pre_vote=self.pre_vote)
        for voter in core.other_voters:
            self._ask(voter)
        self._count(now)

    def _ask(self, voter: int) -> None:
        core = self.core
        request = messages.vote_request(
            core.cluster_id, voter, core.node_id, core.epoch, core.log_end(), pre_vote=self.pre_vote
        )
        core.out.send(voter, QUORUM_CHANNEL, request, partial(self._answered, voter), core.request_timeout_ms())

    def _answered(self, voter: int, response: Message | None, now: int) -> None:
        self.core.check_cluster(voter, response)
        answer = None if response is None else messages.only(response.topics)
        if not self.current or answer is None:
            return
        standing = messages.standing_in(answer)
        if self.core.learn(standing.epoch, standing.leader_id, now):
            return
        if standing.leader_id == voter and standing.epoch == self.core.epoch:
            self.core.become_follower(standing.epoch, voter, now)  # the leader itself answers: it is alive after all
            return
        damaged = standing.error is ErrorCode.kafka_storage_error
        damage.peer_answered(self.core, voter, damaged=damaged, now=now)
        if standing.error is ErrorCode.none or damaged:
            (self.granted if answer.vote_granted and not damaged else self.refused)[voter] = None
            self._count(now)

    def _count(self, now: int) -> None:
        if self.has_won():
            self.won(now)
        elif len(self.refused) > len(self.core.voters) - self.core.majority:
            self.lost(now)

    def postpone(self, by_ms: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if now >= self.deadline:
            self.timed_out(now)

    def next_deadline(self) -> int | None:
        return self.deadline

    def has_won(self) -> bool:
        raise NotImplementedError

    def won(self, now: int) -> None:
        raise NotImplementedError

    def lost(self, now: int) -> None:
        """A majority said no: try again a little later, and later still the more often it happens."""
        core = self.core
        core.become_unattached(core.epoch, now, core.backoff_deadline(now, self.retries), self.retries + 1)

    def timed_out(self, now: int) -> None:
        self.lost(now)


class Prospective(Campaign):
    """Asks whether an election could be won. Its epoch, vote and known leader stay as they are."""

    __slots__ = ()

    name = "prospective"
    pre_vote = True

    def has_won(self) -> bool:
        return wins_pre_vote(len(self.granted), self.core.majority)

    def won(self, now: int) -> None:
        self.core.become_candidate(now, self.retries)

    def lost(self, now: int) -> None:
        if self.core.leader_id != NOBODY:
            self.core.become_follower(self.core.epoch, self.core.leader_id, now)  # the others still hear from it
        else:
            super().lost(now)

    def timed_out(self, now: int) -> None:
        self.core.become_prospective(now, self.retries)


class Recovering(Prospective):
    """A damaged voter without a leader: it looks for one, and never wins (Q8)."""

    __slots__ = ()

    name = "recovering"

    def enter(self, now: int) -> None:
        damage.report_lost_majority(self.core, now)
        super().enter(now)

    def has_won(self) -> bool:
        return False


class Candidate(Campaign):
    """Has raised the epoch, voted for itself in it, and asks for real votes."""

    __slots__ = ()

    name = "candidate"

    def has_won(self) -> bool:
        return wins_vote(len(self.granted), self.core.majority)

    def won(self, now: int) -> None:
        self.core.become_leader(tuple(self.granted), now)


class Resigned(Role):
    """A leader that gave up or restarted: it writes and commits nothing more in this epoch, and has no vote left."""

    __slots__ = ("deadline", "successors")

    name = "resigned"

    def __init__(self, core: Core, successors: Sequence[int]) -> None:
        super().__init__(core)
        self.successors = tuple(successors)
        self.deadline = 0

    def enter(self, now: int) -> None:
        core = self.core
        self.deadline = core.election_deadline(now)
        request = messages.end_request(core.cluster_id, core.node_id, core.epoch, self.successors)
        for voter in core.other_voters:
            core.out.send(voter, QUORUM_CHANNEL, request, self._answered, core.config.request_timeout_ms)

    def _answered(self, response: Message | None, now: int) -> None:
        answer = None if response is None else messages.only(response.topics)
        if self.current and answer is not None:
            standing = messages.standing_in(answer)
            self.core.learn(standing.epoch, standing.leader_id, now)

    def postpone(self, by_ms: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if now >= self.deadline:
            self.core.become_prospective(now)

    def next_deadline(self) -> int | None:
        return self.deadline
