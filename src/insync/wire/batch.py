"""Record batches of format 2: the 61-byte header, the CRC, and the records inside.

    0 base offset (8)     8 batch length (4)   12 leader epoch (4)   16 magic (1)         17 crc (4)
    21 attributes (2)    23 last offset delta  27 base timestamp     35 max timestamp     43 producer id (8)
    51 producer epoch    53 base sequence (4)  57 record count (4)   61 records, compressed as a whole

The batch length counts from byte 12. CRC-32C covers byte 21 to the end, so that a broker can set the base offset and
the leader epoch in place without a new CRC (W13). Attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5
control.

A record is its length, then attributes (unused), timestamp and offset as deltas to the batch's, key, value and headers,
each with its length, -1 for null; all numbers are zigzag varints. Brokers move whole batches and decode no record
(`record_check` checks them); clients, tests and the metadata log do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from insync.wire import compression as codecs
from insync.wire.errors import ErrorCode, MalformedBatchError, Refusal

Bytes = bytes | bytearray | memoryview
Headers = Sequence[tuple[str, bytes | None]]

HEADER_SIZE = 61
MAGIC = 2
MOST_RECOMPRESSED = 1 << 24
"""A batch with more uncompressed bytes is not recompressed: the event loop would wait for it."""

_LENGTH_FROM = 12
_CRC_AT = 17
_CRC_FROM = 21
_MAGIC_AT = 16
_MAX_TIMESTAMP_AT = 35

_CODEC_MASK = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20

_HEADER = Struct(">qiibIhiqqqhii")
_BODY = Struct(">hiqqqhii")
_I64 = Struct(">q")
_I32 = Struct(">i")
_U32 = Struct(">I")
_I16 = Struct(">h")


class BatchHeader:
    """One batch's header. Mutable: code that stamps a batch sets `base_offset` and `leader_epoch` here too."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        count: int,
    ) -> None:
        self.base_offset = base_offset
        self.length = batch_length + _LENGTH_FROM  # all bytes of the batch
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.count = count

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2**31 - 1 to 0; -1 where there are none."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & _LOG_APPEND_TIME != 0

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC_MASK

    @property
    def compression(self) -> str:
        return codecs.NAMES[self.codec] if self.codec < len(codecs.NAMES) else "unknown"

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"BatchHeader({fields})"


def read_header(buf: Bytes, pos: int = 0) -> BatchHeader:
    """The header at `pos`, unchecked; there must be 61 bytes."""
    return BatchHeader(*_HEADER.unpack_from(buf, pos))


