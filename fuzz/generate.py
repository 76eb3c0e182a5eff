"""Encoded messages of any schema with extreme values.

They are generated from the schema alone, so that they also have values that the entity classes would refuse (a duration
of 292 million years, an unknown error code, a null that is not allowed).
"""

from __future__ import annotations

from dataclasses import Field, fields
from random import Random
from struct import pack
from typing import Any, get_origin

from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional

from fuzz.mutate import mutate_bytes, number, varint
from insync.wire import batch

_BITS = {
    "int8": 8,
    "int16": 16,
    "uint16": 16,
    "error_code": 16,
    "int32": 32,
    "uint32": 32,
    "timedelta_i32": 32,
    "int64": 64,
    "uint64": 64,
    "timedelta_i64": 64,
    "datetime_i64": 64,
    "float64": 64,
}
_CODES = {8: ">b", 16: ">h", 32: ">i", 64: ">q"}
_LIKELY_BYTES = (0, 1, 2, 2, 3, 4, -1)
_LIKELY = (0, 0, 0, 1, 1, 1, 2, -1, 3, 5, 100, 1_000, 30_000)

DEEPEST = 6


class Pool:
    """The values to choose from: names and ids that exist in the target.

    `special` has texts for fields that would seldom be valid otherwise, by (class, field).
    """

    def __init__(
        self,
        *,
        texts: tuple[str, ...],
        uuids: tuple[bytes, ...],
        blobs: tuple[bytes, ...],
        special: dict[tuple[str, str], tuple[str, ...]] | None = None,
    ) -> None:
        self.texts = texts
        self.uuids = uuids
        self.blobs = blobs
        self.special = special or {}

    def texts_for(self, owner: str, field: str) -> tuple[str, ...]:
        return self.special.get((owner, field), self.texts)


def entity(entity_type: Any, pool: Pool, rng: Random, depth: int = 0) -> bytes:
    out = bytearray()
    flexible: bool = entity_type.__flexible__
    for field in fields(entity_type):
        if "tag" not in field.metadata:
            out += _field(entity_type, field, flexible, pool, rng, depth)
    if flexible:
        out += _tags(entity_type, pool, rng, depth)
    return bytes(out)


def request(request_type: Any, pool: Pool, rng: Random) -> bytes:
    """A whole frame, without its length."""
    head = pack(">hhi", request_type.__api_key__, request_type.__version__, rng.randrange(1 << 31))
    head += rng.choice((b"\xff\xff", b"\x00\x00", b"\x00\x01c"))
    tags = b"\x00" if request_type.__header_schema__.__flexible__ else b""
    return head + tags + entity(request_type, pool, rng)


def response(request_type: Any, response_type: Any, pool: Pool, rng: Random) -> bytes:
    tags = b"\x00" if response_type.__header_schema__.__flexible__ else b""
    return pack(">i", rng.randrange(1 << 31)) + tags + entity(response_type, pool, rng)


def _tags(entity_type: Any, pool: Pool, rng: Random, depth: int) -> bytes:
    chosen = [(f.metadata["tag"], f) for f in fields(entity_type) if "tag" in f.metadata and rng.random() < 0.4]
    parts = [(tag, _field(entity_type, field, True, pool, rng, depth)) for tag, field in chosen]
    if rng.random() < 0.03:
        parts.append((rng.choice((5, 99, 2**31 - 1)), rng.randbytes(rng.randrange(9))))
    out = bytearray(varint(len(parts)))
    for tag, value in parts:
        out += varint(tag) + varint(len(value)) + value
    return bytes(out)


def _field(owner: Any, field: Field[Any], flexible: bool, pool: Pool, rng: Random, depth: int) -> bytes:
    kind = classify_field(field)
    if kind.is_array:
        return _array(owner, field, kind, flexible, pool, rng, depth)
    if isinstance(kind, EntityField):
        value = entity(kind.type_, pool, rng, depth + 1)
        if is_optional(field) and "tag" not in field.metadata:
            return b"\xff" if rng.random() < 0.3 else b"\x01" + value
        return value
    return _primitive(owner, field, flexible, pool, rng)


