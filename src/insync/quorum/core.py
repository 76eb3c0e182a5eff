"""What all roles of one replica share: its log, vote, how far it is synced and committed, and the way between roles.

Three numbers order everything: `acknowledged()` <= log.leo says how much is synced, `hwm` how much is committed, and
the epoch in `election` who may write. Only one sync is under way at a time; what is appended meanwhile shares the next.
A change of `election` is written off the event loop; what is said meanwhile waits for it (`durable_outbox`).

Notes: quorum_resigned(epoch, reason), quorum_claim_refused(epoch, leader, reason).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from insync.errors import InvariantError
from insync.findings import Findings
from insync.quorum import bounds, damage, state_file
from insync.quorum.config import NOBODY, QuorumConfig, QuorumListener
from insync.quorum.durable_outbox import DurableOutbox
from insync.quorum.election import Candidate, Prospective, Recovering, Resigned, Unattached
from insync.quorum.follower import Follower
from insync.quorum.leader import Leader
from insync.quorum.messages import OffsetAndEpoch, Standing
from insync.quorum.offset_checkpoint import (
    INTACT,
    NEW,
    SYNC_INTERVAL_MS,
    CheckpointFile,
    CheckpointSync,
    QuorumCheckpoint,
)
from insync.quorum.role import NoRole, Role
from insync.quorum.snapshot import SnapshotStore
from insync.quorum.state_file import ElectionState, PersistElection
from insync.sansio import Message, Outbox
from insync.storage import verification
from insync.storage.damage import CorruptSegmentError
from insync.storage.disk import Disk
from insync.storage.flush import LogFlush
from insync.storage.log import Log
from insync.wire.errors import ErrorCode

DISK_WRITES_PER_ELECTION = 4
"""From the first vote to the first commit: the candidate's epoch, the vote, the leadership, and the first entry."""

NO_MAJORITY_BACKOFF_MS = 5_000
"""How long a voter waits at most before it asks again, while there is no intact majority."""


