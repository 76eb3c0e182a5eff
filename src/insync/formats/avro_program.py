"""From a writer's and a reader's Avro schema to the program that decodes the one into the columns of the other.

The rules of "Schema Resolution" in Avro's specification: fields match by name or the reader's aliases, what only the
writer has is skipped, what only the reader has gets its default, numbers are promoted to wider ones, strings and bytes
to each other, and a union's branch is resolved when a value names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from insync.formats import avro_kernel as ops
from insync.formats.avro_schema import AvroField, AvroType, to_arrow_type, union_members
from insync.formats.errors import SchemaError
from insync.formats.layout import Kind, Layout, Node

_PROMOTIONS = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
_KINDS = {"boolean": Kind.BOOL, "int": Kind.INT, "long": Kind.INT, "float": Kind.FLOAT, "double": Kind.FLOAT}
_MILLIS = ("timestamp-millis", "local-timestamp-millis")


@dataclass(frozen=True, slots=True)
class AvroProgram:
    layout: Layout
    root: Node
    code: Any
    tables: Any


def compile_avro(writer: AvroType, reader: AvroType, wanted: pa.DataType | None = None) -> AvroProgram:
    """`wanted` is the reader's type with fewer fields, if not all of them are needed."""
    compiler = _Compiler()
    root = compiler.add_nodes(reader, wanted if wanted is not None else to_arrow_type(reader), 0)
    compiler.emit(writer, reader, root)
    compiler.append(ops.END)
    return AvroProgram(
        compiler.layout, root, np.array(compiler.code, np.int64), np.array(compiler.tables or [0], np.int64)
    )


