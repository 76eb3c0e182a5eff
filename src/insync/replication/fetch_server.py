"""Answering fetches of followers and consumers (F3, F4, D2, H5, R6).

A fetch is served in two halves. When it arrives, every partition that it names or that is dirty is checked, and a
follower's position is recorded. If that yields too few bytes and nothing urgent, it is parked with its session; a
change in one of its partitions, or its deadline, starts the second half, which reads again but records nothing.

Notes: fetch_refused(partition, replica, error) for followers.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from uuid import UUID

from insync.replication.config import VERIFY_ALWAYS, VERIFY_FIRST
from insync.replication.divergence import EpochEnd
from insync.replication.fetch_session import (
    DEBUG_CONSUMER,
    NO_SESSION,
    CachedPartition,
    ParkedFetch,
    ReadRights,
    Session,
    SessionCache,
)
from insync.replication.leader import Leader, leader_epoch_error
from insync.replication.replica import Replica
from insync.replication.state import ReplicationState
from insync.storage import verification
from insync.storage.damage import CorruptSegmentError
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import NO_DURATION

READ_COMMITTED = 1
STALE_DEADLINES = 64
"""The heap of deadlines is rebuilt when entries of answered fetches outnumber the others by this many."""
MAX_VERIFIED_BATCHES = 16_384
"""For one response: that takes 30 ms. The rest is sent with the next one."""
MAX_PARTITIONS_WITH_RECORDS = 200
"""In one response to a follower: reading and appending that many takes 10 ms. The rest come first in the next one."""
_NONE = ErrorCode.none

Reads = dict[tuple[Log, int, int, int, bool], tuple[bytes, int]]
"""Recent reads of logs: followers that wait side by side want the same records, and nothing is written while they are
answered one after the other."""


class Served:
    """The result of one pass over the dirty partitions of a fetch."""

    __slots__ = (
        "budget",
        "bytes",
        "copied",
        "done",
        "partitions",
        "partitions_left",
        "reads",
        "sent",
        "unverified_batches",
        "urgent",
    )

    def __init__(self, budget: int, reads: Reads, max_partitions: int) -> None:
        self.reads = reads
        self.partitions: list[tuple[UUID, fetch.PartitionData]] = []
        self.done: list[CachedPartition] = []
        self.sent: list[tuple[CachedPartition, int, int]] = []
        """The HWM and log start that the response has for each partition."""
        self.budget = budget
        self.bytes = 0
        self.partitions_left = max_partitions
        """How many more may have records in this response."""
        self.unverified_batches = MAX_VERIFIED_BATCHES
        """How many batches may still be verified for this response."""
        self.copied = 0
        """R6: how many of the bytes count against the throttled rate."""
        self.urgent = False


class FetchServer:
    __slots__ = ("_deadlines", "_parked", "_sequence", "_state", "sessions")

    def __init__(self, state: ReplicationState) -> None:
        self._state = state
        self.sessions = SessionCache(state.broker_id, state.config, state.cluster)
        self._parked: dict[int, ParkedFetch] = {}  # by token
        self._deadlines: list[tuple[int, int, ParkedFetch]] = []  # includes fetches that were answered since
        self._sequence = 0

    def fetch(self, request: fetch.FetchRequest, token: int, now: int, rights: ReadRights | None = None) -> None:
        """`rights`: of a consumer; None: it may read everything."""
        session = self.sessions.open(request, now, "" if rights is None else rights.principal)
        if isinstance(session, ErrorCode):
            self._state.out.reply(token, _make_response(session, NO_SESSION, []))
            return
        if rights is not None:
            session.set_rights(rights)
        if session.parked is not None:
            # Its fetcher has given up on that one, or it would not send another.
            self._state.out.reply(self._unpark(session.parked).token, _make_response(_NONE, session.id, []))
        parked = ParkedFetch(request, session, self._state.config.fetch_max_bytes, token, now)
        served = self._serve(parked, now, {}, arriving=True)
        if served.urgent or served.bytes >= parked.min_bytes or parked.deadline <= now or not session.partitions:
            self._reply(parked, served, now)
        else:
            self._park(parked)

    def wake(self, session: Session, now: int, reads: Reads) -> None:
        parked = session.parked
        if parked is None:
            return
        served = self._serve(parked, now, reads, arriving=False)
        if served.urgent or served.bytes >= parked.min_bytes or parked.deadline <= now:
            self._reply(self._unpark(parked), served, now)

    def expire(self, now: int) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            parked = heappop(self._deadlines)[2]
            if parked.session.parked is parked:
                self.wake(parked.session, now, {})

    def next_deadline(self) -> int | None:
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].session.parked is not deadlines[0][2]:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def abandon(self, token: int) -> None:
        """The client of this fetch is gone. A session stays: its fetcher may come back on another connection."""
        parked = self._parked.get(token)
        if parked is not None:
            self._unpark(parked)
            self._state.out.reply(token, None)
            if parked.session.id == NO_SESSION:
                parked.session.close()

    def _park(self, parked: ParkedFetch) -> None:
        parked.session.parked = self._parked[parked.token] = parked
        self._sequence += 1
        heappush(self._deadlines, (parked.deadline, self._sequence, parked))
        if len(self._deadlines) > 2 * len(self._parked) + STALE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if entry[2].token in self._parked]
            heapify(self._deadlines)

    def _unpark(self, parked: ParkedFetch) -> ParkedFetch:
        parked.session.parked = None
        del self._parked[parked.token]
        return parked

    def _reply(self, parked: ParkedFetch, served: Served, now: int) -> None:
        session = parked.session
        if served.copied:
            self._state.leader_throttle.count(served.copied, now)
        for cached in served.done:
            session.dirty.pop(cached, None)
        for cached, hwm, log_start in served.sent:
            cached.sent_hwm, cached.sent_log_start = hwm, log_start
        self._state.out.reply(parked.token, _make_response(_NONE, session.id, served.partitions))
        if session.id == NO_SESSION:
            session.close()

    # --- one pass ---

    def _serve(self, parked: ParkedFetch, now: int, reads: Reads, *, arriving: bool) -> Served:
        session = parked.session
        max_partitions = MAX_PARTITIONS_WITH_RECORDS if session.replica_id >= 0 else len(session.partitions)
        served = Served(parked.max_bytes, reads, max_partitions)
        for cached in list(session.dirty):
            if session.rights is not None and not session.rights.may_read(cached.key[0]):
                self._refuse(cached, ErrorCode.topic_authorization_failed, None, served)  # A3, A6
                continue
            replica = self._state.replicas.get(cached.key)
            if replica is None:
                self._refuse(cached, self._state.error_without_replica(*cached.key), None, served)
                continue
            cached.watch(replica.watchers)
            leader = replica.role
            verdict: ErrorCode | EpochEnd | None
            if isinstance(leader, Leader):
                verdict = leader.check_fetch(cached)
                if verdict is None and arriving and cached.from_follower and cached.session is not None:
                    verdict = leader.record_fetch(cached, cached.session.replica_epoch, now)
            else:
                verdict = check_follower_read(cached, replica)
            if verdict is None:
                verdict = self._read(cached, replica, parked, served, now)
            if verdict is None:
                continue
            if isinstance(verdict, EpochEnd):
                self._send_divergence(cached, replica, verdict, served)
            else:
                self._refuse(cached, verdict, replica, served)
        return served

    def _read(
        self, cached: CachedPartition, replica: Replica, parked: ParkedFetch, served: Served, now: int
    ) -> ErrorCode | None:
        """Read one partition. Error: the next batch is damaged (D6)."""
        log = replica.log
        hwm, log_start = log.hwm, log.log_start
        limit = readable_end(hwm, log.leo, from_follower=cached.from_follower)
        records = b""
        if cached.fetch_offset < limit:
            is_throttled = (
                cached.from_follower
                and replica in self._state.under_replicated
                and self._counts_as_copy(cached, replica)
            )
            if served.budget > 0 and not (is_throttled and self._is_held_back(cached, replica, now)):
                size = min(cached.max_bytes, served.budget)
                read = self._read_verified(cached, replica, size, limit, served)
                if isinstance(read, ErrorCode):
                    return read
                records = read
            if records:
                served.bytes += len(records)
                served.partitions_left -= 1
                served.budget = served.budget - len(records) if served.partitions_left else 0
            if is_throttled:
                served.copied += len(records)
        if cached.fetch_offset >= limit or records:
            served.done.append(cached)
        if cached.from_follower and 0 <= cached.sent_log_start < log_start:
            served.urgent = True  # a DeleteRecords request may wait for the followers' log starts
        if records or parked.full or cached.sent_hwm != hwm or cached.sent_log_start != log_start:
            served.sent.append((cached, hwm, log_start))
            data = fetch.PartitionData(
                partition_index=cached.key[1],
                error_code=_NONE,
                high_watermark=hwm,
                last_stable_offset=hwm,
                log_start_offset=log_start,
                aborted_transactions=() if parked.isolation == READ_COMMITTED else None,
                records=records,
            )
            served.partitions.append((cached.key[0], data))
        return None

    def _read_verified(
        self, cached: CachedPartition, replica: Replica, size: int, limit: int, served: Served
    ) -> bytes | ErrorCode:
        """D6: batches known to be damaged are not served; those that may be are verified first."""
        log, offset = replica.log, cached.fetch_offset
        if log.damage.ranges:
            if log.damage.at(offset) is not None:
                return damage_error(log)
            limit = log.damage.limit(offset, limit)
        min_one = served.bytes == 0
        key = (log, offset, size, limit, min_one)
        read = served.reads.get(key)
        if read is None:
            try:
                records = log.read(offset, size, limit_offset=limit, min_one=min_one)
                read = served.reads[key] = (records, log.find_segment(offset).read_position)
            except CorruptSegmentError:
                self._state.suspects[replica] = (offset, "it cannot be found in its segment")
                return damage_error(log)
        records, position = read
        if not records or not self._has_to_verify(cached, replica, position, len(records)):
            return records
        if served.unverified_batches <= 0:
            return b""
        checked = verification.check_batches(log, records, served.unverified_batches)
        sound = checked.size
        served.unverified_batches -= checked.batches
        log.find_segment(offset).mark_verified(position, position + sound)
        if not checked.is_damaged:
            return records if sound == len(records) else records[:sound]
        header = batch.read_header(records, sound) if len(records) - sound >= batch.HEADER_SIZE else None
        damaged = offset if header is None or sound == 0 else header.base_offset
        suspect = damaged if log.log_start <= damaged < log.leo else offset
        self._state.suspects[replica] = (suspect, "its checksum is wrong")
        return records[:sound] if sound else damage_error(log)

    def _has_to_verify(self, cached: CachedPartition, replica: Replica, position: int, size: int) -> bool:
        """D6: a consumer's read is verified if it is the first since the broker started, or since the segment was
        closed; a follower's read, if the follower asks for the same offset again."""
        if not cached.from_follower:
            setting = self._state.config.fetch_verify_checksums
            segment = replica.log.find_segment(cached.fetch_offset)
            return (
                (setting == VERIFY_FIRST and not segment.is_verified(position, position + size))
                or setting == VERIFY_ALWAYS
                or cached.session_replica == DEBUG_CONSUMER
                or replica in self._state.suspects
            )
        leader = replica.role
        progress = leader.followers.get(cached.session_replica) if isinstance(leader, Leader) else None
        if progress is None:
            return False
        makes_no_progress = progress.served_offset == cached.fetch_offset
        progress.served_offset = cached.fetch_offset
        return makes_no_progress

    def _counts_as_copy(self, cached: CachedPartition, replica: Replica) -> bool:
        """R6: whether these records count against the throttled rate. The high watermark waits for the maximal ISR."""
        leader = replica.role
        return isinstance(leader, Leader) and self._state.leader_throttle.covers(
            replica.partition, cached.session_replica, leader.isr_state.maximal_isr
        )

    def _is_held_back(self, cached: CachedPartition, replica: Replica, now: int) -> bool:
        """R6: no records this time; the partition stays dirty, and the follower's next fetch asks again."""
        leader, throttle = replica.role, self._state.leader_throttle
        if not isinstance(leader, Leader) or not throttle.is_exceeded(now):
            return False
        progress = leader.followers[cached.session_replica]
        if not progress.held_back:
            progress.held_back = True
            throttle.note_throttled(replica.partition, progress.broker)
        return True

    def _send_divergence(self, cached: CachedPartition, replica: Replica, end: EpochEnd, served: Served) -> None:
        served.urgent = True
        data = fetch.PartitionData(
            partition_index=cached.key[1],
            error_code=_NONE,
            high_watermark=replica.log.hwm,
            last_stable_offset=replica.log.hwm,
            log_start_offset=replica.log.log_start,
            diverging_epoch=fetch.EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset),
            aborted_transactions=None,
            records=b"",
        )
        served.partitions.append((cached.key[0], data))

    def _refuse(self, cached: CachedPartition, error: ErrorCode, replica: Replica | None, served: Served) -> None:
        """F3: the follower's progress stays as it was."""
        served.urgent = True
        log_start, leader, leader_epoch = -1, -1, -1
        if replica is not None:
            leader, leader_epoch = replica.partition.leader, replica.partition.leader_epoch
            if error is ErrorCode.offset_out_of_range:
                log_start = replica.log.log_start  # F7: where a follower that fell behind retention starts again
        data = fetch.PartitionData(
            partition_index=cached.key[1],
            error_code=error,
            high_watermark=-1,
            log_start_offset=log_start,
            current_leader=fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=leader_epoch),
            aborted_transactions=() if error is ErrorCode.topic_authorization_failed else None,  # as in Kafka
            records=b"",
        )
        served.partitions.append((cached.key[0], data))
        if cached.from_follower:
            name = replica.partition.name if replica is not None else f"{cached.key[0]}-{cached.key[1]}"
            self._state.out.note("fetch_refused", partition=name, replica=cached.session_replica, error=error.name)


