"""The state of one replica of the metadata log, and the interface of its roles.

Three numbers order everything: `acknowledged()` <= log.leo says how much is synced, `hwm` how much is committed, and
the epoch in `election` which leader may write. Only one sync is under way at a time; entries appended meanwhile share
the next one. A change of `election` is written off the event loop, and messages wait for it (`durable_outbox`).

A replica is unattached, prospective, candidate, leader, follower or resigned. A `Role` object lives from one transition
to the next, and every transition makes a new one. So the test for a late answer is the same everywhere: is the role
that asked still the current one? A change of epoch, leader or role since the request was sent makes it false.

Note: quorum_claim_refused(epoch, leader, reason).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from insync.errors import InvariantError
from insync.findings import Findings
from insync.quorum import damage, offset_checkpoint, state_file
from insync.quorum.config import NO_NODE, OnSnapshot, QuorumConfig
from insync.quorum.damage import Damage
from insync.quorum.durable_outbox import DurableOutbox
from insync.quorum.messages import LeaderInfo, OffsetAndEpoch
from insync.quorum.offset_checkpoint import INTACT, CheckpointFile, OffsetCheckpoint, QuorumCheckpoint
from insync.quorum.snapshot_store import SnapshotStore
from insync.quorum.state_file import ElectionState, PersistElection
from insync.quorum.timeouts import ElectionTimeouts
from insync.sansio import Message, Outbox
from insync.storage import verification
from insync.storage.checkpoints import MAX_EPOCH
from insync.storage.damage import CorruptSegmentError
from insync.storage.disk import Disk, remove_if_exists
from insync.storage.log import Log, LogFlush
from insync.wire.errors import ErrorCode

MAX_EPOCH_STEP = 10_000
"""How far ahead the epoch of an incoming request may be. A replica that was away for longer asks the others itself."""
MAX_ANSWERED_EPOCH_STEP = 1_000_000
"""How far ahead the epoch in an answer may be: more than a day of uninterrupted elections."""


class Transitions(Protocol):
    """The ways from one role to another. `transitions` implements them; roles and request handlers call them."""

    def become_unattached(self, epoch: int, now: int, deadline: int | None = None, retries: int = 0) -> None: ...

    def vote_for(self, candidate: int, now: int) -> None: ...

    def become_follower(self, epoch: int, leader_id: int, now: int) -> None: ...

    def become_prospective(self, now: int, retries: int = 0) -> None: ...

    def become_candidate(self, now: int, retries: int) -> None: ...

    def become_leader(self, granted_by: Sequence[int], now: int) -> None: ...

    def become_resigned(self, successors: Sequence[int], reason: str, now: int) -> None: ...

    def learn(self, epoch: int, leader_id: int, now: int, *, solicited: bool = True) -> bool: ...


class Role:
    __slots__ = ("state", "transitions")

    name = ""
    is_leader = False

    def __init__(self, state: RaftState, transitions: Transitions) -> None:
        self.state = state
        self.transitions = transitions

    @property
    def is_current(self) -> bool:
        return self.state.role is self

    def enter(self, now: int) -> None:
        """The role is now the current one: begin its timers and send its requests."""

    def leave(self, now: int) -> None:
        """Another role is current: answer the requests that wait for this one."""

    def tick(self, now: int) -> None:
        """Do what is due. A second call with the same time does nothing."""

    def next_deadline(self) -> int | None:
        """When `tick` has something to do, if nothing else happens first."""
        return None

    def postpone(self, by_ms: int, now: int) -> None:
        """The replica waited this long for its own disk: the time does not count."""

    def on_durable(self, took_ms: int, now: int) -> None:
        """A sync of the log, which took `took_ms`, has ended."""

    def has_heard(self) -> bool:
        """Whether the followed leader has answered as such."""
        return False

    def peer_lost(self, peer: int, now: int) -> None:
        """A hint that another node's process has died."""

    def abandon(self, token: int) -> None:
        """The client of this fetch has disconnected."""

    def refuses_pre_votes(self) -> bool:
        """Q4: a replica that hears from its leader does not help to unseat it (KIP-996)."""
        return False


class NoRole(Role):
    """Before `Quorum.start`."""

    __slots__ = ()

    name = "stopped"


