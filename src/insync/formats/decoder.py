"""From a column of encoded keys or values to a column of what they contain.

    decoder = Decoder(ValueFormat("avro", type=..., schema=...))
    decoded = decoder.decode(batch.column("value"))
    decoded.column           # a struct, or whatever the schema's type is
    decoded.status           # 0 where a value could be decoded

The type of the column is that of the reader's schema, whatever schemas the values were written with. A null stays null.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from insync.formats.avro_kernel import decode_avro
from insync.formats.avro_program import AvroProgram, compile_avro
from insync.formats.avro_schema import parse_avro
from insync.formats.cells import is_utf8
from insync.formats.confluent import read_indexes, skip_indexes, split_ids
from insync.formats.errors import BAD_UTF8, OTHER_SCHEMA, REASONS, UNKNOWN_ID, SchemaError
from insync.formats.json_kernel import decode_json
from insync.formats.json_program import compile_json
from insync.formats.layout import Cells, to_array
from insync.formats.protobuf_kernel import decode_protobuf
from insync.formats.protobuf_program import compile_protobuf
from insync.formats.protobuf_schema import load_message, make_pool, message_at, to_descriptors
from insync.formats.registry import AVRO, PROTOBUF, RegistrySettings, UnknownSchemaError, registry_for
from insync.formats.value_format import ValueFormat

MAX_SCHEMAS = 1_000
"""Of writers, whose programs a process keeps."""


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    column: pa.Array
    status: Any
    """By row: 0, or the key of a reason."""
    reasons: dict[int, str]


@cache
def decoder_for(value_format: ValueFormat) -> Decoder:
    return Decoder(value_format)


class Decoder:
    def __init__(self, value_format: ValueFormat) -> None:
        self._format = value_format
        self._programs: dict[int, AvroProgram] = {}
        self._message_names: dict[tuple[int, int], str] = {}
        self._json = compile_json(value_format.type) if value_format.format == "json" else None
        self._message: Any = None
        self._protobuf: Any = None
        if value_format.format == "protobuf":
            self._message = load_message(base64.b64decode(value_format.schema), value_format.message)
            self._protobuf = compile_protobuf(self._message, value_format.type)
        if value_format.format == "avro":
            self._reader = parse_avro(value_format.schema, dict(value_format.references))

    def decode(self, column: pa.Array) -> DecodedColumn:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        rows, reasons = len(column), dict(REASONS)
        if not rows:
            return DecodedColumn(pa.nulls(0, self._format.type), np.zeros(0, np.int16), reasons)
        status = np.zeros(rows, np.int16)
        data, starts, ends = _locate(column)
        ids = split_ids(data, starts, ends, status) if self._format.is_confluent else None
        if self._format.format == "string":
            return DecodedColumn(_to_text(column, data, starts, ends, status), status, reasons)
        if self._format.format == "json":
            program: Any = self._json
            return DecodedColumn(
                _run(decode_json, program, program.arguments, data, starts, ends, status), status, reasons
            )
        if self._format.format == "protobuf":
            if ids is not None:
                self._check_messages(column, data, starts, ends, ids, status, reasons)
            program = self._protobuf
            decoded = _run(decode_protobuf, program, program.arguments, data, starts, ends, status)
            return DecodedColumn(decoded, status, reasons)
        return DecodedColumn(self._decode_avro(data, starts, ends, ids, status, reasons), status, reasons)

    # --- Avro: one program for each writer's schema ------------------------------------------------------------------

    def _decode_avro(
        self, data: Any, starts: Any, ends: Any, ids: Any, status: Any, reasons: dict[int, str]
    ) -> pa.Array:
        if ids is None:
            return self._run_avro(self._plain_program(), data, starts, ends, status)
        parts: list[pa.Array] = []
        part_of = np.full(len(starts), -1, np.int64)
        for schema_id in np.unique(ids[ids >= 0]).tolist():
            mask = ids == schema_id
            program = self._program_of(schema_id, reasons, status, mask)
            if program is None:
                continue
            part_of[mask] = len(parts)
            parts.append(self._run_avro(program, data, np.where(mask, starts, -1), ends, status))
        if not parts:
            return pa.nulls(len(starts), self._format.type)
        if len(parts) == 1:
            return parts[0]
        indices = part_of * len(starts) + np.arange(len(starts))
        return pa.concat_arrays(parts).take(pa.array(indices, mask=part_of < 0))

    def _run_avro(self, program: AvroProgram, data: Any, starts: Any, ends: Any, status: Any) -> pa.Array:
        bits = np.zeros(1, np.uint32)
        arguments = program.code, program.tables, bits, bits.view(np.float32)
        return _run(decode_avro, program, arguments, data, starts, ends, status)

    def _plain_program(self) -> AvroProgram:
        if -1 not in self._programs:
            writer = parse_avro(self._format.writer_schema) if self._format.writer_schema else self._reader
            self._programs[-1] = compile_avro(writer, self._reader, self._format.type)
        return self._programs[-1]

    def _program_of(self, schema_id: int, reasons: dict[int, str], status: Any, mask: Any) -> AvroProgram | None:
        """None if the values of this schema cannot be decoded, with the reason in their status."""
        if schema_id in self._programs:
            return self._programs[schema_id]
        try:
            schema = registry_for(self._registry).get_by_id(schema_id, AVRO)
            program = compile_avro(parse_avro(schema.text, schema.texts), self._reader, self._format.type)
        except UnknownSchemaError as error:
            _report(str(error), UNKNOWN_ID, reasons, status, mask)
            return None
        except SchemaError as error:
            _report(f"schema id {schema_id}: {error}", OTHER_SCHEMA, reasons, status, mask)
            return None
        while len(self._programs) >= MAX_SCHEMAS:
            self._programs.pop(next(iter(self._programs)))
        self._programs[schema_id] = program
        return program

    @property
    def _registry(self) -> RegistrySettings:
        if self._format.registry is None:
            raise SchemaError("Confluent's wire format needs the option 'schema.registry.url'")
        return self._format.registry

    # --- Protobuf: is it the message that the reader expects? ---------------------------------------------------------

    def _check_messages(
        self, column: pa.Array, data: Any, starts: Any, ends: Any, ids: Any, status: Any, reasons: dict[int, str]
    ) -> None:
        """Fields are numbered, so no writer's schema is needed to decode; it only tells which message it is."""
        places = np.zeros(len(starts), np.int64)
        skip_indexes(data, starts, ends, status, places)
        if self._format.registry is None:
            return
        known = starts >= 0
        pairs = np.unique(np.stack([ids[known], places[known]], axis=1), axis=0)
        for schema_id, at in pairs.tolist():
            mask = known & (ids == schema_id) & (places == at)
            first = int(np.flatnonzero(mask)[0])
            try:
                name = self._message_name(schema_id, at, column[first].as_py())
            except UnknownSchemaError as error:
                _report(str(error), UNKNOWN_ID, reasons, status, mask)
                starts[mask] = -1
                continue
            if name != self._message.full_name:
                text = f"schema id {schema_id}: it is the message {name}, not {self._message.full_name}"
                _report(text, OTHER_SCHEMA, reasons, status, mask)
                starts[mask] = -1

    def _message_name(self, schema_id: int, at: int, value: bytes) -> str:
        key = schema_id, at
        if key not in self._message_names:
            schema = registry_for(self._registry).get_by_id(schema_id, PROTOBUF)
            files = to_descriptors(schema.text, schema.texts)
            pool = make_pool(files)
            message = message_at(pool.FindFileByName(files[-1].name), read_indexes(value))
            self._message_names[key] = "(none)" if message is None else str(message.full_name)
        return self._message_names[key]


