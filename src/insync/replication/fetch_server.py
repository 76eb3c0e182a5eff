"""Answering fetches, of followers and of consumers (F3, F4, D2, H5, R6).

A fetch is served in two halves. When it arrives, every partition that it names or that has news is judged, and a
follower's position is recorded. If that yields too few bytes and no bad news it is parked with its session; a change
in one of its partitions, or its deadline, brings it back for the second half, which reads again but records nothing.

Notes: fetch_refused(partition, replica, error) for followers.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from uuid import UUID

from insync.replication.config import VERIFY_ALWAYS, VERIFY_FIRST
from insync.replication.core import Core
from insync.replication.divergence import EpochEnd
from insync.replication.fetch_session import DEBUG_CONSUMER, NO_SESSION, CachedPartition, Session, SessionCache
from insync.replication.leader import Leader, leader_epoch_error
from insync.replication.replica import Replica
from insync.storage import verification
from insync.storage.damage import CorruptSegmentError
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import NO_DURATION, millis

READ_COMMITTED = 1
FEW = 64
MAX_VERIFIED_BATCHES = 16_384
"""For one answer: that takes 30 ms. The rest is sent with the next one."""
MAX_PARTITIONS_WITH_RECORDS = 200
"""In one answer to a follower: reading and appending that many takes 10 ms. The others come first in the next one."""
MAX_WAIT_MS = 300_000
"""However patient a client says it is: a request under way keeps its connection from counting as idle."""
_NONE = ErrorCode.none


class ParkedFetch:
    """A fetch request on its way to its answer. `full`: the answer lists every partition, news or not."""

    __slots__ = ("deadline", "full", "isolation", "max_bytes", "min_bytes", "session", "token")

    def __init__(self, request: fetch.FetchRequest, session: Session, max_bytes: int, token: int, now: int) -> None:
        """`max_bytes`: what a consumer may ask for."""
        self.session = session
        self.token = token
        self.full = request.session_epoch <= 0
        self.deadline = now + min(millis(request.max_wait), MAX_WAIT_MS)
        self.max_bytes = request.max_bytes if session.replica_id >= 0 else consumer_limit(request.max_bytes, max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.isolation = request.isolation_level


Reads = dict[tuple[Log, int, int, int, bool], tuple[bytes, int]]
"""What was read of a log a moment ago. Followers that wait side by side want the same, and nothing is written while
they are answered one after the other."""


class Served:
    """What one pass over the dirty partitions has read."""

    __slots__ = (
        "answers",
        "budget",
        "bytes",
        "copied",
        "done",
        "partitions_left",
        "reads",
        "told",
        "unverified_batches",
        "urgent",
    )

    def __init__(self, budget: int, reads: Reads, partitions: int) -> None:
        self.reads = reads
        self.answers: list[tuple[UUID, fetch.PartitionData]] = []
        self.done: list[CachedPartition] = []
        self.told: list[tuple[CachedPartition, int, int]] = []
        self.budget = budget
        self.bytes = 0
        self.partitions_left = partitions
        """How many more may have records in this answer."""
        self.unverified_batches = MAX_VERIFIED_BATCHES
        """How many batches may still be verified for this answer."""
        self.copied = 0
        """R6: how many of the bytes count against the throttled rate."""
        self.urgent = False


class FetchServer:
    __slots__ = ("_core", "_deadlines", "_parked", "_sequence", "sessions")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.sessions = SessionCache(core)
        self._parked: dict[int, ParkedFetch] = {}  # by token
        self._deadlines: list[tuple[int, int, ParkedFetch]] = []  # some of them answered since
        self._sequence = 0

    def fetch(self, request: fetch.FetchRequest, token: int, now: int) -> None:
        session = self.sessions.open(request, now)
        if isinstance(session, ErrorCode):
            self._core.out.reply(token, _response(session, NO_SESSION, []))
            return
        if session.parked is not None:
            # Its fetcher has given up on that one, or it would not send another.
            self._core.out.reply(self._unpark(session.parked).token, _response(_NONE, session.id, []))
        parked = ParkedFetch(request, session, self._core.config.fetch_max_bytes, token, now)
        served = self._serve(parked, now, {}, arriving=True)
        if served.urgent or served.bytes >= parked.min_bytes or parked.deadline <= now or not session.partitions:
            self._answer(parked, served, now)
        else:
            self._park(parked)

    def wake(self, session: Session, now: int, reads: Reads) -> None:
        parked = session.parked
        if parked is None:
            return
        served = self._serve(parked, now, reads, arriving=False)
        if served.urgent or served.bytes >= parked.min_bytes or parked.deadline <= now:
            self._answer(self._unpark(parked), served, now)

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
        """Nobody waits for it any longer. A session stays: its fetcher may come back on another connection."""
        parked = self._parked.get(token)
        if parked is not None:
            self._unpark(parked)
            self._core.out.reply(token, None)
            if parked.session.id == NO_SESSION:
                parked.session.close()

    def _park(self, parked: ParkedFetch) -> None:
        parked.session.parked = self._parked[parked.token] = parked
        self._sequence += 1
        heappush(self._deadlines, (parked.deadline, self._sequence, parked))
        if len(self._deadlines) > 2 * len(self._parked) + FEW:
            self._deadlines = [entry for entry in self._deadlines if entry[2].token in self._parked]
            heapify(self._deadlines)

    def _unpark(self, parked: ParkedFetch) -> ParkedFetch:
        parked.session.parked = None
        del self._parked[parked.token]
        return parked

    def _answer(self, parked: ParkedFetch, served: Served, now: int) -> None:
        session = parked.session
        if served.copied:
            self._core.leader_throttle.count(served.copied, now)
        for cached in served.done:
            session.dirty.pop(cached, None)
        for cached, hwm, log_start in served.told:
            cached.sent_hwm, cached.sent_log_start = hwm, log_start
        self._core.out.reply(parked.token, _response(_NONE, session.id, served.answers))
        if session.id == NO_SESSION:
            session.close()

    # --- one pass ---

    def _serve(self, parked: ParkedFetch, now: int, reads: Reads, *, arriving: bool) -> Served:
        session = parked.session
        most = MAX_PARTITIONS_WITH_RECORDS if session.replica_id >= 0 else len(session.partitions)
        served = Served(parked.max_bytes, reads, most)
        for cached in list(session.dirty):
            replica = self._core.replicas.get(cached.key)
            if replica is None:
                self._refuse(cached, unhosted(self._core, cached.key[0], cached.key[1]), None, served)
                continue
            cached.watch(replica)
            verdict = self._judge(cached, replica, now, arriving=arriving)
            if verdict is None:
                verdict = self._read(cached, replica, parked, served, now)
            if verdict is None:
                continue
            if isinstance(verdict, EpochEnd):
                self._tell_divergence(cached, replica, verdict, served)
            else:
                self._refuse(cached, verdict, replica, served)
        return served

    def _judge(
        self, cached: CachedPartition, replica: Replica, now: int, *, arriving: bool
    ) -> ErrorCode | EpochEnd | None:
        leader = replica.role
        if not isinstance(leader, Leader):
            return judge_follower_read(cached, replica)
        verdict = leader.judge(cached)
        if verdict is None and arriving and cached.from_follower and cached.session is not None:
            return leader.record_fetch(cached, cached.session_replica, cached.session.replica_epoch, now)
        return verdict

    def _read(
        self, cached: CachedPartition, replica: Replica, parked: ParkedFetch, served: Served, now: int
    ) -> ErrorCode | None:
        """Read for one partition; an error if what comes next is damaged (D6)."""
        log = replica.log
        limit = readable_end(log.hwm, log.leo, from_follower=cached.from_follower)
        records = b""
        if cached.fetch_offset < limit:
            throttled = (
                cached.from_follower and replica in self._core.under_replicated and self._copies(cached, replica)
            )
            if served.budget > 0 and not (throttled and self._holds_back(cached, replica, now)):
                size = min(cached.max_bytes, served.budget)
                read = self._sound_records(cached, replica, size, limit, served)
                if isinstance(read, ErrorCode):
                    return read
                records = read
            if records:
                served.bytes += len(records)
                served.partitions_left -= 1
                served.budget = served.budget - len(records) if served.partitions_left else 0
            if throttled:
                served.copied += len(records)
        if cached.fetch_offset >= limit or records:
            served.done.append(cached)
        moved = cached.sent_hwm != log.hwm or cached.sent_log_start != log.log_start
        if cached.from_follower and 0 <= cached.sent_log_start < log.log_start:
            served.urgent = True  # somebody may wait for the followers to have deleted records too
        if records or moved or parked.full:
            served.told.append((cached, log.hwm, log.log_start))
            served.answers.append((cached.key[0], _data(cached.key[1], log.hwm, log.log_start, records, parked)))
        return None

    def _sound_records(
        self, cached: CachedPartition, replica: Replica, size: int, limit: int, served: Served
    ) -> bytes | ErrorCode:
        """D6: batches that are known to be damaged are not served; those that may be are verified first."""
        log, offset = replica.log, cached.fetch_offset
        if log.damage.ranges:
            if log.damage.at(offset) is not None:
                return damaged_error(log)
            limit = log.damage.limit(offset, limit)
        try:
            records, position = _records(log, offset, size, limit, served)
        except CorruptSegmentError:
            self._core.suspects[replica] = (offset, "it cannot be found in its segment")
            return damaged_error(log)
        if not records or not self._has_to_verify(cached, replica, position, len(records)):
            return records
        if served.unverified_batches <= 0:
            return b""
        checked = verification.check_batches(log, records, served.unverified_batches)
        sound = checked.size
        served.unverified_batches -= checked.batches
        log.segment_of(offset).mark_verified(position, position + sound)
        if not checked.is_damaged:
            return records if sound == len(records) else records[:sound]
        header = batch.read_header(records, sound) if len(records) - sound >= batch.HEADER_SIZE else None
        bad = offset if header is None or sound == 0 else header.base_offset
        self._core.suspects[replica] = (bad if log.log_start <= bad < log.leo else offset, "its checksum is wrong")
        return records[:sound] if sound else damaged_error(log)

    def _has_to_verify(self, cached: CachedPartition, replica: Replica, position: int, size: int) -> bool:
        """D6: the first read by a consumer since the start, or since the segment was closed, is verified."""
        if not cached.from_follower:
            setting = self._core.config.fetch_verify_checksums
            segment = replica.log.segment_of(cached.fetch_offset)
            return (
                (setting == VERIFY_FIRST and not segment.is_verified(position, position + size))
                or setting == VERIFY_ALWAYS
                or cached.session_replica == DEBUG_CONSUMER
                or replica in self._core.suspects
            )
        leader = replica.leader
        progress = None if leader is None else leader.followers.get(cached.session_replica)
        if progress is None:
            return False
        makes_no_progress = progress.served_offset == cached.fetch_offset
        progress.served_offset = cached.fetch_offset
        return makes_no_progress

    def _copies(self, cached: CachedPartition, replica: Replica) -> bool:
        """R6: these records count against the throttled rate. The maximal ISR is what the high watermark waits for."""
        leader = replica.leader
        return leader is not None and self._core.leader_throttle.covers(
            replica.partition, cached.session_replica, leader.state.maximal_isr
        )

    def _holds_back(self, cached: CachedPartition, replica: Replica, now: int) -> bool:
        """R6: no records this time; the partition keeps its place, and the follower's next fetch asks again."""
        leader, throttle = replica.leader, self._core.leader_throttle
        if leader is None or not throttle.exceeded(now):
            return False
        progress = leader.followers[cached.session_replica]
        if not progress.held_back:
            progress.held_back = True
            throttle.note(replica.partition, progress.broker)
        return True

    def _tell_divergence(self, cached: CachedPartition, replica: Replica, end: EpochEnd, served: Served) -> None:
        served.urgent = True
        line = fetch.PartitionData(
            partition_index=cached.key[1],
            error_code=_NONE,
            high_watermark=replica.log.hwm,
            last_stable_offset=replica.log.hwm,
            log_start_offset=replica.log.log_start,
            diverging_epoch=fetch.EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset),
            aborted_transactions=None,
            records=b"",
        )
        served.answers.append((cached.key[0], line))

    def _refuse(self, cached: CachedPartition, error: ErrorCode, replica: Replica | None, served: Served) -> None:
        """F3: and the follower's slot stays as it was."""
        served.urgent = True
        # F7: the log start tells a follower that fell behind retention where to begin again.
        out_of_range = error is ErrorCode.offset_out_of_range and replica is not None
        line = fetch.PartitionData(
            partition_index=cached.key[1],
            error_code=error,
            high_watermark=-1,
            log_start_offset=replica.log.log_start if out_of_range and replica is not None else -1,
            current_leader=leader_hint(replica),
            aborted_transactions=None,
            records=b"",
        )
        served.answers.append((cached.key[0], line))
        if cached.from_follower:
            name = replica.partition.name if replica is not None else f"{cached.key[0]}-{cached.key[1]}"
            self._core.out.note("fetch_refused", partition=name, replica=cached.session_replica, error=error.name)