class RaftState:
    """`role` is set by the transitions; everything else starts from the files."""

    __slots__ = (
        "_persisting",
        "_sync_began_ms",
        "_syncing",
        "_version",
        "checkpoint",
        "claims_refused",
        "cluster_id",
        "config",
        "damage",
        "directory",
        "disk",
        "durable",
        "election",
        "findings",
        "foreign_voters",
        "hwm",
        "is_voter",
        "log",
        "majority",
        "node_id",
        "noted_leader",
        "noted_refusals",
        "on_snapshot",
        "other_voters",
        "out",
        "role",
        "snapshots",
        "state_path",
        "timeouts",
        "voters",
    )

    role: Role

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
        on_snapshot: OnSnapshot,
        findings: Findings | None = None,
    ) -> None:
        self.node_id = node_id
        self.voters = voters
        self.other_voters = tuple(voter for voter in voters if voter != node_id)
        self.is_voter = node_id in voters
        self.majority = len(voters) // 2 + 1
        self.cluster_id = cluster_id
        self.log = log
        self.disk = disk
        self.config = config
        self.timeouts = ElectionTimeouts(config, rng)
        self.out = DurableOutbox(out)
        self.on_snapshot = on_snapshot
        self.findings = findings or Findings(out)
        self.directory = directory
        state_file.make_directory_durable(disk, directory)
        self.snapshots = SnapshotStore(disk, directory)
        self.state_path = f"{directory}/{state_file.FILE_NAME}"
        self.damage = Damage(node_id, voters, self.findings, self.out)
        self.noted_leader = (-1, NO_NODE)
        """Epoch and id of the leader that was noted last: a voter that doubts its leader may return to it."""
        self.noted_refusals: dict[int, tuple[int, bool, str]] = {}
        """By candidate, the refusal of a vote that was noted last."""
        self.claims_refused = 0
        self.foreign_voters: dict[int, None] = {}
        """Voters whose last answer was that they belong to another cluster."""
        self.hwm = log.log_start
        self.durable = log.log_start
        self._syncing: LogFlush | None = None
        self._sync_began_ms = 0
        self._persisting: PersistElection | None = None
        self._version = 0
        self.election, self.checkpoint = self._load_files()

    def _load_files(self) -> tuple[ElectionState, OffsetCheckpoint]:
        """Read quorum-state and the offset checkpoint, and find out what is damaged (Q8)."""
        file = CheckpointFile(self.disk, offset_checkpoint.FILE_NAME)
        last = file.load()
        stored, state_error = state_file.load_if_sound(self.disk, self.state_path)
        latest = self.snapshots.latest
        self.damage.assess(
            log_end=self.log_end(),
            holds_entries=self.log.leo > 0 or latest is not None,
            checkpoint=last,
            unreadable_checkpoint=file.path if last is None and file.exists() else "",
            stored=stored,
            state_path=self.state_path,
            state_error=state_error,
        )
        logged_epoch = max(self.log.epochs.last_epoch, 0 if latest is None else latest.epoch)
        checkpoint = last or QuorumCheckpoint(condition=self.damage.condition)
        return damage.newest_election(logged_epoch, stored, last), OffsetCheckpoint(file, checkpoint, self.out)

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        """The leader of this epoch; this node's own id only while it leads."""
        leader = self.election.leader_id
        return NO_NODE if leader == self.node_id and not self.role.is_leader else leader

    def log_end(self) -> OffsetAndEpoch:
        """The end of the log and the epoch of the entry before it, which the snapshot knows if the log is empty."""
        epoch = self.log.epochs.last_epoch
        latest = self.snapshots.latest
        if epoch < 0:
            epoch = latest.epoch if latest is not None else 0
        return OffsetAndEpoch(self.log.leo, epoch)

    def leader_info(self, error: ErrorCode = ErrorCode.none) -> LeaderInfo:
        return LeaderInfo(self.epoch, self.leader_id, error)

    def is_epoch_in_range(self, epoch: int, *, solicited: bool = False) -> bool:
        """Q8: epochs are 32-bit numbers that only rise, and one request that names the highest of them would leave no
        epoch for the next election. So an epoch may be ahead of ours only as far as elections can have taken it."""
        step = MAX_ANSWERED_EPOCH_STEP if solicited else MAX_EPOCH_STEP
        return epoch <= min(self.epoch + step, MAX_EPOCH - 1)

    def claim_error(self, epoch: int, leader_id: int, *, solicited: bool) -> str:
        """Q8: why the claim of another replica that `leader_id` leads `epoch` is refused, before any of it is written
        to disk; empty if it is credible."""
        if epoch < self.epoch:
            return ""
        if not self.is_epoch_in_range(epoch, solicited=solicited):
            return "epoch_out_of_range"
        if leader_id == NO_NODE:
            return ""
        if leader_id not in self.voters:
            return "not_a_voter"
        known = self.election.leader_id
        if (
            epoch == self.epoch
            and known not in (NO_NODE, leader_id)
            and (known == self.node_id or self.role.has_heard())
        ):
            return "other_leader"  # S12: the known leader has shown that it leads this epoch
        return ""

    def refuse_claim(self, epoch: int, leader_id: int, reason: str) -> None:
        """Noted once for each epoch of this replica, however often it happens."""
        self.claims_refused += 1
        if self.claims_refused == 1:
            self.out.note("quorum_claim_refused", epoch=epoch, leader=leader_id, reason=reason)

    def check_cluster_id(self, voter: int, response: Message | None) -> None:
        """B9: remember which voters belong to another cluster than this node."""
        if response is None:
            return
        if response.error_code is ErrorCode.inconsistent_cluster_id:
            self.foreign_voters[voter] = None
        elif self.foreign_voters:
            self.foreign_voters.pop(voter, None)

    # --- the election state ------------------------------------------------------------------------------------------

    def record_election(self, election: ElectionState, now: int) -> None:
        """Q4: messages sent from now on leave once this is on disk."""
        if election == self.election:
            return
        if election.epoch < self.epoch:
            raise InvariantError("Q4", f"epoch {election.epoch} after epoch {self.epoch}")
        if election.epoch > self.epoch:
            self.claims_refused = 0
        self.election = election
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
            self.out.sync(job, lambda now: self._on_persisted(job, now))
        elif not self.out.has_left(job):
            job.state, job.version = self.election, self._version  # a new epoch and the vote in it are one write

    def _on_persisted(self, job: PersistElection, now: int) -> None:
        self._persisting = None
        took_ms = now - job.began_ms
        self.timeouts.record_write(took_ms)
        if self._version > job.version:
            self._persist(now)
        self.out.release(job.version)
        self.role.postpone(took_ms, now)
        self.sync_checkpoint(now)

    @property
    def is_waiting_for_disk(self) -> bool:
        """Requests and answers are held back until the election state is durable; deadlines are postponed."""
        return self._persisting is not None

    # --- the log -----------------------------------------------------------------------------------------------------

    def acknowledged(self) -> int:
        """Q4: what counts towards a majority is what is synced, on the leader as on the replicas that fetch."""
        return self.durable

    def request_sync(self, now: int) -> None:
        if self._syncing is not None or self.durable >= self.log.leo:
            return
        job = self._syncing = self.log.begin_flush()
        self._sync_began_ms = now
        self.out.sync(job, lambda now: self._on_synced(job, now))

    def _on_synced(self, job: LogFlush, now: int) -> None:
        self._syncing = None
        took_ms = now - self._sync_began_ms
        self.timeouts.record_write(took_ms)
        self.log.finish_flush(job)
        if job.truncation_count == self.log.truncation_count:  # else it synced entries that were truncated since
            self.durable = max(self.durable, job.end_offset)
        self.checkpoint_progress()
        self.sync_checkpoint(now)
        self.request_sync(now)
        self.role.on_durable(took_ms, now)

    def keeps_committed(self, offset: int) -> bool:
        """S7: may the log be truncated to `offset`? No leader may ask for a committed entry back. If one does, an
        election went wrong, or other voters have lost what was committed; forgetting it here too would make it worse.
        """
        return offset >= min(max(self.hwm, self.checkpoint.last.hwm), self.log.leo)

    def truncate_to(self, offset: int) -> None:
        """Drop the log from `offset` on."""
        if not self.keeps_committed(offset):
            raise InvariantError(
                "S7", f"truncation of the metadata log to {offset}, below the high watermark {self.hwm}"
            )
        if self.damage.condition == INTACT and offset < self.checkpoint.last.log_end.offset:
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
        sound = verification.check_batches(self.log, records).size
        if sound == 0 and (records or offset < min(limit_offset, self.log.leo)):
            raise CorruptSegmentError(
                self.directory, offset, f"the metadata log is damaged at offset {offset}; a restart recovers it"
            )
        return records if sound == len(records) else records[:sound]

    def restart_log_at(self, end: OffsetAndEpoch) -> None:
        """Q6: a snapshot stands for everything below `end`; the log continues from there, empty."""
        if self.damage.condition == INTACT and self.checkpoint.last.log_end != end:
            self.store_checkpoint(log_end=end)
        self.log.truncate_fully(end.offset)
        self.durable = end.offset

    def advance_hwm(self, offset: int) -> None:
        """Commit everything below `offset`. The high watermark never goes back (S7)."""
        if offset > self.hwm:
            self.hwm = offset
            self.log.set_hwm(offset)

    # --- the offset checkpoint (Q8) ----------------------------------------------------------------------------------

    def checkpoint_progress(self) -> None:
        """Write down what is about to be acknowledged. What a damaged replica once held stays on record."""
        last = self.checkpoint.last
        is_intact = self.damage.condition == INTACT
        self.checkpoint.append(
            replace(
                last,
                condition=self.damage.condition,
                log_end=damage.max_end(last.log_end, self.durable_end()) if is_intact else last.log_end,
                hwm=max(last.hwm, self.hwm),
                epoch=self.epoch,
                voted_id=self.election.voted_id,
            )
        )

    def durable_end(self) -> OffsetAndEpoch:
        end = self.log_end()
        if self.durable >= end.offset:
            return end
        epoch = self.log.epochs.epoch_at(self.durable - 1)
        latest = self.snapshots.latest
        return OffsetAndEpoch(self.durable, epoch if epoch >= 0 else latest.epoch if latest is not None else 0)

    def store_checkpoint(self, **values: Any) -> None:
        """Durable on return."""
        self.checkpoint.store(
            replace(self.checkpoint.last, epoch=self.epoch, voted_id=self.election.voted_id, **values)
        )

    def sync_checkpoint(self, now: int) -> None:
        """Called often; it syncs at most every `SYNC_INTERVAL_MS`, and nothing waits for it."""
        if self.checkpoint.is_sync_due(now):
            self.checkpoint_progress()  # the high watermark moves after the entries below it were synced
            self.checkpoint.begin_sync(now)

    def record_condition(self) -> None:
        """At the start, once snapshots and log were read: report what is damaged, and store it until it is restored."""
        if self.disk.exists(damage.ACCEPT_LOSS):
            self.damage.accept_loss()
            self.store_checkpoint(condition=INTACT, log_end=self.log_end(), hwm=0)
            remove_if_exists(self.disk, damage.ACCEPT_LOSS)
        elif self.damage.condition == INTACT:
            log_end = damage.max_end(self.checkpoint.last.log_end, self.durable_end())
            self.store_checkpoint(condition=INTACT, log_end=log_end)
        else:
            self.store_checkpoint(condition=self.damage.condition)
        self.damage.report()

    def restore_if_caught_up(self) -> None:
        """Q8: a replica counts as intact again once the leader that it follows has committed an entry of its own epoch,
        and the replica holds everything up to there and no less than it may ever have acknowledged."""
        if self.damage.condition == INTACT:
            return
        end, last = self.log_end(), self.checkpoint.last
        epoch_start = self.log.epochs.last_start if self.log.epochs.last_epoch >= 0 else -1
        if end.epoch != self.epoch or self.hwm <= epoch_start or self.durable < end.offset:
            return
        if damage.is_shorter(end, last.log_end):
            return
        self.store_checkpoint(condition=INTACT, log_end=end, hwm=max(last.hwm, self.hwm))
        self.damage.mark_restored(self.epoch, end.offset)

    def close(self) -> None:
        """After a clean stop the checkpoint is exact."""
        self.durable = self.log.recovery_point
        self.checkpoint_progress()
        self.checkpoint.close()
