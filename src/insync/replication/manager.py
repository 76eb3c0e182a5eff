"""All replicas of one broker: the door through which requests, metadata and time come in.

Each public call is one step. Inside it the parts mark what they touched; at its end the manager answers the fetches
that were woken, sends the proposals that were made, and lets every idle fetcher ask again.

Notes are listed in the modules that leave them: leader, isr_changes, alter_partition (alter_partition_overtaken),
transitions, follower, fetcher, fetch_server, produce_server, offsets, throttle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from insync.findings import Findings
from insync.metadata.partition import Partition, PartitionKey
from insync.replication import isr_changes, offsets, transitions
from insync.replication.alter_partition import AlterPartitionSender
from insync.replication.cluster import ClusterView
from insync.replication.config import ReplicationConfig
from insync.replication.core import Core
from insync.replication.delete_records import DeleteServer
from insync.replication.fetch_server import FetchServer, Reads
from insync.replication.fetcher import Fetchers
from insync.replication.produce_server import ProduceServer
from insync.replication.purgatory import OnAppended, OnCommitted, Purgatory
from insync.replication.repairs import Repairs
from insync.replication.replica import Replica
from insync.sansio import Outbox
from insync.storage.log_store import LogStore
from insync.wire.messages import (
    delete_records,
    fetch,
    get_replica_log_info,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)


class ReplicaManager:
    __slots__ = (
        "_core",
        "_delete_server",
        "_expand_at",
        "_fetch_server",
        "_fetchers",
        "_produce_server",
        "_proposals",
        "_purgatory",
        "_repairs",
        "_shrink_at",
        "_started",
        "changed",
        "counters",
        "replicas",
    )

    def __init__(
        self,
        *,
        broker_id: int,
        log_store: LogStore,
        config: ReplicationConfig,
        out: Outbox,
        cluster: ClusterView,
        now: int,
        findings: Findings | None = None,
    ) -> None:
        self._purgatory = Purgatory(out)
        self._core = Core(
            broker_id=broker_id,
            logs=log_store,
            config=config,
            out=out,
            cluster=cluster,
            purgatory=self._purgatory,
            findings=Findings(out) if findings is None else findings,
        )
        self._fetchers = Fetchers(self._core, self._finish)
        self._proposals = AlterPartitionSender(self._core, self._finish)
        self._fetch_server = FetchServer(self._core)
        self._produce_server = ProduceServer(self._core)
        self._delete_server = DeleteServer(self._core)
        self._repairs = Repairs(self._core, self._finish)
        self.replicas: dict[PartitionKey, Replica] = self._core.replicas
        self.changed: dict[Replica, None] = self._core.changed
        """Replicas whose LEO, HWM, ISR or role changed; whoever looks at them clears it."""
        self.counters: dict[str, int] = self._core.counters
        self._started = False
        self._shrink_at = now + config.replica_lag_time_max_ms // 2
        self._expand_at = now + config.isr_expand_interval_ms

    # --- metadata ---

    def apply(
        self,
        partitions: Sequence[Partition],
        deleted: Sequence[PartitionKey],
        now: int,
        *,
        forgotten: Sequence[PartitionKey] = (),
        more: bool = False,
    ) -> None:
        """Q7: the merged, materialised state of partitions that changed. `more` of them are to come. `forgotten`: a
        snapshot no longer has them. Once this broker has all that it holds, logs on disk that no partition claims are
        set aside (B9)."""
        for key in deleted:
            transitions.remove(self._core, self._fetchers, key)
        for key in forgotten:
            transitions.set_aside(self._core, self._fetchers, key, "a metadata snapshot no longer has this partition")
        for partition in partitions:
            transitions.apply(self._core, self._fetchers, partition, now)
            if self._repairs:
                self._repairs.role_changed(partition.key, now)
        if not self._started and not more:
            self._started = True
            transitions.set_aside_strays(self._core)
        self._core.logs.sweep()
        self._finish(now)

    # --- requests ---

    def produce(
        self, request: produce.ProduceRequest, token: int, now: int, *, more: bool = False, internal: bool = False
    ) -> None:
        """`more`: another request follows at once, or `end_turn`: followers that wait for records get those of all of
        them in one answer.
        `internal`: may write to the brokers' own topics."""
        self._produce_server.produce(request, token, now, internal=internal)
        if not more:
            self._finish(now)

    def append(
        self,
        key: PartitionKey,
        batch: bytearray,
        on_done: OnAppended,
        now: int,
        timeout_ms: int = 5_000,
        *,
        on_committed: OnCommitted = lambda _now: None,
    ) -> None:
        """Records of the node's own, as an acks=all producer would write them; `on_done` is called with the outcome,
        and `on_committed` when they are committed, which may be after a timeout."""
        self._produce_server.append(key, batch, on_done, on_committed, now + timeout_ms, now)
        self._finish(now)

    def fetch(self, request: fetch.FetchRequest, token: int, now: int, *, more: bool = False) -> None:
        self._fetch_server.fetch(request, token, now)
        if not more:
            self._finish(now)

    def end_turn(self, now: int) -> None:
        self._finish(now)

    def abandon_fetch(self, token: int) -> None:
        self._fetch_server.abandon(token)

    def abandon_produce(self, token: int) -> None:
        """The records stay, as after a timeout (P3); nobody hears what becomes of them."""
        self._purgatory.abandon(token)

    def list_offsets(self, request: list_offsets.ListOffsetsRequest, token: int, now: int) -> None:
        self._core.out.reply(token, offsets.answer_list_offsets(self._core, request))

    def offset_for_leader_epoch(
        self, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, token: int, now: int
    ) -> None:
        self._core.out.reply(token, offsets.answer_offset_for_leader_epoch(self._core, request))

    def get_replica_log_info(
        self, request: get_replica_log_info.GetReplicaLogInfoRequest, token: int, now: int
    ) -> None:
        self._core.out.reply(token, offsets.answer_get_replica_log_info(self._core, request))

    def delete_records(self, request: delete_records.DeleteRecordsRequest, token: int, now: int) -> None:
        self._delete_server.delete(request, token, now)
        self._finish(now)

    def abandon_delete_records(self, token: int) -> None:
        self._delete_server.abandon(token)

    # --- time ---

    def tick(self, now: int) -> None:
        self._purgatory.expire(now)
        self._fetch_server.expire(now)
        if now >= self._shrink_at:
            self._shrink_at = now + self._core.config.replica_lag_time_max_ms // 2
            self._look_for_laggards(now)
        if now >= self._expand_at:
            self._expand_at = now + self._core.config.isr_expand_interval_ms
            self._look_for_joiners(now)
        self._finish(now)

    def held_up(self, late_ms: int, now: int) -> None:
        """I1: this broker itself did not run for so long. Followers could not be answered, and so could not catch up:
        they have that much more time, and at least some of it is still to come."""
        lag = self._core.config.replica_lag_time_max_ms
        self._shrink_at = max(self._shrink_at + late_ms, now + min(late_ms, lag) // 2)

    def next_deadline(self) -> int | None:
        due = [
            self._purgatory.next_deadline(),
            self._fetch_server.next_deadline(),
            self._delete_server.next_deadline(),
            self._fetchers.next_deadline(),
            self._proposals.next_deadline(),
            self._repairs.next_deadline(),
            self._shrink_at if self.replicas else None,
            self._expand_at if self._core.under_replicated else None,
        ]
        return min((at for at in due if at is not None), default=None)

    def _look_for_laggards(self, now: int) -> None:
        """I1."""
        for replica in self.replicas.values():
            leader = replica.leader
            if leader is not None and len(leader.state.isr) > 1:
                isr_changes.maybe_shrink(leader, now)

    def _look_for_joiners(self, now: int) -> None:
        """I2, E7, H3: a follower may become eligible, or its grace may end, without another fetch of its partition."""
        for replica in list(self._core.under_replicated):
            leader = replica.leader
            if leader is not None:
                isr_changes.maybe_recover(leader, now)
                isr_changes.maybe_expand(leader, now)
                leader.advance_hwm(now)

    # --- the node's other duties ---

    def log_starts_moved(self, replicas: Iterable[Replica], now: int) -> None:
        """Retention ran: whoever fetches from these hears of their new log start."""
        for replica in replicas:
            replica.disturbed(self._core.woken)
        self._finish(now)

    def suspect(self, replica: Replica, offset: int, cause: str, now: int) -> None:
        """D6: the batch at `offset` may be damaged: verify it, and repair it if it is."""
        self._core.suspects[replica] = (offset, cause)
        self._finish(now)

    @property
    def repaired_ranges(self) -> int:
        return self._repairs.repaired

    def stop_fetching(self) -> None:
        self._fetchers.stop()

    def peer_lost(self, broker: int, now: int) -> None:
        """A hint only: the driver reports what was in flight to that broker as lost, and the session starts anew."""
        self._finish(now)

    # --- the end of a step ---

    def _finish(self, now: int) -> None:
        core = self._core
        outcomes = self._purgatory.outcomes
        while outcomes:
            outcomes.popleft()(now)
        if self._delete_server.parked:
            self._delete_server.settle(now)
        while core.woken:
            woken, core.woken = core.woken, {}
            reads: Reads = {}
            for session in woken:
                self._fetch_server.wake(session, now, reads)
        if core.suspects or self._repairs:
            self._repairs.tick(now)
        self._proposals.send_ready(now)
        self._fetchers.send_ready(now)