def iter_headers(buf: Bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch; stops at one that is cut off or has an impossible length."""
    pos, end = 0, len(buf)
    while pos + HEADER_SIZE <= end:
        header = BatchHeader(*_HEADER.unpack_from(buf, pos))
        following = pos + header.length
        if header.length < HEADER_SIZE or following > end:
            return
        yield pos, header
        pos = following


def crc_ok(buf: Bytes, pos: int, header: BatchHeader) -> bool:
    """P5: the bytes are those that were written."""
    crc: int = crc32c(memoryview(buf)[pos + _CRC_FROM : pos + header.length])
    return crc == header.crc


def crc_of(buf: Bytes, pos: int, header: BatchHeader) -> int:
    """The CRC of the current bytes; the header's may differ."""
    crc: int = crc32c(memoryview(buf)[pos + _CRC_FROM : pos + header.length])
    return crc


def stamp(buf: bytearray, base_offset: int, leader_epoch: int, pos: int = 0) -> None:
    """Set the leader's fields of a batch in place; both are outside the CRC."""
    _I64.pack_into(buf, pos, base_offset)
    _I32.pack_into(buf, pos + 12, leader_epoch)


def set_log_append_time(buf: bytearray, now_ms: int, pos: int = 0) -> None:
    """message.timestamp.type=LogAppendTime: the batch gets the broker's time, and a new CRC."""
    (attributes,) = _I16.unpack_from(buf, pos + _CRC_FROM)
    (batch_length,) = _I32.unpack_from(buf, pos + 8)
    _I16.pack_into(buf, pos + _CRC_FROM, attributes | _LOG_APPEND_TIME)
    _I64.pack_into(buf, pos + _MAX_TIMESTAMP_AT, now_ms)
    _U32.pack_into(buf, pos + _CRC_AT, crc32c(memoryview(buf)[pos + _CRC_FROM : pos + _LENGTH_FROM + batch_length]))


def set_max_timestamp(buf: bytearray, max_timestamp: int, pos: int = 0) -> None:
    """Correct a wrong maximum in the header, as Apache Kafka does; the CRC changes with it."""
    (batch_length,) = _I32.unpack_from(buf, pos + 8)
    _I64.pack_into(buf, pos + _MAX_TIMESTAMP_AT, max_timestamp)
    _U32.pack_into(buf, pos + _CRC_AT, crc32c(memoryview(buf)[pos + _CRC_FROM : pos + _LENGTH_FROM + batch_length]))


def recompressed(buf: Bytes, header: BatchHeader, payload: bytes, codec: int, max_bytes: int) -> bytearray | Refusal:
    """compression.type: the batch in another codec, with its new length and CRC, or why it is refused.

    `payload`: its records, uncompressed.
    """
    if len(payload) > MOST_RECOMPRESSED:
        return Refusal(
            ErrorCode.message_too_large,
            f"The record batch has {len(payload)} bytes uncompressed, more than the {MOST_RECOMPRESSED} that a broker "
            "compresses. Send smaller batches, or in the topic's compression.type.",
        )
    batch = bytearray(memoryview(buf)[:HEADER_SIZE])
    batch += codecs.compress(codec, payload)
    _I32.pack_into(batch, 8, len(batch) - _LENGTH_FROM)
    _I16.pack_into(batch, _CRC_FROM, (header.attributes & ~_CODEC_MASK) | codec)
    _U32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    return batch if len(batch) <= max_bytes else _too_large(len(batch), max_bytes)


def validate_produce(buf: Bytes, max_bytes: int) -> BatchHeader | Refusal:
    """P5: the header, if header and CRC are those of exactly one batch that a client may write; else why not."""
    size = len(buf)
    if size < HEADER_SIZE:
        return _too_short(buf)
    header = BatchHeader(*_HEADER.unpack_from(buf, 0))
    if header.magic != MAGIC:
        return _wrong_magic(header.magic)
    if header.length != size:
        return _wrong_length(header.length, size)
    if size > max_bytes:
        return _too_large(size, max_bytes)
    if not crc_ok(buf, 0, header):
        return Refusal(
            ErrorCode.corrupt_message, f"The CRC of the record batch is not {header.crc}, the value in its header."
        )
    if not client_may_write(header):
        return Refusal(ErrorCode.invalid_record, _why_clients_may_not_write(header))
    return header


def client_may_write(header: BatchHeader) -> bool:
    """P5: offsets 0 to count - 1 without gaps, a known codec, and a sequence if the producer has an identity.

    Only brokers write control batches and append times.
    """
    count = header.count
    attributes = header.attributes
    return (
        count > 0
        and header.last_offset_delta == count - 1
        and header.base_offset == 0
        and attributes & (_CONTROL | _LOG_APPEND_TIME) == 0
        and attributes & _CODEC_MASK <= codecs.ZSTD
        and (header.producer_id < 0 or header.base_sequence >= 0)
    )


def _why_clients_may_not_write(header: BatchHeader) -> str:
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        return f"The record batch has {header.count} records and a last offset delta of {header.last_offset_delta}."
    if header.base_offset != 0:
        return f"The base offset of a produced record batch is 0, not {header.base_offset}."
    if header.is_control:
        return "Clients are not allowed to write control records."
    if header.is_log_append_time:
        return "Clients are not allowed to set the timestamp type LogAppendTime."
    if header.codec > codecs.ZSTD:
        return f"There is no compression type {header.codec}."
    return f"The record batch of producer {header.producer_id} has the sequence number {header.base_sequence}."


def _too_large(size: int, max_bytes: int) -> Refusal:
    return Refusal(
        ErrorCode.message_too_large,
        f"The record batch has {size} bytes; max.message.bytes of the topic is {max_bytes}.",
    )


def _too_short(buf: Bytes) -> Refusal:
    if len(buf) == 0:
        return Refusal(ErrorCode.invalid_record, "There is no record batch.")
    if len(buf) > _MAGIC_AT and buf[_MAGIC_AT] in (0, 1):
        return _wrong_magic(buf[_MAGIC_AT])
    return Refusal(ErrorCode.corrupt_message, f"A record batch has at least {HEADER_SIZE} bytes, not {len(buf)}.")


def _wrong_magic(magic: int) -> Refusal:
    error = ErrorCode.unsupported_for_message_format if magic in (0, 1) else ErrorCode.corrupt_message
    return Refusal(error, f"The record batch has magic {magic}; only format {MAGIC} is supported.")


def _wrong_length(length: int, size: int) -> Refusal:
    """Bytes after a whole batch are a second batch, which clients may not send; anything else is damage."""
    if HEADER_SIZE <= length < size:
        return Refusal(ErrorCode.invalid_record, "A produce request has exactly one record batch per partition.")
    return Refusal(ErrorCode.corrupt_message, f"The record batch has {size} bytes; its header says {length}.")


# --- records ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be written; without a timestamp it takes the batch's."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read back."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def build(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: str = "none",
    control: bool = False,
    transactional: bool = False,
) -> bytearray:
    """A whole batch. Records without a timestamp get `timestamp_ms`."""
    if not records:
        raise ValueError("a batch has at least one record")
    codec = codecs.NAMES.index(compression)
    stamps = [timestamp_ms if record.timestamp_ms is None else record.timestamp_ms for record in records]
    attributes = codec | (_TRANSACTIONAL if transactional else 0) | (_CONTROL if control else 0)
    last = len(records) - 1
    batch = bytearray(_CRC_FROM)
    batch += _BODY.pack(
        attributes, last, stamps[0], max(stamps), producer_id, producer_epoch, base_sequence, len(records)
    )
    payload = bytearray()
    for index, record in enumerate(records):
        append_record(payload, index, stamps[index] - stamps[0], record)
    batch += codecs.compress(codec, bytes(payload))
    _I32.pack_into(batch, 8, len(batch) - _LENGTH_FROM)
    batch[_MAGIC_AT] = MAGIC
    _U32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    stamp(batch, base_offset, leader_epoch)
    return batch


