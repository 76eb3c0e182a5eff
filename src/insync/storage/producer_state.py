"""P4: what a log knows of its idempotent producers, so that a batch sent twice is stored once.

For each producer id: its epoch and its last five batches. A batch with the epoch and the sequence range of one of these
is a duplicate; the answer has the offsets that it got the first time. Otherwise its epoch must not be lower, and its
first sequence must follow the last one; a new epoch starts at 0. An unknown producer (new, expired, or with its records
deleted) may start anywhere. Sequences wrap from 2**31 - 1 to 0.

The state is a function of the log and is rebuilt from batch headers. Kafka's snapshot files (`<offset>.snapshot`, the
state before that offset) save most of the reading; they have only each producer's last batch. Producers that did not
write for long are forgotten, and if there are too many, those that wrote longest ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from insync.wire.batch import BatchHeader
from insync.wire.errors import ErrorCode

BATCHES_KEPT = 5
MAX_PRODUCERS = 10_000
"""In one log. Clients can invent producer ids; above this number, those that wrote longest ago are forgotten."""
SNAPSHOT_VERSION = 1

_MAX_SEQUENCE = 0x7FFFFFFF
_PREFIX = Struct(">hIi")  # version, crc, count
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = 6


class Duplicate:
    """The batch is in the log already, at these offsets."""

    __slots__ = ("first_offset", "last_offset", "timestamp")

    def __init__(self, first_offset: int, last_offset: int, timestamp: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.timestamp = timestamp

    def __repr__(self) -> str:
        return f"Duplicate({self.first_offset}..{self.last_offset})"


class Producer:
    """`batches`: (first sequence, last sequence, first offset, last offset, timestamp), oldest first."""

    __slots__ = ("batches", "epoch", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.timestamp = -1
        self.batches: deque[tuple[int, int, int, int, int]] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1][3] if self.batches else -1


class ProducerStates:
    __slots__ = ("producers",)

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}

    def check(self, header: BatchHeader) -> Duplicate | ErrorCode | None:
        """Check a client's batch before it is appended: None means append it."""
        if header.producer_id < 0:
            return None
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return None
        return self.find_duplicate(producer, header) or self.check_sequence(producer, header)

    def find_duplicate(self, producer: Producer, header: BatchHeader) -> Duplicate | None:
        if producer.epoch != header.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if batch[0] == first and batch[1] == last:
                return Duplicate(batch[2], batch[3], batch[4])
        return None

    def check_sequence(self, producer: Producer, header: BatchHeader) -> ErrorCode | None:
        if header.producer_epoch < producer.epoch:
            return ErrorCode.invalid_producer_epoch
        if header.producer_epoch > producer.epoch:
            return None if header.base_sequence == 0 else ErrorCode.out_of_order_sequence_number
        expected = (producer.last_sequence + 1) & _MAX_SEQUENCE
        return None if header.base_sequence == expected else ErrorCode.out_of_order_sequence_number

    def update(self, header: BatchHeader) -> None:
        """Take note of a batch that is in the log, at the offsets in its header."""
        if header.producer_id < 0:
            return
        producer = self.producers.get(header.producer_id)
        if producer is None:
            if len(self.producers) >= MAX_PRODUCERS:
                self.evict_oldest()
            producer = self.producers[header.producer_id] = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.timestamp = header.max_timestamp
        if not header.is_control:
            producer.batches.append(
                (
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.last_offset,
                    header.max_timestamp,
                )
            )

    def evict_oldest(self) -> None:
        """By offset and not by time, so that every replica of the log forgets the same producers."""
        oldest_first = sorted(self.producers, key=lambda key: self.producers[key].last_offset)
        for key in oldest_first[: MAX_PRODUCERS // 10]:
            del self.producers[key]

    def rebuild(self, headers: Iterable[BatchHeader]) -> None:
        for header in headers:
            self.update(header)

    def depends_on(self, offset: int) -> bool:
        """Whether a batch at or after `offset` is part of the state."""
        return any(producer.last_offset >= offset for producer in self.producers.values())

    def expire(self, now: int, expiration_ms: int) -> None:
        """Forget the producers whose last batch is older than `expiration_ms`."""
        old = [key for key, producer in self.producers.items() if now - producer.timestamp >= expiration_ms]
        for key in old:
            del self.producers[key]

    def encode(self) -> bytes:
        """Kafka's ProducerSnapshot, version 1, without transactions."""
        data = bytearray(_PREFIX.pack(SNAPSHOT_VERSION, 0, len(self.producers)))
        for key, producer in self.producers.items():
            first, last = producer.batches[-1][2:4] if producer.batches else (-1, -1)
            data += _ENTRY.pack(
                key, producer.epoch, producer.last_sequence, last, last - first, producer.timestamp, -1, -1
            )
        _PREFIX.pack_into(data, 0, SNAPSHOT_VERSION, crc32c(memoryview(data)[_CRC_FROM:]), len(self.producers))
        return bytes(data)


def decode_snapshot(data: bytes) -> ProducerStates | None:
    """The state in a snapshot file; None if it is damaged."""
    if len(data) < _PREFIX.size:
        return None
    version, crc, count = _PREFIX.unpack_from(data)
    whole = len(data) == _PREFIX.size + count * _ENTRY.size
    if version != SNAPSHOT_VERSION or not whole or crc != crc32c(memoryview(data)[_CRC_FROM:]):
        return None
    states = ProducerStates()
    for at in range(count):
        _load(states, *_ENTRY.unpack_from(data, _PREFIX.size + at * _ENTRY.size))
    return states


def _load(
    states: ProducerStates,
    key: int,
    epoch: int,
    sequence: int,
    offset: int,
    delta: int,
    timestamp: int,
    _coordinator_epoch: int,
    _transaction_start: int,
) -> None:
    producer = states.producers[key] = Producer(epoch)
    producer.timestamp = timestamp
    if offset >= 0:
        first_sequence = (sequence - delta) & _MAX_SEQUENCE
        producer.batches.append((first_sequence, sequence, offset - delta, offset, timestamp))
