"""Elections: how votes are asked for and granted, and the roles of a voter while there is no leader (Q4, KIP-996).

    unattached --timeout--> prospective --majority of pre-votes--> candidate (epoch + 1) --majority of votes--> leader
        ^                        |                                     |
        +------- refused --------+-------------------------------------+       a follower whose leader is silent, and a
                                                                               leader that resigned, become prospective

A pre-vote asks "would you vote for me?" and changes nothing on either side. A voter that hears from its leader says
no, so a voter that was paused or cut off cannot unseat a leader that the others follow. A real vote binds the voter for
its epoch and is on disk before the answer leaves.

Notes: quorum_election_started(epoch, pre_vote), quorum_vote_granted(epoch, candidate, pre_vote),
quorum_vote_refused(epoch, candidate, pre_vote, reason).

A damaged voter (Q8, `damage`) asks for pre-votes only to find the leader and the other damaged voters, and answers
every request for a vote with KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from insync.quorum import messages
from insync.quorum.config import NO_NODE, QUORUM_CHANNEL
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import INTACT, NEW
from insync.quorum.state import RaftState, Role, Transitions
from insync.quorum.state_file import ElectionState
from insync.storage.checkpoints import MAX_OFFSET
from insync.wire.errors import ErrorCode
from insync.wire.messages import end_quorum_epoch, vote

FIRST_EPOCH = 1


# --- granting --------------------------------------------------------------------------------------------------------


def answer_vote(
    state: RaftState, transitions: Transitions, request: vote.RequestPartition, now: int
) -> vote.VoteResponse:
    """Decide one Vote request. A real vote is recorded before the answer leaves."""
    error = request_error(state, request)
    if error is not ErrorCode.none:
        return messages.vote_response(state.leader_info(error), granted=False)
    if not has_right_to_vote(state, request):
        _note_refusal(state, request, state.damage.condition)
        return messages.vote_response(state.leader_info(ErrorCode.kafka_storage_error), granted=False)
    if request.replica_epoch > state.epoch:
        deadline = state.role.next_deadline() if _is_waiting_to_campaign(state) else None
        transitions.become_unattached(request.replica_epoch, now, deadline)
    reason = refusal(state, request)
    if reason:
        _note_refusal(state, request, reason)
    else:
        state.noted_refusals.pop(request.replica_id, None)
        state.out.note(
            "quorum_vote_granted", epoch=request.replica_epoch, candidate=request.replica_id, pre_vote=request.pre_vote
        )
    if not reason and not request.pre_vote:
        if state.damage.condition == NEW and request.replica_epoch == FIRST_EPOCH:
            state.damage.condition = INTACT  # a majority has never heard of any epoch: this cluster is new
        transitions.vote_for(request.replica_id, now)
    return messages.vote_response(state.leader_info(), granted=not reason)


def _note_refusal(state: RaftState, request: vote.RequestPartition, reason: str) -> None:
    """Noted once until it changes: a candidate that cannot win asks again and again."""
    refused = (request.replica_epoch, request.pre_vote, reason)
    if state.noted_refusals.get(request.replica_id) != refused:
        state.noted_refusals[request.replica_id] = refused
        state.out.note(
            "quorum_vote_refused",
            epoch=request.replica_epoch,
            candidate=request.replica_id,
            pre_vote=request.pre_vote,
            reason=reason,
        )


def request_error(state: RaftState, request: vote.RequestPartition) -> ErrorCode:
    newest = request.replica_epoch if request.pre_vote else request.replica_epoch - 1
    if request.last_offset < 0 or not 0 <= request.last_offset_epoch <= newest:
        return ErrorCode.invalid_request
    if request.replica_epoch < state.epoch:
        return ErrorCode.fenced_leader_epoch
    if not state.is_voter or request.replica_id not in state.other_voters:
        return ErrorCode.inconsistent_voter_set
    if not state.is_epoch_in_range(request.replica_epoch) or request.last_offset > MAX_OFFSET:
        state.refuse_claim(request.replica_epoch, request.replica_id, "epoch_out_of_range")
        return ErrorCode.invalid_request
    return ErrorCode.none


def has_right_to_vote(state: RaftState, request: vote.RequestPartition) -> bool:
    """Q8: a damaged voter has none. A new one may have been replaced: it votes for an empty log only, which gets no
    majority in a cluster that holds anything."""
    return state.damage.may_vote or (state.damage.condition == NEW and request.last_offset == 0)


def refusal(state: RaftState, request: vote.RequestPartition) -> str:
    """Why the candidate does not get this vote; empty if it does."""
    if request.pre_vote and state.role.refuses_pre_votes():
        return "has_leader"
    if not request.pre_vote and not one_vote_per_epoch(state.election, request.replica_id):
        return "voted_or_led"
    if not log_is_up_to_date(state, OffsetAndEpoch(request.last_offset, request.last_offset_epoch)):
        return "log_behind"
    return ""


def one_vote_per_epoch(state: ElectionState, candidate: int) -> bool:
    """Q4: no second candidate gets a vote in an epoch, and none at all in an epoch that has its leader."""
    return state.leader_id == NO_NODE and state.voted_id in (NO_NODE, candidate)


def log_is_up_to_date(state: RaftState, theirs: OffsetAndEpoch) -> bool:
    """Q4: the later last epoch wins, then the longer log; so no elected log lacks a committed entry."""
    ours = state.log_end()
    return (theirs.epoch, theirs.offset) >= (ours.epoch, ours.offset)


def _is_waiting_to_campaign(state: RaftState) -> bool:
    """A voter that waits for its own turn keeps its timer, or a hopeless candidate could delay it forever."""
    return isinstance(state.role, Unattached | Campaign)


# --- roles -----------------------------------------------------------------------------------------------------------


class Unattached(Role):
    """A voter that knows no leader. It may have voted in this epoch."""

    __slots__ = ("deadline", "retries")

    name = "unattached"

    def __init__(self, state: RaftState, transitions: Transitions, deadline: int, retries: int) -> None:
        super().__init__(state, transitions)
        self.deadline = deadline
        self.retries = retries

    def postpone(self, by_ms: int, now: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if now >= self.deadline:
            self.transitions.become_prospective(now, self.retries)

    def next_deadline(self) -> int | None:
        return self.deadline


class Campaign(Role):
    """A voter that asks all others once. A missing answer counts as neither yes nor no; the round ends by majority or
    timeout."""

    __slots__ = ("deadline", "granted", "refused", "retries")

    pre_vote = False

    def __init__(self, state: RaftState, transitions: Transitions, retries: int) -> None:
        super().__init__(state, transitions)
        self.retries = retries
        self.deadline = 0
        self.granted: dict[int, None] = {state.node_id: None}
        self.refused: dict[int, None] = {}

    def enter(self, now: int) -> None:
        state = self.state
        self.deadline = state.timeouts.election_deadline(now)
        if not (self.pre_vote and state.damage.has_lost_majority):  # Q8: then a finding says why there is no leader
            state.out.note("quorum_election_started", epoch=state.epoch, pre_vote=self.pre_vote)
        for voter in state.other_voters:
            self._ask(voter)
        self._count(now)

    def _ask(self, voter: int) -> None:
        state = self.state
        request = messages.vote_request(
            state.cluster_id, voter, state.node_id, state.epoch, state.log_end(), pre_vote=self.pre_vote
        )
        on_response = partial(self._on_vote_response, voter)
        state.out.send(voter, QUORUM_CHANNEL, request, on_response, state.timeouts.request_timeout_ms())

    def _on_vote_response(self, voter: int, response: vote.VoteResponse | None, now: int) -> None:
        self.state.check_cluster_id(voter, response)
        answer = None if response is None else messages.metadata_partition(response.topics)
        if not self.is_current or answer is None:
            return
        info = messages.read_leader_info(answer)
        if self.transitions.learn(info.epoch, info.leader_id, now):
            return
        if info.leader_id == voter and info.epoch == self.state.epoch:
            self.transitions.become_follower(info.epoch, voter, now)  # the leader itself answered, so it is alive
            return
        damaged = info.error is ErrorCode.kafka_storage_error
        self.state.damage.record_peer(voter, damaged=damaged, now=now)
        if info.error is ErrorCode.none or damaged:
            (self.granted if answer.vote_granted and not damaged else self.refused)[voter] = None
            self._count(now)

    def _count(self, now: int) -> None:
        if self.has_won():
            self.on_won(now)
        elif len(self.refused) > len(self.state.voters) - self.state.majority:
            self.on_lost(now)

    def postpone(self, by_ms: int, now: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if now >= self.deadline:
            self.on_timeout(now)

    def next_deadline(self) -> int | None:
        return self.deadline

    def has_won(self) -> bool:
        """Q4: no voter raises the epoch unless a majority would vote for it, and none leads without a majority."""
        return len(self.granted) >= self.state.majority

    def on_won(self, now: int) -> None:
        raise NotImplementedError

    def on_lost(self, now: int) -> None:
        """A majority refused: try again later, with longer pauses after each defeat."""
        state = self.state
        has_majority = not state.damage.has_lost_majority
        deadline = state.timeouts.backoff_deadline(now, self.retries, has_majority=has_majority)
        self.transitions.become_unattached(state.epoch, now, deadline, self.retries + 1)

    def on_timeout(self, now: int) -> None:
        self.on_lost(now)


class Prospective(Campaign):
    """Asks whether an election could be won. Its epoch, vote and known leader stay as they are."""

    __slots__ = ()

    name = "prospective"
    pre_vote = True

    def on_won(self, now: int) -> None:
        self.transitions.become_candidate(now, self.retries)

    def on_lost(self, now: int) -> None:
        leader_id = self.state.leader_id
        if leader_id != NO_NODE:
            self.transitions.become_follower(self.state.epoch, leader_id, now)  # the others still hear from it
        else:
            super().on_lost(now)

    def on_timeout(self, now: int) -> None:
        self.transitions.become_prospective(now, self.retries)


class Recovering(Prospective):
    """A damaged voter without a leader: it looks for one, and never wins (Q8)."""

    __slots__ = ()

    name = "recovering"

    def enter(self, now: int) -> None:
        self.state.damage.report_lost_majority(now)
        super().enter(now)

    def has_won(self) -> bool:
        return False


class Candidate(Campaign):
    """Has raised the epoch, voted for itself in it, and asks for real votes."""

    __slots__ = ()

    name = "candidate"

    def on_won(self, now: int) -> None:
        self.transitions.become_leader(tuple(self.granted), now)


class Resigned(Role):
    """A leader that gave up or restarted: it no longer writes or commits in this epoch, and has no vote left in it."""

    __slots__ = ("deadline", "successors")

    name = "resigned"

    def __init__(self, state: RaftState, transitions: Transitions, successors: Sequence[int]) -> None:
        super().__init__(state, transitions)
        self.successors = tuple(successors)
        self.deadline = 0

    def enter(self, now: int) -> None:
        state = self.state
        self.deadline = state.timeouts.election_deadline(now)
        request = messages.end_request(state.cluster_id, state.node_id, state.epoch, self.successors)
        for voter in state.other_voters:
            state.out.send(voter, QUORUM_CHANNEL, request, self._on_response, state.config.request_timeout_ms)

    def _on_response(self, response: end_quorum_epoch.EndQuorumEpochResponse | None, now: int) -> None:
        answer = None if response is None else messages.metadata_partition(response.topics)
        if self.is_current and answer is not None:
            info = messages.read_leader_info(answer)
            self.transitions.learn(info.epoch, info.leader_id, now)

    def postpone(self, by_ms: int, now: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if now >= self.deadline:
            self.transitions.become_prospective(now)

    def next_deadline(self) -> int | None:
        return self.deadline
