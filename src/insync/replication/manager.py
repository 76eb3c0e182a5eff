"""All replicas of one broker: where requests, metadata and time come in.

Each public call is one step. During the step the parts record what they touched; at its end the manager answers the
fetches that were woken, sends the proposals that were made, and lets every idle fetcher ask again.

Notes are listed in the modules that make them: leader, alter_partition, transitions, follower, fetcher, fetch_server,
produce_server, offsets, throttle, repairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from insync.findings import Findings
from insync.metadata.partition import Partition, PartitionKey
from insync.replication import offsets, transitions
from insync.replication.alter_partition import AlterPartitionSender
from insync.replication.cluster import ClusterView
from insync.replication.config import ReplicationConfig
from insync.replication.delete_records import DeleteServer
from insync.replication.fetch_server import FetchServer, Reads
from insync.replication.fetch_session import ReadRights, SessionCache
from insync.replication.fetcher import Fetchers
from insync.replication.leader import leader_of
from insync.replication.produce_server import ProduceServer
from insync.replication.purgatory import OnAppended, OnCommitted
from insync.replication.repairs import Repairs
from insync.replication.replica import Replica
from insync.replication.state import ReplicationState
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
        "_alter_partition_sender",
        "_delete_server",
        "_expand_at",
        "_fetch_server",
        "_fetchers",
        "_is_started",
        "_produce_server",
        "_repairs",
        "_shrink_at",
        "_state",
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
        state = self._state = ReplicationState(
            broker_id=broker_id,
            logs=log_store,
            config=config,
            out=out,
            cluster=cluster,
            findings=Findings(out) if findings is None else findings,
        )
        self._fetchers = Fetchers(state, self.finish_step)
        self._alter_partition_sender = AlterPartitionSender(state, self.finish_step)
        self._fetch_server = FetchServer(state)
        self._produce_server = ProduceServer(state)
        self._delete_server = DeleteServer(state)
        self._repairs = Repairs(state, self.finish_step)
        self.replicas: dict[PartitionKey, Replica] = state.replicas
        self.changed: dict[Replica, None] = state.changed
        """Replicas whose LEO, HWM, ISR or role changed; the reader clears it."""
        self.counters: dict[str, int] = state.counters
        self._is_started = False
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
        """Q7: apply the merged, materialised state of the partitions that changed. `more` of them follow. `forgotten`:
        partitions that are missing from a snapshot. Once this broker has applied all its partitions, it sets aside logs
        on disk that belong to none of them (B9)."""
        state, fetchers = self._state, self._fetchers
        for key in deleted:
            transitions.delete_replica(state, fetchers, key)
        for key in forgotten:
            transitions.set_aside(state, fetchers, key, "a metadata snapshot no longer has this partition")
        for partition in partitions:
            transitions.apply_partition(state, fetchers, partition, now)
            if self._repairs.active:
                self._repairs.on_role_changed(partition.key, now)
        if not self._is_started and not more:
            self._is_started = True
            transitions.set_aside_strays(state)
        state.logs.sweep()
        self.finish_step(now)

    # --- requests ---

    def produce(
        self, request: produce.ProduceRequest, token: int, now: int, *, more: bool = False, internal: bool = False
    ) -> None:
        """`more`: another request, or `finish_step`, follows at once; a follower's parked fetch then gets the records
        of all these requests in one response. `internal`: may write to the brokers' own topics."""
        self._produce_server.produce(request, token, now, internal=internal)
        if not more:
            self.finish_step(now)

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
        """Append records of the node itself as an acks=all producer would. `on_done` is called with the outcome, and
        `on_committed` when the records are committed, which may be after a timeout."""
        self._produce_server.append(key, batch, on_done, on_committed, now + timeout_ms, now)
        self.finish_step(now)

    def fetch(
        self,
        request: fetch.FetchRequest,
        token: int,
        now: int,
        *,
        more: bool = False,
        rights: ReadRights | None = None,
    ) -> None:
        """`rights`: what a consumer may read; None: everything."""
        self._fetch_server.fetch(request, token, now, rights)
        if not more:
            self.finish_step(now)

    @property
    def sessions(self) -> SessionCache:
        return self._fetch_server.sessions

    def abandon_fetch(self, token: int) -> None:
        self._fetch_server.abandon(token)

    def abandon_produce(self, token: int) -> None:
        """The records stay, as after a timeout (P3)."""
        self._state.purgatory.abandon(token)

    def list_offsets(self, request: list_offsets.ListOffsetsRequest, token: int, now: int) -> None:
        self._state.out.reply(token, offsets.answer_list_offsets(self._state, request))

    def offset_for_leader_epoch(
        self, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, token: int, now: int
    ) -> None:
        self._state.out.reply(token, offsets.answer_offset_for_leader_epoch(self._state, request))

    def get_replica_log_info(
        self, request: get_replica_log_info.GetReplicaLogInfoRequest, token: int, now: int
    ) -> None:
        self._state.out.reply(token, offsets.answer_get_replica_log_info(self._state, request))

    def delete_records(self, request: delete_records.DeleteRecordsRequest, token: int, now: int) -> None:
        self._delete_server.delete(request, token, now)
        self.finish_step(now)

    def abandon_delete_records(self, token: int) -> None:
        self._delete_server.abandon(token)

    # --- time ---

    def tick(self, now: int) -> None:
        state = self._state
        state.purgatory.expire(now)
        self._fetch_server.expire(now)
        if now >= self._shrink_at:
            self._shrink_at = now + state.config.replica_lag_time_max_ms // 2
            for replica in self.replicas.values():  # I1
                leader = leader_of(replica)
                if leader is not None and len(leader.isr_state.isr) > 1:
                    leader.maybe_shrink_isr(now)
        if now >= self._expand_at:
            # I2, E7, H3: a follower may become eligible, or stop holding the high watermark back, without a fetch.
            self._expand_at = now + state.config.isr_expand_interval_ms
            for replica in list(state.under_replicated):
                leader = leader_of(replica)
                if leader is not None:
                    leader.maybe_finish_recovery(now)
                    leader.maybe_expand_isr(now)
                    leader.advance_hwm(now)
        self.finish_step(now)

    def on_stall(self, stall_ms: int, now: int) -> None:
        """I1: this broker itself did not run for so long, so followers could not catch up. They get that much more
        time, and part of it is still to come."""
        lag_ms = self._state.config.replica_lag_time_max_ms
        self._shrink_at = max(self._shrink_at + stall_ms, now + min(stall_ms, lag_ms) // 2)

    def next_deadline(self) -> int | None:
        deadlines = [
            self._state.purgatory.next_deadline(),
            self._fetch_server.next_deadline(),
            self._delete_server.next_deadline(),
            self._fetchers.next_deadline(),
            self._alter_partition_sender.next_deadline(),
            self._repairs.next_deadline(),
            self._shrink_at if self.replicas else None,
            self._expand_at if self._state.under_replicated else None,
        ]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --- the node's other duties ---

    def on_log_starts_moved(self, replicas: Iterable[Replica], now: int) -> None:
        """Retention ran: fetches of these replicas get the new log start."""
        for replica in replicas:
            replica.wake_fetches(self._state.woken)
        self.finish_step(now)

    def suspect(self, replica: Replica, offset: int, cause: str, now: int) -> None:
        """D6: the batch at `offset` may be damaged: verify it, and repair it if it is."""
        self._state.suspects[replica] = (offset, cause)
        self.finish_step(now)

    @property
    def repaired_ranges(self) -> int:
        return self._repairs.repaired

    def stop_fetching(self) -> None:
        self._fetchers.stop()

    # --- the end of a step ---

    def finish_step(self, now: int) -> None:
        """Complete what a step has caused. To be called after every step whose request said that `more` follows."""
        state = self._state
        outcomes = state.purgatory.outcomes
        while outcomes:
            outcomes.popleft()(now)
        if self._delete_server.parked:
            self._delete_server.complete_decided(now)
        while state.woken:
            woken, state.woken = state.woken, {}
            reads: Reads = {}
            for session in woken:
                self._fetch_server.wake(session, now, reads)
        if state.suspects or self._repairs.active:
            self._repairs.tick(now)
        if state.proposed or self._alter_partition_sender.attempts:
            self._alter_partition_sender.send_ready(now)
        self._fetchers.send_ready(now)
