"""Requests of every API with one extreme value each, generated from the schema: all of them, not a random sample.

`frames` writes a plausible request once for every leaf of its schema and every extreme value of that leaf's type, and
once for every extreme with all numbers at it. Lists have one entry, or some thousand equal ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from struct import pack
from typing import Any

from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional

from fuzz.mutate import varint
from insync.wire import batch

BITS = {
    "int8": 8, "int16": 16, "uint16": 16, "error_code": 16, "int32": 32, "uint32": 32, "timedelta_i32": 32,
    "int64": 64, "uint64": 64, "timedelta_i64": 64, "datetime_i64": 64, "float64": 64,
}  # fmt: skip
CODES = {8: ">b", 16: ">h", 32: ">i", 64: ">q"}
LONG = b"x" * 32_000
TEXTS = (b"", LONG, b"a\nb\x1b[2J", b"../..")
BLOBS = (b"", LONG * 10, b"\x00\x00\x7f\xff\xff\xff")
MANY = 3_000

Base = Mapping[str, Any]
"""A value for each field name with which a request is plausible."""


def extremes(bits: int) -> tuple[int, ...]:
    most = (1 << (bits - 1)) - 1
    return (-most - 1, -2, -1, most) if bits > 8 else (-most - 1, most)


class _Writer:
    """Writes one request; the leaf number `target` becomes `value`, and so does every number if `target` is -1."""

    def __init__(self, base: Base, target: int | None = None, value: Any = None, many: int | None = None) -> None:
        self.base = base
        self.target = target
        self.value = value
        self.many = many
        self.leaves: list[str] = []
        self.arrays = 0

    def entity(self, entity_type: Any) -> bytes:
        out = bytearray()
        tagged = []
        for field in fields(entity_type):
            if "tag" in field.metadata:
                tagged.append((field.metadata["tag"], self.field(field, True)))
            else:
                out += self.field(field, entity_type.__flexible__)
        if entity_type.__flexible__:
            out += varint(len(tagged))
            for tag, data in tagged:
                out += varint(tag) + varint(len(data)) + data
        return bytes(out)

    def field(self, field: Field[Any], flexible: bool) -> bytes:
        kind = classify_field(field)
        if kind.is_array:
            item = self.entity(kind.type_) if isinstance(kind, EntityTupleField) else self.leaf(field, flexible)
            count = MANY if self.many == self.arrays else 1
            self.arrays += 1
            return (varint(count + 1) if flexible else pack(">i", count)) + item * count
        if isinstance(kind, EntityField):
            value = self.entity(kind.type_)
            return b"\x01" + value if is_optional(field) and "tag" not in field.metadata else value
        return self.leaf(field, flexible)

    def leaf(self, field: Field[Any], flexible: bool) -> bytes:
        name = field.metadata["kafka_type"]
        at = len(self.leaves)
        self.leaves.append(name)
        chosen = self.target == at
        if name in BITS:
            bits = BITS[name]
            value = self.base.get(field.name, 0)
            if chosen or self.target == -1:
                value = max(min(self.value, (1 << (bits - 1)) - 1), -1 << (bits - 1))
            return pack(CODES[bits], value)
        if name == "bool":
            return b"\x01" if self.base.get(field.name, False) else b"\x00"
        if name == "uuid":
            return bytes(self.value if chosen else self.base.get(field.name, self.base["topic_id"]))
        data: bytes = self.value if chosen else self.base.get(field.name, b"t" if name == "string" else self.base[name])
        if flexible:
            return varint(len(data) + 1) + data
        return pack(">h" if name == "string" else ">i", len(data)) + data


def frames(request_type: Any, base: Base) -> Iterator[tuple[str, bytes]]:
    """(what it is, a frame without its length)."""

    def frame(writer: _Writer) -> bytes:
        head = pack(">hhih", request_type.__api_key__, request_type.__version__, 7, 1) + b"c"
        tags = b"\x00" if request_type.__header_schema__.__flexible__ else b""
        return head + tags + writer.entity(request_type)

    plain = _Writer(base)
    yield "as it should be", frame(plain)
    for bits in (8, 16, 32, 64):
        for value in extremes(bits):
            yield f"all numbers {value}", frame(_Writer(base, -1, value))
    for at, name in enumerate(plain.leaves):
        for value in _values(name):
            yield f"leaf {at} ({name}) {value!r:.40}", frame(_Writer(base, at, value))
    for at in range(plain.arrays):
        yield f"list {at} with {MANY} entries", frame(_Writer(base, many=at))


def _values(kind: str) -> tuple[Any, ...]:
    if kind in BITS:
        return extremes(BITS[kind])
    return {"string": TEXTS, "uuid": (bytes(16), b"\xff" * 16), "records": RECORDS, "bytes": BLOBS}.get(kind, ())


def records(
    *, timestamp_ms: int = 1_000, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1
) -> bytes:
    data = batch.build(
        [batch.NewRecord(b"k", b"v")] * 2,
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return bytes(data)


RECORDS = (
    b"",
    LONG,
    records(producer_id=2**63 - 1, producer_epoch=32_767, base_sequence=2**31 - 1),
    records(producer_id=0, producer_epoch=-1, base_sequence=0),
    records(producer_id=-(2**63), producer_epoch=-32_768, base_sequence=-(2**31)),
    records(timestamp_ms=2**63 - 1),
    records(timestamp_ms=-(2**63)),
)