def _records(log: Log, offset: int, size: int, limit: int, served: Served) -> tuple[bytes, int]:
    """Batches, and where they are in their segment."""
    key = (log, offset, size, limit, served.bytes == 0)
    known = served.reads.get(key)
    if known is None:
        records = log.read(offset, size, limit_offset=limit, min_one=served.bytes == 0)
        known = served.reads[key] = (records, log.segment_of(offset).read_position)
    return known


def damaged_error(log: Log) -> ErrorCode:
    """D6: clients wait while there is hope: they ask again after a storage error, and give up at a corrupt message."""
    return ErrorCode.corrupt_message if log.damage.irreparable else ErrorCode.kafka_storage_error


def consumer_limit(asked: int, most: int) -> int:
    """W17: one batch is due, whatever the limits say."""
    return max(1, min(asked, most))


def readable_end(hwm: int, leo: int, *, from_follower: bool) -> int:
    """H5: consumers read below the high watermark only; the LSO is the same while there are no transactions."""
    return leo if from_follower else hwm


def judge_follower_read(cached: CachedPartition, replica: Replica) -> ErrorCode | None:
    """F3: only a debugging consumer may read from a replica that does not lead, below the high watermark that it knows
    (H5): tools and repairs compare replicas that way. Other consumers are to look up who leads.
    """
    if cached.session_replica != DEBUG_CONSUMER:
        return ErrorCode.not_leader_or_follower
    error = leader_epoch_error(cached.leader_epoch, replica.partition.leader_epoch)
    if error is not None:
        return error
    log = replica.log
    return None if log.log_start <= cached.fetch_offset <= log.leo else ErrorCode.offset_out_of_range