def _array(owner: Any, field: Field[Any], kind: Any, flexible: bool, pool: Pool, rng: Random, depth: int) -> bytes:
    nullable = get_origin(field.type) is not tuple
    if rng.random() < (0.2 if nullable else 0.005):
        return b"\x00" if flexible else b"\xff\xff\xff\xff"
    count = 0 if depth >= DEEPEST else rng.choice((0, 1, 1, 1, 2, 3))
    items = [_item(owner, field, kind, flexible, pool, rng, depth) for _ in range(count)]
    if items and rng.random() < 0.1:
        items.append(items[0])  # the same twice
    size = varint(len(items) + 1) if flexible else pack(">i", len(items))
    return size + b"".join(items)


def _item(owner: Any, field: Field[Any], kind: Any, flexible: bool, pool: Pool, rng: Random, depth: int) -> bytes:
    if isinstance(kind, EntityTupleField):
        return entity(kind.type_, pool, rng, depth + 1)
    return _primitive(owner, field, flexible, pool, rng)


def _primitive(owner: Any, field: Field[Any], flexible: bool, pool: Pool, rng: Random) -> bytes:
    name = field.metadata["kafka_type"]
    if name == "bool":
        return b"\x02" if rng.random() < 0.01 else rng.choice((b"\x00", b"\x01"))
    if name == "uuid":
        return rng.choice(pool.uuids)
    if name in _BITS:
        bits = _BITS[name]
        likely = _LIKELY_BYTES if bits == 8 else _LIKELY
        return pack(_CODES[bits], rng.choice(likely) if rng.random() < 0.8 else number(rng, bits))
    return _sized(owner, field, flexible, pool, rng)


def _sized(owner: Any, field: Field[Any], flexible: bool, pool: Pool, rng: Random) -> bytes:
    name = field.metadata["kafka_type"]
    if rng.random() < (0.2 if is_optional(field) else 0.005):
        return b"\x00" if flexible else b"\xff\xff" if name == "string" else b"\xff\xff\xff\xff"
    data = _text(pool.texts_for(owner.__name__, field.name), rng) if name == "string" else _blob(name, pool, rng)
    if flexible:
        return varint(len(data) + 1) + data
    return pack(">h", len(data[:30_000])) + data[:30_000] if name == "string" else pack(">i", len(data)) + data


def _text(texts: tuple[str, ...], rng: Random) -> bytes:
    if rng.random() < 0.94:
        return rng.choice(texts).encode()
    odd = ("", "\x00", "a" * 300, "../../etc", "ü" * 100, "t-0", ".", "²", "٣", "1" * 5_000, "a" * 40_000)
    return b"\xff\xfe" if rng.random() < 0.05 else rng.choice(odd).encode()


def _blob(name: str, pool: Pool, rng: Random) -> bytes:
    if name == "records":
        made = bytes(random_batch(rng))
        return mutate_bytes(made, rng) if rng.random() < 0.2 else made
    return rng.choice(pool.blobs) if rng.random() < 0.8 else rng.randbytes(rng.randrange(40))


def random_batch(rng: Random) -> bytearray:
    """A sound batch of a client with arbitrary numbers."""
    keys = (b"k", b"", None)
    records = [batch.NewRecord(rng.choice(keys), rng.choice((b"v" * 20, None))) for _ in range(rng.randrange(1, 4))]
    producer = rng.choice((-1, -1, 0, 1, 2**63 - 1))
    return batch.build(
        records,
        timestamp_ms=rng.choice((0, 1_000, -1, 2**62)),
        producer_id=producer,
        producer_epoch=rng.choice((0, 1, 32_767, -1)),
        base_sequence=rng.choice((0, 0, 1, 2**31 - 1)) if producer >= 0 else -1,
        compression=rng.choice(("none", "none", "gzip", "snappy", "lz4", "zstd")),
        transactional=rng.random() < 0.05,
        control=rng.random() < 0.05,
    )
