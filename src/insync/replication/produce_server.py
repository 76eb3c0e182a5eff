"""Producing (P1-P5): check the batch, pass the MinISR gate, append, and answer now or when the high watermark passes.

Notes: duplicate_produce(partition, producer, base_offset).
"""

from __future__ import annotations

from uuid import UUID

from insync.metadata.partition import PartitionKey
from insync.metadata.topic_names import is_internal
from insync.replication.core import Core
from insync.replication.fetch_server import unhosted
from insync.replication.leader import Leader
from insync.replication.purgatory import (
    OnAppended,
    OnCommitted,
    ParkedAppend,
    ParkedProduce,
    PartitionAnswer,
    Waiter,
    response,
)
from insync.replication.replica import Replica
from insync.storage.config import NEVER, LogConfig
from insync.storage.producer_state import Duplicate
from insync.wire import batch
from insync.wire.batch import BatchHeader, Bytes
from insync.wire.errors import ErrorCode, Refusal
from insync.wire.messages import produce as messages
from insync.wire.record_check import (
    MAX_RECORDS,
    DecompressionBudget,
    RecordRules,
    check_records,
    max_uncompressed,
)
from insync.wire.types import instant, millis

MAX_KEYS = 100_000
"""Records of one batch for a compacted topic: compaction looks at them one by one."""

NO_ACKS = 0
ACKS_ALL = -1
_NONE = ErrorCode.none
_INVALID_TOPIC = ErrorCode.invalid_topic_exception


