"""The ways from one role to another. Each records the election state first, if it changes (Q4).

Note: quorum_resigned(epoch, reason).
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.errors import InvariantError
from insync.quorum.config import NO_NODE
from insync.quorum.election import Candidate, Prospective, Recovering, Resigned, Unattached
from insync.quorum.follower import Follower
from insync.quorum.leader import Leader
from insync.quorum.offset_checkpoint import INTACT
from insync.quorum.state import RaftState, Role
from insync.quorum.state_file import ElectionState


class RoleTransitions:
    """Implements `state.Transitions`."""

    __slots__ = ("_state",)

    def __init__(self, state: RaftState) -> None:
        self._state = state

    def _become(self, role: Role, now: int) -> None:
        state = self._state
        previous, state.role = state.role, role
        previous.leave(now)
        role.enter(now)

    def become_unattached(self, epoch: int, now: int, deadline: int | None = None, retries: int = 0) -> None:
        """No leader is known in `epoch`: wait for one, and stand for election at the deadline."""
        state = self._state
        if epoch > state.epoch:
            state.record_election(ElectionState(epoch=epoch), now)
        if state.is_voter:
            deadline = deadline or state.timeouts.election_deadline(now)
            self._become(Unattached(state, self, deadline, retries), now)
        else:
            self._become(Follower(state, self, NO_NODE), now)

    def vote_for(self, candidate: int, now: int) -> None:
        """Q4: the vote is on disk before the answer leaves. The voter waits a whole timeout again."""
        state = self._state
        state.record_election(ElectionState(epoch=state.epoch, voted_id=candidate), now)
        self._become(Unattached(state, self, state.timeouts.election_deadline(now), 0), now)

    def become_follower(self, epoch: int, leader_id: int, now: int) -> None:
        state = self._state
        voted_id = state.election.voted_id if epoch == state.epoch else NO_NODE
        state.record_election(ElectionState(epoch=epoch, leader_id=leader_id, voted_id=voted_id), now)
        self._become(Follower(state, self, leader_id), now)

    def become_prospective(self, now: int, retries: int = 0) -> None:
        role = Prospective if self._state.damage.may_campaign else Recovering
        self._become(role(self._state, self, retries), now)

    def become_candidate(self, now: int, retries: int) -> None:
        state = self._state
        if not state.damage.may_campaign:
            raise InvariantError("Q8", f"damaged voter {state.node_id} stands for election")
        state.record_election(ElectionState(epoch=state.epoch + 1, voted_id=state.node_id), now)
        self._become(Candidate(state, self, retries), now)

    def become_leader(self, granted_by: Sequence[int], now: int) -> None:
        """The leadership is recorded too: a leader that restarts must not write in this epoch again, because entries
        that it had not synced may be gone here and present elsewhere."""
        state = self._state
        election = ElectionState(epoch=state.epoch, leader_id=state.node_id, voted_id=state.node_id)
        state.record_election(election, now)
        state.damage.condition = INTACT  # a majority of voters held nothing more
        self._become(Leader(state, self, granted_by), now)

    def become_resigned(self, successors: Sequence[int], reason: str, now: int) -> None:
        state = self._state
        state.out.note("quorum_resigned", epoch=state.epoch, reason=reason)
        self._become(Resigned(state, self, successors), now)

    def learn(self, epoch: int, leader_id: int, now: int, *, solicited: bool = True) -> bool:
        """Adopt a newer epoch, or the leader of the current one, from another replica; True if that changed the role.

        `solicited`: it answers a request of this replica. Q8: a claim that no replica can make is refused.
        """
        state = self._state
        if leader_id == state.node_id:
            leader_id = NO_NODE  # no other replica knows more of this node's leadership than the node itself
        reason = state.claim_error(epoch, leader_id, solicited=solicited)
        if reason:
            state.refuse_claim(epoch, leader_id, reason)
            return False
        if epoch > state.epoch and leader_id == NO_NODE:
            self.become_unattached(epoch, now)
            return True
        if epoch < state.epoch or leader_id == NO_NODE:
            return False
        if epoch == state.epoch and leader_id == state.election.leader_id:
            return False
        self.become_follower(epoch, leader_id, now)
        return True