def unhosted(core: Core, topic_id: UUID | None, index: int) -> ErrorCode:
    """F3: there is no replica of this partition here; which of the two sides is behind, if any."""
    name = None if topic_id is None else core.cluster.topic_name(topic_id)
    if name is None:
        return ErrorCode.unknown_topic_id
    same_name = core.by_name.get((name, index))
    if same_name is not None and same_name.partition.topic_id != topic_id:
        return ErrorCode.inconsistent_topic_id
    return elsewhere(core, name, index)


def elsewhere(core: Core, topic: str, index: int) -> ErrorCode:
    """F3: who asks here for a partition that other brokers have must look up again who leads it."""
    known = core.cluster.has_partition(topic, index)
    return ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition


def leader_hint(replica: Replica | None) -> fetch.LeaderIdAndEpoch:
    if replica is None:
        return fetch.LeaderIdAndEpoch()
    return fetch.LeaderIdAndEpoch(leader_id=replica.partition.leader, leader_epoch=replica.partition.leader_epoch)


def _data(index: int, hwm: int, log_start: int, records: bytes, parked: ParkedFetch) -> fetch.PartitionData:
    return fetch.PartitionData(
        partition_index=index,
        error_code=_NONE,
        high_watermark=hwm,
        last_stable_offset=hwm,
        log_start_offset=log_start,
        aborted_transactions=() if parked.isolation == READ_COMMITTED else None,
        records=records,
    )


def _response(
    error: ErrorCode, session_id: int, answers: list[tuple[UUID, fetch.PartitionData]]
) -> fetch.FetchResponse:
    topics: dict[UUID, list[fetch.PartitionData]] = {}
    for topic_id, line in answers:
        topics.setdefault(topic_id, []).append(line)
    return fetch.FetchResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        session_id=session_id,
        responses=tuple(
            fetch.FetchableTopicResponse(topic_id=topic_id, partitions=tuple(lines))
            for topic_id, lines in topics.items()
        ),
    )