class _Compiler:
    def __init__(self) -> None:
        self.layout = Layout()
        self.code: list[list[int]] = []
        self.tables: list[int] = []
        self._inside: list[str] = []
        self._depth = 0

    def append(self, op: int, node: Node | None = None, x: int = 0, y: int = 0, z: int = 0) -> int:
        self.code.append([op, -1 if node is None else node.index, x, y, z])
        return len(self.code) - 1

    # --- the reader's columns ----------------------------------------------------------------------------------------

    def add_nodes(self, reader: AvroType, wanted: pa.DataType, domain: int) -> Node:
        if reader.kind == "union":
            members = union_members(reader)
            if len(members) == 1:
                return self.add_nodes(members[0], wanted, domain)
            named = {f"member{i}": member for i, member in enumerate(members)}
            return self._add_struct(named, wanted, domain)
        if reader.kind == "record":
            return self._add_struct({entry.name: entry.type for entry in reader.fields}, wanted, domain)
        if reader.kind in ("array", "map"):
            node = self.layout.add(Kind.LIST if reader.kind == "array" else Kind.MAP, wanted, domain)
            node.own_domain = self.layout.add_domain()
            if reader.kind == "map":
                node.children.append(self.layout.add(Kind.TEXT, pa.string(), node.own_domain))
            element = wanted.value_type if reader.kind == "array" else wanted.item_type
            node.children.append(self.add_nodes(reader.of_elements, element, node.own_domain))
            return node
        kind = _KINDS.get(reader.kind, Kind.TEXT if reader.kind == "string" else Kind.BYTES)
        if reader.logical == "decimal":
            kind = Kind.DECIMAL
        if reader.kind == "enum":
            kind = Kind.ENUM
        if reader.kind == "null":
            kind = Kind.NULL
        node = self.layout.add(kind, wanted, domain)
        node.symbols = dict(enumerate(reader.symbols))
        return node

    def _add_struct(self, types: dict[str, AvroType], wanted: pa.DataType, domain: int) -> Node:
        node = self.layout.add(Kind.STRUCT, wanted, domain)
        for i in range(wanted.num_fields):
            entry = wanted.field(i)
            node.names.append(entry.name)
            node.children.append(self.add_nodes(types[entry.name], entry.type, domain))
        return node

    # --- the program -------------------------------------------------------------------------------------------------

    def emit(self, writer: AvroType, reader: AvroType, node: Node | None) -> None:
        """Raises if no value of the writer can be read as the reader's type."""
        if writer.kind == "union":
            self._emit_union(writer, reader, node)
        elif reader.kind == "union":
            self._emit_into_union(writer, reader, node)
        elif not is_readable(writer, reader):
            raise SchemaError(f"{_describe(writer)} cannot be read as {_describe(reader)}")
        elif writer.kind == "record":
            self._emit_record(writer, reader, node)
        elif writer.kind in ("array", "map"):
            self._emit_elements(writer, reader.of_elements, node)
        else:
            self._emit_plain(writer, reader, node)

    def _emit_union(self, writer: AvroType, reader: AvroType, node: Node | None) -> None:
        table = len(self.tables)
        self.tables += [0] * len(writer.branches)
        self.append(ops.UNION, None, len(writer.branches), table)
        jumps = []
        readable = 0
        for i, branch in enumerate(writer.branches):
            start = self.tables[table + i] = len(self.code)
            tables = len(self.tables)
            try:
                self.emit(branch, reader, node)
                readable += 1
            except SchemaError:
                del self.code[start:], self.tables[tables:]
                self.append(ops.FAIL)
            jumps.append(self.append(ops.JUMP))
        if not readable:
            raise SchemaError(f"{_describe(writer)} cannot be read as {_describe(reader)}")
        for jump in jumps:
            self.code[jump][2] = len(self.code)

    def _emit_into_union(self, writer: AvroType, reader: AvroType, node: Node | None) -> None:
        if writer.kind == "null":
            if any(branch.kind == "null" for branch in reader.branches):
                return
            raise SchemaError(f"null cannot be read as {_describe(reader)}")
        members = union_members(reader)
        exact = [i for i, member in enumerate(members) if _is_same(writer, member)]
        chosen = exact or [i for i, member in enumerate(members) if is_readable(writer, member)]
        if not chosen:
            raise SchemaError(f"{_describe(writer)} cannot be read as {_describe(reader)}")
        member = members[chosen[0]]
        if len(members) == 1:
            self.emit(writer, member, node)
            return
        inner = None
        if node is not None:
            self.append(ops.MARK, node)
            inner = dict(zip(node.names, node.children, strict=True)).get(f"member{chosen[0]}")
        self.emit(writer, member, inner)

    def _emit_record(self, writer: AvroType, reader: AvroType, node: Node | None) -> None:
        if writer.name in self._inside:
            raise SchemaError(f"the Avro record {writer.name} contains itself: recursive types are not supported")
        self._inside.append(writer.name)
        if node is not None:
            self.append(ops.MARK, node)
        columns = {} if node is None else dict(zip(node.names, node.children, strict=True))
        unmatched = {entry.name: entry for entry in reader.fields}
        for entry in writer.fields:
            match = _find_field(entry.name, reader) if node is not None else None
            if match is None or match.name not in unmatched:
                self.emit(entry.type, entry.type, None)
                continue
            del unmatched[match.name]
            column = columns.get(match.name)
            self.emit(entry.type, match.type if column is not None else entry.type, column)
        for entry in unmatched.values() if node is not None else ():
            if not entry.has_default:
                raise SchemaError(
                    f"field '{entry.name}' of {reader.name} is not in the writer's schema and has no default"
                )
            if entry.name in columns:
                columns[entry.name].constant = (convert_default(entry.default, entry.type),)
        self._inside.pop()

    def _emit_elements(self, writer: AvroType, reader: AvroType, node: Node | None) -> None:
        self._depth += 1
        if self._depth >= ops.MAX_DEPTH:
            raise SchemaError(f"more than {ops.MAX_DEPTH} arrays and maps inside each other")
        is_map = writer.kind == "map"
        least = _least_size(writer.of_elements) + is_map
        own = -1 if node is None else node.own_domain
        head = self.append(ops.ARRAY, node, 0, own, least)
        if is_map:
            self.append(ops.SPAN, None if node is None else node.children[0], 1, -1)
        self.emit(writer.of_elements, reader, None if node is None else node.children[-1])
        self.append(ops.NEXT, None, head, own)
        self.code[head][2] = len(self.code)
        self._depth -= 1

    def _emit_plain(self, writer: AvroType, reader: AvroType, node: Node | None) -> None:
        kind = writer.kind
        if kind == "null":
            return
        if kind == "boolean":
            self.append(ops.BOOL, node)
        elif kind in ("int", "long") and reader.kind in ("float", "double"):
            self.append(ops.LONG_AS_FLOAT, node)
        elif kind in ("int", "long"):
            is_time = reader.logical not in ("", "date")
            is_millis = (writer.logical or reader.logical) in _MILLIS
            self.append(ops.LONG, node, int(kind == "int"), 1_000 if is_time and is_millis else 1)
        elif kind in ("float", "double"):
            self.append(ops.FLOAT if kind == "float" else ops.DOUBLE, node)
        elif kind == "enum":
            table = len(self.tables)
            default = reader.symbols.index(reader.default_symbol) if reader.default_symbol in reader.symbols else -1
            known = {symbol: i for i, symbol in enumerate(reader.symbols)}
            self.tables += [known.get(symbol, default) for symbol in writer.symbols]
            self.append(ops.ENUM, node, len(writer.symbols), table)
        elif reader.logical == "decimal":
            table = len(self.tables)
            bound = 10**reader.precision
            self.tables += [_signed(bound & ((1 << 64) - 1)), bound >> 64]
            self.append(ops.DECIMAL, node, table, writer.size if kind == "fixed" else -1)
        else:
            self.append(ops.SPAN, node, int(reader.kind == "string"), writer.size if kind == "fixed" else -1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


# --- the rules -------------------------------------------------------------------------------------------------------


def is_readable(writer: AvroType, reader: AvroType) -> bool:
    """By kind and name; what is inside is looked at when it is compiled."""
    if writer.kind in ("record", "enum", "fixed") and writer.kind == reader.kind:
        return _has_same_name(writer, reader) and (writer.kind != "fixed" or _is_same_fixed(writer, reader))
    if writer.logical == "decimal" or reader.logical == "decimal":
        same = (writer.precision, writer.scale) == (reader.precision, reader.scale)
        return same and writer.logical == reader.logical and {writer.kind, reader.kind} <= {"bytes", "fixed"}
    return reader.kind in _PROMOTIONS.get(writer.kind, (writer.kind,))


def _is_same_fixed(writer: AvroType, reader: AvroType) -> bool:
    return writer.size == reader.size and (writer.logical, writer.scale) == (reader.logical, reader.scale)


def _has_same_name(writer: AvroType, reader: AvroType) -> bool:
    return writer.short_name == reader.short_name or writer.name in reader.aliases


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    same = writer.kind == reader.kind and writer.name == reader.name and writer.logical == reader.logical
    return same and is_readable(writer, reader)


def _find_field(name: str, reader: AvroType) -> AvroField | None:
    for entry in reader.fields:
        if entry.name == name:
            return entry
    return next((entry for entry in reader.fields if name in entry.aliases), None)


def _least_size(avro: AvroType, inside: tuple[str, ...] = ()) -> int:
    """Bytes that a value has at least."""
    if avro.kind == "record":
        if avro.name in inside:
            return 0
        return sum(_least_size(entry.type, (*inside, avro.name)) for entry in avro.fields)
    return {"null": 0, "float": 4, "double": 8, "fixed": avro.size}.get(avro.kind, 1)


def _describe(avro: AvroType) -> str:
    if avro.kind == "union":
        return f"the Avro union [{', '.join(branch.name or branch.kind for branch in avro.branches)}]"
    logical = f" ({avro.logical})" if avro.logical else ""
    return f"Avro {avro.kind} {avro.name}".strip() + logical


def convert_default(default: Any, avro: AvroType) -> Any:
    """A field's default from the JSON of its schema to a value that Arrow takes."""
    if default is None and avro.kind in ("null", "union"):
        return None
    if avro.kind == "union":
        return _convert_union_default(default, avro)
    if avro.kind == "record":
        return {
            entry.name: convert_default(default.get(entry.name, _field_default(entry)), entry.type)
            for entry in avro.fields
        }
    if avro.kind == "array":
        return [convert_default(element, avro.of_elements) for element in default]
    if avro.kind == "map":
        return [(key, convert_default(value, avro.of_elements)) for key, value in default.items()]
    if avro.kind in ("bytes", "fixed"):
        raw = str(default).encode("latin-1")
        if avro.logical == "decimal":
            return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-avro.scale)
        return raw
    if avro.logical in _MILLIS:
        return int(default) * 1_000
    return float(default) if avro.kind in ("float", "double") else default


def _field_default(entry: AvroField) -> Any:
    return entry.default if entry.has_default else None


def _convert_union_default(default: Any, avro: AvroType) -> Any:
    """Of the first branch that it fits; newer versions of the specification allow any."""
    members = union_members(avro)
    for i, member in enumerate(members):
        if _fits(default, member):
            value = convert_default(default, member)
            return value if len(members) == 1 else {f"member{i}": value}
    raise SchemaError(f"the default {default!r} fits no branch of {_describe(avro)}")


def _fits(default: Any, avro: AvroType) -> bool:
    if avro.kind in ("int", "long"):
        return type(default) is int
    if avro.kind in ("float", "double"):
        return type(default) in (int, float)
    expected = {"boolean": bool, "record": dict, "map": dict, "array": list}.get(avro.kind, str)
    return isinstance(default, expected)