class Core:
    __slots__ = (
        "_announced",
        "_persisting",
        "_sync_began_ms",
        "_syncing",
        "_syncing_checkpoint",
        "_version",
        "checkpoint",
        "checkpoint_file",
        "checkpoint_synced_ms",
        "claims_refused",
        "cluster_id",
        "condition",
        "config",
        "damage",
        "damaged_peers",
        "directory",
        "disk",
        "disk_ms",
        "durable",
        "election",
        "findings",
        "foreign",
        "hwm",
        "listener",
        "log",
        "no_majority_ms",
        "node_id",
        "noted_leader",
        "noted_refusals",
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
        findings: Findings,
    ) -> None:
        self.node_id = node_id
        self.voters = voters
        self.cluster_id = cluster_id
        self.log = log
        self.disk = disk
        self.config = config
        self.rng = rng
        self.out = DurableOutbox(out)
        self.listener = listener
        self.findings = findings
        self.directory = directory
        state_file.anchor(disk, directory)
        self.snapshots = SnapshotStore(disk, directory)
        self.state_path = f"{directory}/{state_file.FILE_NAME}"
        self.checkpoint_file = CheckpointFile(disk, damage.CHECKPOINT_PATH)
        self.checkpoint = QuorumCheckpoint()
        """The last line that was written."""
        self.checkpoint_synced_ms = 0
        self._syncing_checkpoint = False
        self.condition = INTACT
        self.damage: list[str] = []
        """Why this replica counts as damaged, for people."""
        self.damaged_peers: dict[int, None] = {}
        self.no_majority_ms: int | None = None
        """When it was last said that there is no intact majority; None while there may be one."""
        self.noted_leader = (-1, NOBODY)
        """Epoch and id of the leader that was noted last: a voter that doubts its leader comes back to it."""
        self.noted_refusals: dict[int, tuple[int, bool, str]] = {}
        """By candidate, the refusal of a vote that was noted last."""
        self.claims_refused = 0
        self.disk_ms = 0
        """How long the slowest of the last writes took until it was durable."""
        self.election = ElectionState()
        self.role: Role = NoRole(self)
        self.hwm = log.log_start
        self.durable = log.log_start
        self._syncing: LogFlush | None = None
        self._sync_began_ms = 0
        self._persisting: PersistElection | None = None
        self._version = 0
        damage.assess(self)
        self._announced = (self.epoch, NOBODY)
        self.foreign: dict[int, None] = {}
        """Voters that last answered that they belong to another cluster."""

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
    def may_vote(self) -> bool:
        """Q8: for any candidate. A new voter votes for an empty log only."""
        return self.condition == INTACT

    @property
    def may_campaign(self) -> bool:
        """Q8: a replica that lost synced entries or its vote could help to elect a log without committed entries. A
        new one may: no voter that holds entries votes for an empty log."""
        return self.condition in (INTACT, NEW)

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

    def election_timeout_ms(self) -> int:
        """As configured, or longer where the disk is slow: an election takes several writes, one after the other."""
        slow = min(DISK_WRITES_PER_ELECTION * self.disk_ms, self.config.election_timeout_max_ms)
        return max(self.config.election_timeout_ms, slow)

    def request_timeout_ms(self) -> int:
        """Of a request that makes the other side write before it answers."""
        return max(self.config.request_timeout_ms, self.election_timeout_ms())

    def election_deadline(self, now: int) -> int:
        """Between one and two election timeouts away, so that voters seldom start together."""
        timeout = self.election_timeout_ms()
        return now + timeout + self.rng.randrange(timeout)

    def first_deadline(self, now: int) -> int:
        """At once or within an election timeout: a voter that has just started and knows no leader has waited for
        none. Where there is one, the answers to its pre-votes name it, and nobody is disturbed (Q4)."""
        return now + 1 + self.rng.randrange(self.election_timeout_ms())

    def backoff_deadline(self, now: int, retries: int) -> int:
        longest = max(self.config.election_backoff_max_ms, self.disk_ms)
        if self.no_majority_ms is not None:  # Q8: only another voter, or an operator, can end this
            longest = max(longest, NO_MAJORITY_BACKOFF_MS)
        limit = min(longest, 50 << min(retries, 20))
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
            self.record(ElectionState(epoch=epoch), now)
        if self.is_voter:
            self.become(Unattached(self, deadline or self.election_deadline(now), retries), now)
        else:
            self.become(Follower(self, NOBODY), now)

    def vote_for(self, candidate: int, now: int) -> None:
        """Q4: the vote is on disk before anybody hears of it. It also is a reason to wait a whole timeout again."""
        self.record(ElectionState(epoch=self.epoch, voted_id=candidate), now)
        self.become(Unattached(self, self.election_deadline(now), 0), now)

    def become_follower(self, epoch: int, leader_id: int, now: int) -> None:
        voted = self.election.voted_id if epoch == self.epoch else NOBODY
        self.record(ElectionState(epoch=epoch, leader_id=leader_id, voted_id=voted), now)
        self.become(Follower(self, leader_id), now)

    def become_prospective(self, now: int, retries: int = 0) -> None:
        self.become((Prospective if self.may_campaign else Recovering)(self, retries), now)

    def become_candidate(self, now: int, retries: int) -> None:
        if not self.may_campaign:
            raise InvariantError("Q8", f"damaged voter {self.node_id} stands for election")
        self.record(ElectionState(epoch=self.epoch + 1, voted_id=self.node_id), now)
        self.become(Candidate(self, retries), now)

    def become_leader(self, granted_by: Sequence[int], now: int) -> None:
        """The leadership is recorded too: a leader that restarts must not write in this epoch again, because what it
        had not synced may be gone here and present elsewhere."""
        self.record(ElectionState(epoch=self.epoch, leader_id=self.node_id, voted_id=self.node_id), now)
        self.condition = INTACT  # a majority of voters had nothing more than we do
        self.become(Leader(self, granted_by), now)

    def become_resigned(self, successors: Sequence[int], reason: str, now: int) -> None:
        self.out.note("quorum_resigned", epoch=self.epoch, reason=reason)
        self.become(Resigned(self, successors), now)

    def record(self, state: ElectionState, now: int) -> None:
        """Q4: what we say from now on leaves once this is on disk."""
        if state == self.election:
            return
        if state.epoch < self.epoch:
            raise InvariantError("Q4", f"epoch {state.epoch} after epoch {self.epoch}")
        if state.epoch > self.epoch:
            self.claims_refused = 0
        self.election = state
        self.checkpoint_progress()
        self._version += 1
        self.out.require(self._version)
        self._persist(now)

    def _persist(self, now: int) -> None:
        job = self._persisting
        if job is None:
            job = self._persisting = PersistElection(
                self.disk, self.state_path, self.election, self.voters, version=self._version, began_ms=now
            )
            self.out.sync(job, lambda now: self._persisted(job, now))
        elif not self.out.has_left(job):
            job.state, job.version = self.election, self._version  # a new epoch and the vote in it are one write

    def _persisted(self, job: PersistElection, now: int) -> None:
        self._persisting = None
        took_ms = now - job.began_ms
        self.measured(took_ms)
        if self._version > job.version:
            self._persist(now)
        self.out.release(job.version)
        self.role.postpone(took_ms)
        self.sync_checkpoint(now)

    @property
    def waits_for_disk(self) -> bool:
        """Requests and answers are held back until the election state is durable; deadlines are postponed."""
        return self._persisting is not None

    def measured(self, duration_ms: int) -> None:
        """A write took this long. Slow ones are remembered for a while: the next election needs them."""
        self.disk_ms = max(duration_ms, self.disk_ms * 7 // 8)

    def learn(self, epoch: int, leader_id: int, now: int, *, asked: bool = True) -> bool:
        """Take over a newer epoch, or the leader of this one, from what another replica says; True if that moved us.

        `asked`: it is the answer to a request of ours. Q8: what no replica can have is not taken over.
        """
        if leader_id == self.node_id:
            leader_id = NOBODY  # of our own leadership nobody knows more than we do
        reason = bounds.claim_error(self, epoch, leader_id, asked=asked)
        if reason:
            self.refuse_claim(epoch, leader_id, reason)
            return False
        if epoch > self.epoch:
            self._follow_or_wait(epoch, leader_id, now)
            return True
        if epoch < self.epoch or leader_id == NOBODY or leader_id == self.election.leader_id:
            return False
        self.become_follower(self.epoch, leader_id, now)
        return True

    def refuse_claim(self, epoch: int, leader_id: int, reason: str) -> None:
        """Said once for each epoch of ours, however often it comes."""
        self.claims_refused += 1
        if self.claims_refused == 1:
            self.out.note("quorum_claim_refused", epoch=epoch, leader=leader_id, reason=reason)

    def _follow_or_wait(self, epoch: int, leader_id: int, now: int) -> None:
        if leader_id == NOBODY:
            self.become_unattached(epoch, now)
        else:
            self.become_follower(epoch, leader_id, now)

    def announce(self, now: int) -> None:
        """Tell the listener of a new leader or epoch, and of our own leadership once it is established (Q3)."""
        standing = (self.epoch, self.leader_id)
        if isinstance(self.role, Leader) and not self.role.established:
            standing = (self.epoch, NOBODY)
        if standing != self._announced:
            self._announced = standing
            self.listener.on_leader(*standing, now)

    def check_cluster(self, voter: int, response: Message | None) -> None:
        """B9: keep in mind which voters belong to another cluster than this node."""
        if response is None:
            return
        if response.error_code is ErrorCode.inconsistent_cluster_id:
            self.foreign[voter] = None
        elif self.foreign:
            self.foreign.pop(voter, None)

    # --- durable and committed ---------------------------------------------------------------------------------------

    def acknowledged(self) -> int:
        """Q4: what counts towards a majority is what is synced, for the leader as for those who fetch."""
        return self.durable

    def request_sync(self, now: int) -> None:
        if self._syncing is not None or self.durable >= self.log.leo:
            return
        job = self._syncing = self.log.begin_flush()
        self._sync_began_ms = now
        self.out.sync(job, lambda now: self._synced(job, now))

    def _synced(self, job: LogFlush, now: int) -> None:
        self._syncing = None
        took_ms = now - self._sync_began_ms
        self.measured(took_ms)
        self.log.finish_flush(job)
        if job.cuts == self.log.cuts:  # else it synced other entries than those that are there now
            self.durable = max(self.durable, job.upto)
        self.checkpoint_progress()
        self.sync_checkpoint(now)
        self.request_sync(now)
        if isinstance(self.role, Follower):
            self.role.postpone(took_ms)  # it could not ask meanwhile, so its leader was not silent
        self.role.on_durable(now)

    def keeps_committed(self, offset: int) -> bool:
        """S7: may the log be truncated to `offset`? No leader may ask for a committed entry back. If one does, an
        election went wrong, or other voters have lost what was committed; forgetting it here too would make it worse.
        """
        return offset >= min(max(self.hwm, self.checkpoint.hwm), self.log.leo)

    def cut_to(self, offset: int) -> None:
        """Drop the log from `offset` on."""
        if not self.keeps_committed(offset):
            raise InvariantError("S7", f"asked to cut the metadata log to {offset}, below its mark {self.hwm}")
        if self.condition == INTACT and offset < self.checkpoint.log_end.offset:
            epoch = self.log.epochs.epoch_at(offset - 1)
            self.store_checkpoint(log_end=OffsetAndEpoch(offset, max(0, epoch)))
        damaged = self.log.truncate_to(offset)
        if damaged is not None:
            raise CorruptSegmentError(self.directory, damaged, "the metadata log is damaged; a restart recovers it")
        self.durable = min(self.durable, self.log.leo)

    def read_log(self, offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Sound batches from `offset` on. Q8, D6: damaged metadata is neither applied nor sent. A damaged metadata log
        ends the node: its next start recovers the log, and the other voters restore what it lacks."""
        records = self.log.read(offset, max_bytes, limit_offset=limit_offset)
        sound = verification.sound_prefix(self.log, records)
        if sound == 0 and (records or offset < min(limit_offset, self.log.leo)):
            raise CorruptSegmentError(
                self.directory, offset, f"the metadata log is damaged at offset {offset}; a restart recovers it"
            )
        return records if sound == len(records) else records[:sound]

    def restart_log_at(self, end: OffsetAndEpoch) -> None:
        """Q6: a snapshot stands for everything below `end`; the log goes on from there, empty."""
        if self.condition == INTACT and self.checkpoint.log_end != end:
            self.store_checkpoint(log_end=end)
        self.log.truncate_fully(end.offset)
        self.durable = end.offset

    # --- the offset checkpoint (Q8) ----------------------------------------------------------------------------------

    def checkpoint_progress(self) -> None:
        """Write down what is about to be acknowledged. What a damaged replica once held stays on record."""
        known = self.checkpoint.log_end
        checkpoint = replace(
            self.checkpoint,
            condition=self.condition,
            log_end=damage.max_end(known, self.durable_end()) if self.condition == INTACT else known,
            hwm=max(self.checkpoint.hwm, self.hwm),
            epoch=self.epoch,
            voted_id=self.election.voted_id,
        )
        if checkpoint != self.checkpoint:
            self.checkpoint = checkpoint
            self.checkpoint_file.append(checkpoint)

    def durable_end(self) -> OffsetAndEpoch:
        end = self.log_end()
        if self.durable >= end.offset:
            return end
        epoch = self.log.epochs.epoch_at(self.durable - 1)
        latest = self.snapshots.latest
        return OffsetAndEpoch(self.durable, epoch if epoch >= 0 else latest.epoch if latest is not None else 0)

    def store_checkpoint(self, **values: Any) -> None:
        """Durable on return."""
        self.checkpoint = replace(self.checkpoint, epoch=self.epoch, voted_id=self.election.voted_id, **values)
        self.checkpoint_file.store(self.checkpoint)

    def sync_checkpoint(self, now: int) -> None:
        """Called often; it syncs at most every `SYNC_INTERVAL_MS`, and nothing waits for it."""
        file = self.checkpoint_file
        if self._syncing_checkpoint or now - self.checkpoint_synced_ms < SYNC_INTERVAL_MS:
            return
        self.checkpoint_progress()  # the high watermark moves after the entries below it were synced
        if not file.unsynced:
            return
        self._syncing_checkpoint = True
        self.checkpoint_synced_ms = now
        self.out.sync(CheckpointSync(file.sync_later()), self._checkpoint_synced)

    def _checkpoint_synced(self, now: int) -> None:
        self._syncing_checkpoint = False

    def close(self) -> None:
        """After a clean stop the checkpoint is exact."""
        self.durable = self.log.recovery_point
        self.checkpoint_progress()
        self.checkpoint_file.store(self.checkpoint)
        self.checkpoint_file.close()

    # --- committed ---------------------------------------------------------------------------------------------------

    def advance_hwm(self, offset: int, now: int) -> None:
        """Commit everything below `offset`. What is committed stays so: the mark never goes back (S7)."""
        if offset <= self.hwm:
            return
        self.hwm = offset
        self.log.set_hwm(offset)
        self.listener.on_committed(offset, now)