def damage_error(log: Log) -> ErrorCode:
    """D6: clients retry after a storage error and give up after a corrupt message, so they get the latter only if the
    damage is irreparable."""
    return ErrorCode.corrupt_message if log.damage.irreparable else ErrorCode.kafka_storage_error


def readable_end(hwm: int, leo: int, *, from_follower: bool) -> int:
    """H5: consumers read below the high watermark only; the LSO is the same while there are no transactions."""
    return leo if from_follower else hwm


def check_follower_read(cached: CachedPartition, replica: Replica) -> ErrorCode | None:
    """F3: only a debugging consumer may read from a replica that does not lead, below the high watermark that the
    replica knows (H5): tools and repairs compare replicas that way. Other consumers have to look up the leader.
    """
    if cached.session_replica != DEBUG_CONSUMER:
        return ErrorCode.not_leader_or_follower
    error = leader_epoch_error(cached.leader_epoch, replica.partition.leader_epoch)
    if error is not None:
        return error
    log = replica.log
    return None if log.log_start <= cached.fetch_offset <= log.leo else ErrorCode.offset_out_of_range


def _make_response(
    error: ErrorCode, session_id: int, partitions: list[tuple[UUID, fetch.PartitionData]]
) -> fetch.FetchResponse:
    topics: dict[UUID, list[fetch.PartitionData]] = {}
    for topic_id, data in partitions:
        topics.setdefault(topic_id, []).append(data)
    return fetch.FetchResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        session_id=session_id,
        responses=tuple(
            fetch.FetchableTopicResponse(topic_id=topic_id, partitions=tuple(topic_partitions))
            for topic_id, topic_partitions in topics.items()
        ),
    )
