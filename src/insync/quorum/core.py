"""What all roles of one replica share: its log, vote, how far it is synced and committed, and the way between roles.

Three numbers order everything: `acknowledged()` <= log.leo says how much is synced, `hwm` how much is committed, and
the epoch in `election` who may write. Only one sync is under way at a time; what is appended meanwhile shares the next.

Notes: quorum_resigned(epoch, reason).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from insync.errors import InvariantViolation
from insync.quorum import state_file
from insync.quorum.config import NOBODY, QuorumConfig, QuorumListener
from insync.quorum.election import Candidate, Prospective, Resigned, Unattached
from insync.quorum.follower import Follower
from insync.quorum.leader import Leader
from insync.quorum.messages import OffsetAndEpoch, Standing
from insync.quorum.role import NoRole, Role
from insync.quorum.snapshot import SnapshotStore
from insync.quorum.state_file import ElectionState
from insync.sansio import Outbox
from insync.storage.disk import Disk
from insync.storage.flush import LogFlush
from insync.storage.log import Log
from insync.wire.errors import ErrorCode


class Core:
    __slots__ = (
        "_announced",
        "_syncing",
        "cluster_id",
        "config",
        "disk",
        "durable",
        "election",
        "hwm",
        "listener",
        "log",
        "node_id",
        "out",
        "rng",
        "role",
        "snapshots",
        "state_path",
        "voters",
    )

    def __init__(
        self,
        *,
        node_id: int,
        voters: tuple[int, ...],
        cluster_id: str,
        log: Log,
        disk: Disk,
        directory: str,
        config: QuorumConfig,
        rng: random.Random,
        out: Outbox,
        listener: QuorumListener,
    ) -> None:
        self.node_id = node_id
        self.voters = voters
        self.cluster_id = cluster_id
        self.log = log
        self.disk = disk
        self.config = config
        self.rng = rng
        self.out = out
        self.listener = listener
        state_file.anchor(disk, directory)
        self.snapshots = SnapshotStore(disk, directory)
        self.state_path = f"{directory}/{state_file.FILE_NAME}"
        self.election = self._load_election()
        self.role: Role = NoRole(self)
        self.hwm = log.log_start
        self.durable = log.log_start
        self._syncing: LogFlush | None = None
        self._announced = (self.epoch, NOBODY)

    def _load_election(self) -> ElectionState:
        state = state_file.load(self.disk, self.state_path)
        latest = self.snapshots.latest
        written = max(self.log.last_epoch, 0 if latest is None else latest.epoch)
        return state if state.epoch >= written else ElectionState(epoch=written)

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        """The leader of this epoch; one's own name only while one leads."""
        leader = self.election.leader_id
        return NOBODY if leader == self.node_id and not self.role.is_leader else leader

    @property
    def is_voter(self) -> bool:
        return self.node_id in self.voters

    @property
    def other_voters(self) -> tuple[int, ...]:
        return tuple(voter for voter in self.voters if voter != self.node_id)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def wall(self, now: int) -> int:
        return now + self.config.wall_offset_ms

    def log_end(self) -> OffsetAndEpoch:
        """The end of the log and the epoch of the entry before it, which the snapshot knows if the log is empty."""
        epoch = self.log.last_epoch
        latest = self.snapshots.latest
        if epoch < 0:
            epoch = latest.epoch if latest is not None else 0
        return OffsetAndEpoch(self.log.leo, epoch)

    def standing(self, error: ErrorCode = ErrorCode.none) -> Standing:
        return Standing(self.epoch, self.leader_id, error)

    def election_deadline(self, now: int) -> int:
        """Between one and two election timeouts away, so that voters seldom start together."""
        timeout = self.config.election_timeout_ms
        return now + timeout + self.rng.randrange(timeout)

    def first_deadline(self, now: int) -> int:
        """At once or within an election timeout: a voter that has just started and knows no leader has waited for
        none. Where there is one, the answers to its pre-votes name it, and nobody is disturbed (Q4)."""
        return now + 1 + self.rng.randrange(self.config.election_timeout_ms)

    def backoff_deadline(self, now: int, retries: int) -> int:
        limit = min(self.config.election_backoff_max_ms, 50 << min(retries, 20))
        return now + 1 + self.rng.randrange(limit)

    # --- transitions -------------------------------------------------------------------------------------------------

    def become(self, role: Role, now: int) -> None:
        left, self.role = self.role, role
        left.leave(now)
        self.announce(now)
        if role.current:
            role.enter(now)

    def become_unattached(self, epoch: int, now: int, deadline: int | None = None, retries: int = 0) -> None:
        """No leader is known in `epoch`: wait for one, and stand for election when the time is up."""
        if epoch > self.epoch:
            self.record(ElectionState(epoch=epoch))
        if self.is_voter:
            self.become(Unattached(self, deadline or self.election_deadline(now), retries), now)
        else:
            self.become(Follower(self, NOBODY), now)

    def vote_for(self, candidate: int, now: int) -> None:
        """Q4: the vote is on disk before anybody hears of it. It also is a reason to wait a whole timeout again."""
        self.record(ElectionState(epoch=self.epoch, voted_id=candidate))
        self.become(Unattached(self, self.election_deadline(now), 0), now)

    def become_follower(self, epoch: int, leader_id: int, now: int) -> None:
        voted = self.election.voted_id if epoch == self.epoch else NOBODY
        self.record(ElectionState(epoch=epoch, leader_id=leader_id, voted_id=voted))
        self.become(Follower(self, leader_id), now)

    def become_prospective(self, now: int, retries: int = 0) -> None:
        self.become(Prospective(self, retries), now)

    def become_candidate(self, now: int, retries: int) -> None:
        self.record(ElectionState(epoch=self.epoch + 1, voted_id=self.node_id))
        self.become(Candidate(self, retries), now)

    def become_leader(self, granted_by: Sequence[int], now: int) -> None:
        """The leadership is recorded too: a leader that restarts must not write in this epoch again, because what it
        had not synced may be gone here and present elsewhere."""
        self.record(ElectionState(epoch=self.epoch, leader_id=self.node_id, voted_id=self.node_id))
        self.become(Leader(self, granted_by), now)

    def become_resigned(self, successors: Sequence[int], reason: str, now: int) -> None:
        self.out.note("quorum_resigned", epoch=self.epoch, reason=reason)
        self.become(Resigned(self, successors), now)

    def record(self, state: ElectionState) -> None:
        if state == self.election:
            return
        if state.epoch < self.epoch:
            raise InvariantViolation("Q4", f"epoch {state.epoch} after epoch {self.epoch}")
        state_file.persist(self.disk, self.state_path, state)
        self.election = state

    def learn(self, epoch: int, leader_id: int, now: int) -> bool:
        """Take over a newer epoch, or the leader of this one, from what another replica says; True if that moved us."""
        if leader_id == self.node_id:
            leader_id = NOBODY  # of our own leadership nobody knows more than we do
        if epoch > self.epoch:
            self._follow_or_wait(epoch, leader_id, now)
            return True
        if epoch < self.epoch or leader_id == NOBODY:
            return False
        return self._learn_leader(leader_id, now)

    def _follow_or_wait(self, epoch: int, leader_id: int, now: int) -> None:
        if leader_id == NOBODY:
            self.become_unattached(epoch, now)
        else:
            self.become_follower(epoch, leader_id, now)

    def _learn_leader(self, leader_id: int, now: int) -> bool:
        known = self.election.leader_id
        if known == NOBODY:
            self.become_follower(self.epoch, leader_id, now)
            return True
        if known != leader_id:
            raise InvariantViolation("S12", f"epoch {self.epoch} is led by {known} and by {leader_id}")
        return False

    def announce(self, now: int) -> None:
        """Tell the listener of a new leader or epoch, and of our own leadership once it is established (Q3)."""
        standing = (self.epoch, self.leader_id)
        if isinstance(self.role, Leader) and not self.role.established:
            standing = (self.epoch, NOBODY)
        if standing != self._announced:
            self._announced = standing
            self.listener.on_leader(*standing, now)

    # --- durable and committed ---------------------------------------------------------------------------------------

    def acknowledged(self) -> int:
        """Q4: what counts towards a majority is what is synced, for the leader as for those who fetch."""
        return self.durable

    def request_sync(self) -> None:
        if self._syncing is not None or self.durable >= self.log.leo:
            return
        job = self._syncing = self.log.begin_flush()
        self.out.sync(job, lambda now: self._synced(job, now))

    def _synced(self, job: LogFlush, now: int) -> None:
        self._syncing = None
        self.log.finish_flush(job)
        if job.cuts == self.log.cuts:  # else it synced other entries than those that are there now
            self.durable = max(self.durable, job.upto)
        self.request_sync()
        self.role.on_durable(now)

    def keeps_committed(self, offset: int) -> None:
        """S7: no leader may ask for a committed entry back; if one does, an election went wrong."""
        if offset < self.hwm:
            raise InvariantViolation("S7", f"asked to cut the metadata log to {offset}, below its mark {self.hwm}")

    def cut_to(self, offset: int) -> None:
        """Drop the log from `offset` on."""
        self.keeps_committed(offset)
        self.log.truncate_to(offset)
        self.durable = min(self.durable, self.log.leo)

    def restart_log_at(self, offset: int) -> None:
        """Q6: a snapshot stands for everything below `offset`; the log goes on from there, empty."""
        self.log.truncate_fully(offset)
        self.durable = offset

    def advance_hwm(self, offset: int, now: int) -> None:
        """Commit everything below `offset`. What is committed stays so: the mark never goes back (S7)."""
        if offset <= self.hwm:
            return
        self.hwm = offset
        self.log.set_hwm(offset)
        self.listener.on_committed(offset, now)