def _report(text: str, code: int, reasons: dict[int, str], status: Any, mask: Any) -> None:
    """Give rows a reason of their own."""
    key = max(reasons) + 1
    reasons[key] = f"{REASONS[code]}: {text}" if code == OTHER_SCHEMA else text
    status[mask] = key


def _locate(column: pa.Array) -> tuple[Any, Any, Any]:
    """The bytes of a binary column, and where each value begins (-1: it is null) and ends."""
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.zeros(1, np.uint8) if not data_buffer else np.frombuffer(data_buffer, np.uint8)
    data.flags.writeable = False
    starts, ends = offsets[:-1].copy(), offsets[1:]
    if column.null_count:
        starts[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return data, starts, ends


def _run(
    decode: Any, program: Any, arguments: tuple[Any, ...], data: Any, starts: Any, ends: Any, status: Any
) -> pa.Array:
    cells = Cells(program.layout, len(starts))
    cells.fill(decode, len(starts), status, data, starts, ends, *arguments)
    return to_array(program.root, cells, data)


def _to_text(column: pa.Array, data: Any, starts: Any, ends: Any, status: Any) -> pa.Array:
    text = pa.Array.from_buffers(pa.string(), len(column), column.buffers(), offset=column.offset)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        good = [at >= 0 and bool(is_utf8(data, at, end)) for at, end in zip(starts, ends, strict=True)]
        status[(starts >= 0) & ~np.array(good)] = BAD_UTF8
        kept = column.filter(pa.array(good))
        restored = pa.array(np.cumsum(good) - 1, mask=~np.array(good))
        return pa.Array.from_buffers(pa.string(), len(kept), kept.buffers(), offset=kept.offset).take(restored)
    return text