class ProduceServer:
    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def produce(self, request: messages.ProduceRequest, token: int, now: int, *, internal: bool = False) -> None:
        """P1: one answer for all partitions, once the last of them is decided. `internal`: may write to any topic."""
        acks = request.acks
        answers: list[PartitionAnswer] = []
        appended: list[tuple[Replica, int, PartitionAnswer]] = []
        sizes = [len(data.records or b"") for topic in request.topic_data for data in topic.partition_data]
        budget = DecompressionBudget(sum(sizes))
        for topic in request.topic_data:
            topic_id = topic.topic_id
            for data in topic.partition_data:
                answer = PartitionAnswer(topic_id, data.index)
                answers.append(answer)
                self._append(topic_id, data, acks, answer, appended, now, budget, internal=internal)
        if acks == NO_ACKS:
            self._without_answer(answers, token)
        elif acks == ACKS_ALL and appended:
            self._await(ParkedProduce(token, now + millis(request.timeout), answers), appended)
        else:
            self._core.out.reply(token, response(answers))

    def _without_answer(self, answers: list[PartitionAnswer], token: int) -> None:
        """P1: a producer that wants no answer notices a failure by its connection, and asks who leads."""
        failed = [answer for answer in answers if answer.error is not _NONE]
        if failed:
            self._core.out.hang_up(token, f"acks=0, partition {failed[0].index}: {failed[0].error.name}")
        else:
            self._core.out.reply(token, None)

    def append(
        self,
        key: PartitionKey,
        batch: bytearray,
        on_done: OnAppended,
        on_committed: OnCommitted,
        deadline: int,
        now: int,
    ) -> None:
        """P1-P3 for the node's own records: they are stored and waited for like an acks=all producer's."""
        answer = PartitionAnswer(*key)
        appended: list[tuple[Replica, int, PartitionAnswer]] = []
        data = messages.PartitionProduceData(index=key[1], records=batch)
        budget = DecompressionBudget(len(batch))
        self._append(key[0], data, ACKS_ALL, answer, appended, now, budget, internal=True)
        parked = ParkedAppend(on_done, on_committed, deadline, answer)
        waiters = [
            Waiter(replica, required, answer, parked) for replica, required, _ in appended if replica.log.hwm < required
        ]
        if waiters:
            self._core.purgatory.park(parked, waiters)
            return
        if appended:
            parked.commit(self._core.purgatory)
        parked.finish(self._core.purgatory)

    def _append(
        self,
        topic_id: UUID | None,
        data: messages.PartitionProduceData,
        acks: int,
        answer: PartitionAnswer,
        appended: list[tuple[Replica, int, PartitionAnswer]],
        now: int,
        budget: DecompressionBudget,
        *,
        internal: bool,
    ) -> None:
        replica = self._core.replicas.get((topic_id, data.index))  # type: ignore[arg-type]
        if replica is None:
            answer.error = unhosted(self._core, topic_id, data.index)
            return
        leader = replica.role
        if not isinstance(leader, Leader):
            answer.error = ErrorCode.not_leader_or_follower
            answer.leader_hint = _hint(replica)
            return
        answer.log_start = replica.log.log_start
        error = acks_error(leader, acks) if internal or not is_internal(replica.partition.topic) else _INVALID_TOPIC
        if error is not _NONE:
            answer.error = error
            return
        next_offset = self._write(leader, data.records, answer, now, budget)
        if next_offset is not None:
            appended.append((replica, next_offset, answer))

    def _write(
        self, leader: Leader, records: Bytes | None, answer: PartitionAnswer, now: int, budget: DecompressionBudget
    ) -> int | None:
        """P5, P4: the offset that the high watermark has to reach, or None: refused, nothing of it is stored."""
        log = leader.replica.log
        data = records or b""
        header = batch.validate_produce(data, log.config.max_message_bytes)
        if isinstance(header, Refusal):
            answer.refuse(header)
            return None
        if header.producer_id >= 0:
            known = log.producers.check(header)
            if isinstance(known, ErrorCode):
                answer.error = known
                return None
            if known is not None:
                return self._acknowledge_again(leader, header, known, answer)
        wall = now + self._core.config.wall_offset_ms
        stored = self._as_stored(log.config, data, header, wall, budget)
        if isinstance(stored, Refusal):
            answer.refuse(stored)
            return None
        answer.base_offset = leader.append(stored, header, now)
        if log.config.log_append_time:
            answer.append_time = instant(wall)
        return answer.base_offset + header.last_offset_delta + 1

    def _as_stored(
        self, config: LogConfig, data: Bytes, header: BatchHeader, wall: int, budget: DecompressionBudget
    ) -> bytearray | Refusal:
        """P5: the batch as it goes into the log: its records checked, in the topic's compression.type if it has one,
        and with the max timestamp that its records have. The header is made to fit."""
        checked = check_records(data, header, self.record_rules(config, wall), budget)
        if isinstance(checked, Refusal):
            return checked
        codec, max_timestamp = config.compression, checked.max_timestamp
        if (codec is None or header.codec == codec) and header.max_timestamp == max_timestamp:
            return bytearray(data)
        stored = bytearray(data)
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

    def record_rules(self, config: LogConfig, wall: int) -> RecordRules:
        """What the topic demands of each record. Records that get the broker's time may bring any."""
        any_time = config.log_append_time
        return RecordRules(
            max_uncompressed=max_uncompressed(config.max_message_bytes),
            max_records=MAX_KEYS if config.compacts else MAX_RECORDS,
            earliest=-NEVER if any_time else wall - config.timestamp_before_max_ms,
            latest=NEVER if any_time else wall + config.timestamp_after_max_ms,
            keys=config.compacts,
        )

    def _acknowledge_again(
        self, leader: Leader, header: BatchHeader, known: Duplicate, answer: PartitionAnswer
    ) -> int | None:
        """P4: a duplicate gets its first offset, and with acks=all waits for it like the first time."""
        answer.base_offset = known.first_offset
        if leader.replica.log.config.log_append_time:
            answer.append_time = instant(known.timestamp)
        name = leader.replica.partition.name
        self._core.out.note(
            "duplicate_produce", partition=name, producer=header.producer_id, base_offset=known.first_offset
        )
        return known.last_offset + 1

    def _await(self, parked: ParkedProduce, appended: list[tuple[Replica, int, PartitionAnswer]]) -> None:
        """H5: appends that the high watermark has passed already are done; the others wait for it."""
        waiters = [
            Waiter(replica, required, answer, parked)
            for replica, required, answer in appended
            if replica.log.hwm < required
        ]
        if waiters:
            self._core.purgatory.park(parked, waiters)
        else:
            self._core.out.reply(parked.token, response(parked.answers))


def acks_error(leader: Leader, acks: int) -> ErrorCode:
    if acks == ACKS_ALL:
        return _NONE if enough_for_acks_all(len(leader.state.isr), leader.min_isr) else ErrorCode.not_enough_replicas
    return _NONE if acks in (NO_ACKS, 1) else ErrorCode.invalid_required_acks


def enough_for_acks_all(isr_size: int, min_isr: int) -> bool:
    """P2: below MinISR nothing is appended that the producer would have to wait for."""
    return isr_size >= min_isr


def _hint(replica: Replica) -> messages.LeaderIdAndEpoch:
    partition = replica.partition
    return messages.LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
