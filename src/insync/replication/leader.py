"""The leading replica of a partition: appends, judges fetches, and moves the high watermark (F3, F4, H1-H3, P2).

Everything here belongs to one leader epoch, except the followers' slots, which a new epoch resets. The ISR and its
changes are `isr_changes`.

Notes: stale_broker_epoch_fetch(partition, replica, epoch, known).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.metadata.partition import Partition
from insync.replication import divergence, high_watermark, isr, isr_changes
from insync.replication.divergence import EpochEnd
from insync.replication.isr import Committed, IsrState
from insync.replication.progress import LONG_AGO, FollowerProgress
from insync.wire.batch import BatchHeader
from insync.wire.errors import ErrorCode

if TYPE_CHECKING:
    from insync.replication.core import Core
    from insync.replication.fetch_session import CachedPartition
    from insync.replication.replica import Replica

NO_LEADER_EPOCH = -1


class Leader:
    __slots__ = ("core", "epoch", "followers", "leso", "propose_after", "replica", "state")

    def __init__(self, core: Core, replica: Replica) -> None:
        self.core = core
        self.replica = replica
        self.epoch = NO_LEADER_EPOCH
        self.leso = 0
        self.followers: dict[int, FollowerProgress] = {}
        self.state: IsrState = Committed(())
        self.propose_after = LONG_AGO

    # --- epochs and metadata ---

    def start_epoch(self, partition: Partition, now: int) -> None:
        """T1, T3: the epoch starts where the log ends, and what earlier epochs told of followers is forgotten."""
        log = self.replica.log
        self.epoch = partition.leader_epoch
        self.leso = log.leo
        log.assign_epoch(self.epoch, self.leso)
        self.adopt(partition)
        self.reset_followers(now)

    def adopt(self, partition: Partition) -> None:
        """T2: the ISR and the replica set are the metadata's; a pending proposal is overtaken by it (I3, I6)."""
        self.replica.partition = partition
        self.state = Committed(partition.isr)
        known = self.followers
        self.followers = {
            broker: known.get(broker) or FollowerProgress(broker)
            for broker in partition.replicas
            if broker != self.core.broker_id
        }
        isr_changes.watch(self)

    def reset_followers(self, now: int) -> None:
        """T1, T3: nobody counts or joins before it fetches in this epoch; members have the lag time to do so (I1)."""
        for broker, progress in self.followers.items():
            if broker in self.state.isr:
                progress.reset(now)
            else:
                progress.forget_fetch()

    @property
    def min_isr(self) -> int:
        partition = self.replica.partition
        return partition.effective_min_isr(self.core.cluster.min_insync_replicas(partition.topic))

    def has_min_isr(self) -> bool:
        return high_watermark.enough_in_sync(len(self.state.isr), self.min_isr)

    # --- appending ---

    def append(self, batch: bytearray, header: BatchHeader, now: int) -> int:
        """Write one checked batch; its base offset. A sole member of the ISR commits it at once (H2)."""
        replica, core = self.replica, self.core
        log = replica.log
        leo = log.leo
        for progress in self.followers.values():
            if progress.leo == leo:
                progress.settle(leo)
        base_offset = log.append_as_leader(batch, header, self.epoch, now + core.config.wall_offset_ms)
        core.changed[replica] = None
        replica.leo_moved(core.woken)
        self.advance_hwm(now)
        return base_offset

    # --- fetches ---

    def judge(self, cached: CachedPartition) -> ErrorCode | EpochEnd | None:
        """F3, D2: why this fetch is refused, or where the fetcher's log has parted from ours, or None: it may read."""
        error = leader_epoch_error(cached.leader_epoch, self.epoch)
        if error is not None:
            return error
        if cached.from_follower and cached.session_replica not in self.followers:
            # Our metadata may be older than the follower's: it asks again.
            return ErrorCode.not_leader_or_follower if cached.leader_epoch < 0 else ErrorCode.unknown_leader_epoch
        log = self.replica.log
        if cached.fetch_offset < log.log_start:
            return ErrorCode.offset_out_of_range
        parted = divergence.diverging(log, cached.last_fetched_epoch, cached.fetch_offset)
        if parted is not None:
            return parted
        return ErrorCode.offset_out_of_range if cached.fetch_offset > log.leo else None

    def record_fetch(self, cached: CachedPartition, broker: int, broker_epoch: int, now: int) -> ErrorCode | None:
        """F4: a valid fetch of a follower moves its slot, and so perhaps the ISR and the high watermark."""
        progress = self.followers[broker]
        known = max(progress.broker_epoch, self.core.cluster.broker_epoch_of(broker) or -1)
        if is_older_uptime(broker_epoch, known):
            self._note_stale(broker, broker_epoch, known)
            return ErrorCode.not_leader_or_follower
        before = progress.leo
        progress.fetched(cached.fetch_offset, broker_epoch, self.replica.log.leo, cached, now)
        progress.log_start = cached.log_start
        if len(self.state.isr) <= len(self.followers):
            isr_changes.maybe_expand(self, now)
        if progress.leo != before:
            self.advance_hwm(now)
        return None

    def _note_stale(self, broker: int, epoch: int, known: int) -> None:
        name = self.replica.partition.name
        self.core.out.note("stale_broker_epoch_fetch", partition=name, replica=broker, epoch=epoch, known=known)

    # --- the high watermark ---

    def advance_hwm(self, now: int) -> bool:
        """H1, H2: checked on a follower's fetch, an ISR change, a produce, and becoming leader."""
        replica = self.replica
        log = replica.log
        hwm, leo = log.hwm, log.leo
        if hwm >= leo:
            return False
        quorum = high_watermark.replication_quorum(self.state)
        waited_for = [
            progress.leo
            for progress in self.followers.values()
            if progress.leo < leo and (progress.broker in quorum or self._waits_for(progress, leo, hwm, now))
        ]
        reached = high_watermark.advance(hwm, leo, waited_for)
        if reached == hwm or not self.has_min_isr():
            return False
        log.set_hwm(reached)
        self._hwm_moved(reached)
        return True

    def _hwm_moved(self, hwm: int) -> None:
        replica, core = self.replica, self.core
        core.changed[replica] = None
        replica.hwm_moved(core.woken)
        if replica.waiting:
            core.purgatory.reached(replica, hwm, self.acknowledgement())

    def acknowledgement(self) -> ErrorCode:
        """P2: what an acks=all producer is told whose records are committed at this moment."""
        return ErrorCode.none if self.has_min_isr() else ErrorCode.not_enough_replicas_after_append

    def _waits_for(self, progress: FollowerProgress, leo: int, hwm: int, now: int) -> bool:
        """H3: for a follower outside the maximal ISR that is about to join."""
        lag = self.core.config.replica_lag_time_max_ms
        return high_watermark.waits_for_joiner(
            caught_up=isr.is_caught_up(progress.leo, leo, progress.last_caught_up_ms, now, lag),
            in_sync=isr.reached_hwm(progress.leo, hwm) and isr.reached_leso(progress.leo, self.leso),
            eligible=isr_changes.eligible(self, progress),
        )

    def knows_true_hwm(self) -> bool:
        return high_watermark.is_true(self.replica.log.hwm, self.leso)


def leader_epoch_error(asked: int, own: int) -> ErrorCode | None:
    """F3: a fetch belongs to one leader epoch; -1 does not say which (clients only)."""
    if asked in (own, NO_LEADER_EPOCH):
        return None
    return ErrorCode.fenced_leader_epoch if asked < own else ErrorCode.unknown_leader_epoch


def is_older_uptime(broker_epoch: int, known: int) -> bool:
    """F4: a fetch sent before the follower's broker restarted says nothing of the log it has now."""
    return broker_epoch < known
