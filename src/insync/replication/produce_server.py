"""Producing (P1-P5): validate the batch, check MinISR, append, and answer now or when the high watermark passes.

Notes: duplicate_produce(partition, producer, base_offset).
"""

from __future__ import annotations

from uuid import UUID

from insync.metadata.partition import PartitionKey
from insync.metadata.topic_names import INTERNAL_TOPICS
from insync.replication.leader import Leader
from insync.replication.purgatory import (
    OnAppended,
    OnCommitted,
    ParkedAppend,
    ParkedProduce,
    PartitionResult,
    Uncommitted,
    make_response,
)
from insync.replication.state import ReplicationState
from insync.storage.config import NEVER, LogConfig
from insync.wire import batch
from insync.wire.batch import BatchHeader, Bytes
from insync.wire.errors import ErrorCode, Refusal
from insync.wire.messages import produce as messages
from insync.wire.record_check import (
    MAX_RECORDS,
    DecompressionBudget,
    RecordRules,
    check_records,
)
from insync.wire.types import ZERO_UUID, instant, millis

MAX_COMPACTED_RECORDS = 100_000
"""Records in one batch for a compacted topic: compaction reads them one by one."""

NO_ACKS = 0
ACKS_ALL = -1
_NONE = ErrorCode.none


class ProduceServer:
    __slots__ = ("_state",)

    def __init__(self, state: ReplicationState) -> None:
        self._state = state

    def produce(self, request: messages.ProduceRequest, token: int, now: int, *, internal: bool = False) -> None:
        """P1: one response for all partitions, once the last of them is decided. `internal`: may write to any topic."""
        acks, out = request.acks, self._state.out
        results: list[PartitionResult] = []
        uncommitted: list[Uncommitted] = []
        sizes = [len(data.records or b"") for topic in request.topic_data for data in topic.partition_data]
        budget = DecompressionBudget(sum(sizes))
        for topic in request.topic_data:
            topic_id = topic.topic_id
            for data in topic.partition_data:
                result = PartitionResult(topic_id, data.index)
                results.append(result)
                self._append(topic_id, data, acks, result, uncommitted, now, budget, internal=internal)
        if acks == ACKS_ALL:
            self._state.purgatory.park(ParkedProduce(token, now + millis(request.timeout), results), uncommitted)
        elif acks != NO_ACKS:
            out.reply(token, make_response(results))
        else:
            # P1: a producer that wants no response learns of a failure by its connection, and looks up the leader.
            failed = next((result for result in results if result.error is not _NONE), None)
            if failed is None:
                out.reply(token, None)
            else:
                out.hang_up(token, f"acks=0, partition {failed.index}: {failed.error.name}")

    def append(
        self,
        key: PartitionKey,
        batch: bytearray,
        on_done: OnAppended,
        on_committed: OnCommitted,
        deadline: int,
        now: int,
    ) -> None:
        """P1-P3 for the node's own records: they are stored and waited for like those of an acks=all producer."""
        result = PartitionResult(*key)
        uncommitted: list[Uncommitted] = []
        data = messages.PartitionProduceData(index=key[1], records=batch)
        self._append(key[0], data, ACKS_ALL, result, uncommitted, now, DecompressionBudget(len(batch)), internal=True)
        self._state.purgatory.park(ParkedAppend(on_done, on_committed, deadline, result), uncommitted)

    def _append(
        self,
        topic_id: UUID | None,
        data: messages.PartitionProduceData,
        acks: int,
        result: PartitionResult,
        uncommitted: list[Uncommitted],
        now: int,
        budget: DecompressionBudget,
        *,
        internal: bool,
    ) -> None:
        """P2, P4, P5: append the batch of one partition, or set the error in `result` and store nothing."""
        replica = self._state.replicas.get((topic_id or ZERO_UUID, data.index))
        if replica is None:
            result.error = self._state.error_without_replica(topic_id, data.index)
            return
        leader, partition, log = replica.role, replica.partition, replica.log
        if not isinstance(leader, Leader):
            result.error = ErrorCode.not_leader_or_follower
            result.leader_hint = messages.LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
            return
        result.log_start = log.log_start
        if not internal and partition.topic in INTERNAL_TOPICS:
            result.error = ErrorCode.invalid_topic_exception
            return
        if acks not in (ACKS_ALL, NO_ACKS, 1):
            result.error = ErrorCode.invalid_required_acks
            return
        if acks == ACKS_ALL and not leader.has_min_isr():
            result.error = ErrorCode.not_enough_replicas  # P2: append nothing that the producer would have to wait for
            return
        records = data.records or b""
        header = batch.validate_produce(records, log.config.max_message_bytes)
        if isinstance(header, Refusal):
            result.refuse(header)
            return
        if header.producer_id >= 0:
            duplicate = log.producers.check(header)
            if isinstance(duplicate, ErrorCode):
                result.error = duplicate
                return
            if duplicate is not None:
                # P4: a duplicate gets its first offset, and with acks=all waits for it like the first time.
                result.base_offset = duplicate.first_offset
                if log.config.log_append_time:
                    result.append_time = instant(duplicate.timestamp)
                self._state.out.note(
                    "duplicate_produce",
                    partition=partition.name,
                    producer=header.producer_id,
                    base_offset=duplicate.first_offset,
                )
                if log.hwm <= duplicate.last_offset:
                    uncommitted.append((replica.waiting, duplicate.last_offset + 1, result))
                return
        wall = now + self._state.config.wall_offset_ms
        stored = _convert_for_log(log.config, records, header, wall, budget)
        if isinstance(stored, Refusal):
            result.refuse(stored)
            return
        result.base_offset = leader.append(stored, header, now)
        if log.config.log_append_time:
            result.append_time = instant(wall)
        if log.hwm <= header.last_offset:
            uncommitted.append((replica.waiting, header.last_offset + 1, result))


def _convert_for_log(
    config: LogConfig, data: Bytes, header: BatchHeader, wall: int, budget: DecompressionBudget
) -> bytearray | Refusal:
    """P5: the batch as it is stored: its records validated, compressed as the topic's compression.type demands, and
    with the max timestamp of its records. Updates the header accordingly."""
    any_time = config.log_append_time  # records that get the broker's time may have any timestamp
    rules = RecordRules(
        max_message_bytes=config.max_message_bytes,
        max_records=MAX_COMPACTED_RECORDS if config.compacts else MAX_RECORDS,
        earliest=-NEVER if any_time else wall - config.timestamp_before_max_ms,
        latest=NEVER if any_time else wall + config.timestamp_after_max_ms,
        keys=config.compacts,
    )
    checked = check_records(data, header, rules, budget)
    if isinstance(checked, Refusal):
        return checked
    codec, max_timestamp = config.compression, checked.max_timestamp
    stored = bytearray(data)
    if (codec is None or header.codec == codec) and header.max_timestamp == max_timestamp:
        return stored
    if codec is not None and header.codec != codec:
        payload = bytes(data[batch.HEADER_SIZE :]) if checked.payload is None else checked.payload
        recompressed = batch.recompressed(data, header, payload, codec, config.max_message_bytes)
        if isinstance(recompressed, Refusal):
            return recompressed
        stored = recompressed
    batch.set_max_timestamp(stored, max_timestamp)
    new = batch.read_header(stored)
    header.length, header.attributes, header.crc = new.length, new.attributes, new.crc
    header.max_timestamp = max_timestamp
    return stored
