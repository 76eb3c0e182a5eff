"""Encoded values, as the Spark sources decode them: every value gets a status or a valid row, and affects no other.

The first byte of an input selects the format; a good value of that format stands before and after the damaged one.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from random import Random

import pyarrow as pa

from fuzz.mutate import mutate_bytes
from fuzz.target import Target
from insync.formats.avro_schema import parse_avro, to_arrow_type
from insync.formats.ddl import parse_ddl
from insync.formats.decoder import Decoder
from insync.formats.value_format import AVRO, JSON, ValueFormat

SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "s", "type": ["null", "string", "double"]},
        {"name": "l", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "n", "type": {"type": "array", "items": "null"}},
    ],
}
AVRO_VALUE = b"\x02\x02\x04ab\x02\x02\x02k\x0e\x00\x00\x02\x05\x02\x04\x00"
JSON_VALUE = (
    b'{"id": 1, "s": "a\\u00e9\\n", "l": [{"k": [1, 2]}, null], "t": "2024-02-29T12:00:00.5+01:00", "d": 1.25e1, '
    b'"x": -0.1, "b": "aGk=", "other": [{"deep": [true, false, null]}], "day": "1999-12-31"}'
)
JSON_TYPE = (
    "id BIGINT, s STRING, l ARRAY<MAP<STRING, ARRAY<INT>>>, t TIMESTAMP, d DECIMAL(12,3), x DOUBLE, b BINARY, day DATE"
)
GOOD = (JSON_VALUE, AVRO_VALUE)


@cache
def decoders() -> tuple[Decoder, Decoder]:
    schema = json.dumps(SCHEMA)
    avro = ValueFormat(AVRO, to_arrow_type(parse_avro(schema)), schema=schema)
    return Decoder(ValueFormat(JSON, parse_ddl(JSON_TYPE))), Decoder(avro)


def run(data: bytes) -> None:
    which = data[0] % 2 if data else 0
    good = GOOD[which]
    decoded = decoders()[which].decode(pa.array([good, data[1:], None, good], pa.binary()))
    decoded.column.validate(full=True)
    first, _, missing, last = decoded.column.to_pylist()
    if first is None or first != last or missing is not None or decoded.status[[0, 2, 3]].any():
        raise AssertionError("a damaged value affects its neighbours")
    if decoded.status[1] and int(decoded.status[1]) not in decoded.reasons:
        raise AssertionError(f"status {decoded.status[1]} has no reason")


def seeds() -> list[bytes]:
    """Each is decoded once, before limits hold: the decoders are compiled, and Arrow's allocator reserves memory, on
    first use."""
    made = [struct.pack("B", which) + good for which, good in enumerate(GOOD)]
    for data in made:
        run(data)
    return made


def mutate(data: bytes, rng: Random) -> bytes:
    return mutate_bytes(data, rng)


TARGET = Target(name="values", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=1_000)