def records(buf: Bytes, pos: int = 0) -> Iterator[Record]:
    """The records of the batch at `pos`; MalformedBatchError if they cannot be decoded. The caller checks the CRC."""
    header = read_header(buf, pos)
    if not HEADER_SIZE <= header.length <= len(buf) - pos:
        raise MalformedBatchError(f"batch of {header.length} bytes in {len(buf) - pos} bytes")
    payload = codecs.decompress(
        header.attributes & _CODEC_MASK, bytes(memoryview(buf)[pos + HEADER_SIZE : pos + header.length])
    )
    at = 0
    try:
        for _ in range(header.count):
            length, at = read_varint(payload, at)
            end = at + length
            if length < 0 or end > len(payload):
                raise MalformedBatchError(f"record of {length} bytes at {at} reaches past the end")
            yield _read_record(payload, at, end, header)
            at = end
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedBatchError("record ends early or has a header name that is not UTF-8") from error
    if at != len(payload):
        raise MalformedBatchError(f"{len(payload) - at} bytes follow the last of {header.count} records")


def _read_record(payload: bytes, pos: int, end: int, header: BatchHeader) -> Record:
    timestamp_delta, pos = read_varint(payload, pos + 1)
    offset_delta, pos = read_varint(payload, pos)
    key, pos = _read_bytes(payload, pos, end)
    value, pos = _read_bytes(payload, pos, end)
    count, pos = read_varint(payload, pos)
    if not 0 <= count <= end - pos:
        raise MalformedBatchError(f"record with {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, pos = _read_bytes(payload, pos, end)
        header_value, pos = _read_bytes(payload, pos, end)
        if name is None:
            raise MalformedBatchError("header without a name")
        headers.append((name.decode(), header_value))
    if pos != end:
        raise MalformedBatchError(f"fields of a record end at {pos}, its length says {end}")
    timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers))


def _read_bytes(payload: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(payload, pos)
    if length < 0:
        return None, pos
    stop = pos + length
    if stop > end:
        raise MalformedBatchError(f"field of {length} bytes at {pos} reaches past its record")
    return payload[pos:stop], stop


def append_record(out: bytearray, offset_delta: int, timestamp_delta: int, record: NewRecord) -> None:
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, value)
    append_varint(out, len(body))
    out += body


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # zigzag of -1
    else:
        append_varint(out, len(data))
        out += data


def append_varint(out: bytearray, value: int) -> None:
    """Zigzag, seven bits per byte, lowest first; up to 64 bits."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varint(payload: bytes, pos: int) -> tuple[int, int]:
    """(value, position after it); IndexError past the end."""
    byte = payload[pos]
    pos += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > 63:
            raise MalformedBatchError("varint of more than ten bytes")
        byte = payload[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), pos
