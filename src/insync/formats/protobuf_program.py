"""From a Protobuf descriptor to the tables by which its messages are decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from insync.formats import protobuf_kernel as kernel
from insync.formats.arrow_types import struct_of
from insync.formats.layout import Kind, Layout, Node
from insync.formats.protobuf_schema import INSTANTS, is_map, is_repeated, type_name

_TYPES: dict[str, tuple[int, Kind]] = {
    "TYPE_DOUBLE": (kernel.FIXED64, Kind.FLOAT),
    "TYPE_FLOAT": (kernel.FLOAT, Kind.FLOAT),
    "TYPE_INT64": (kernel.INT64, Kind.INT),
    "TYPE_UINT64": (kernel.INT64, Kind.UNSIGNED),
    "TYPE_INT32": (kernel.INT32, Kind.INT),
    "TYPE_FIXED64": (kernel.FIXED64, Kind.UNSIGNED),
    "TYPE_FIXED32": (kernel.FIXED32, Kind.INT),
    "TYPE_BOOL": (kernel.BOOL, Kind.BOOL),
    "TYPE_STRING": (kernel.STRING, Kind.TEXT),
    "TYPE_BYTES": (kernel.BYTES, Kind.BYTES),
    "TYPE_UINT32": (kernel.UINT32, Kind.INT),
    "TYPE_ENUM": (kernel.INT32, Kind.ENUM),
    "TYPE_SFIXED32": (kernel.SFIXED32, Kind.INT),
    "TYPE_SFIXED64": (kernel.FIXED64, Kind.INT),
    "TYPE_SINT32": (kernel.SINT32, Kind.INT),
    "TYPE_SINT64": (kernel.SINT64, Kind.INT),
}


@dataclass(frozen=True, slots=True)
class ProtobufProgram:
    layout: Layout
    root: Node
    messages: Any
    fields: Any

    @property
    def arguments(self) -> tuple[Any, ...]:
        """In the order of `decode_protobuf`'s parameters."""
        bits = np.zeros(1, np.uint32)
        return self.messages, self.fields, kernel.WIRE_TYPES, bits, bits.view(np.float32)


def compile_protobuf(message: Any, wanted: pa.DataType) -> ProtobufProgram:
    compiler = _Compiler()
    root = compiler.add_message(message, wanted, 0)[0]
    messages: list[tuple[int, int]] = []
    fields: list[tuple[int, ...]] = []
    for table in compiler.tables:
        messages.append((len(fields), len(table)))
        fields += table
    return ProtobufProgram(
        compiler.layout, root, np.array(messages, np.int64), np.array(fields, np.int64).reshape(-1, 7)
    )


class _Compiler:
    def __init__(self) -> None:
        self.layout = Layout()
        self.tables: list[list[tuple[int, ...]]] = []

    def add_message(self, message: Any, wanted: pa.DataType, domain: int) -> tuple[Node, int]:
        """Its node and the index of its table."""
        is_instant = message.full_name in INSTANTS
        node = self.layout.add(Kind.INSTANT if is_instant else Kind.STRUCT, wanted, domain)
        names = ("seconds", "nanos") if is_instant else [wanted.field(i).name for i in range(wanted.num_fields)]
        types = (pa.int64(), pa.int32()) if is_instant else [wanted.field(i).type for i in range(wanted.num_fields)]
        table: list[tuple[int, ...]] = []
        self.tables.append(table)
        index = len(self.tables) - 1
        oneofs: dict[str, int] = {}
        for name, kind in zip(names, types, strict=True):
            entry = message.fields_by_name[name]
            oneof = 0
            if entry.containing_oneof is not None:
                oneof = oneofs.setdefault(entry.containing_oneof.name, len(oneofs) + 1)
            child, row = self._add_field(entry, kind, domain)
            node.names.append(name)
            node.children.append(child)
            table.append((*row, oneof))
        return node, index

    def _add_field(self, entry: Any, wanted: pa.DataType, domain: int) -> tuple[Node, tuple[int, ...]]:
        if not is_repeated(entry):
            node, kind, message = self._add_single(entry, wanted, domain)
            return node, (entry.number, kind, -1, node.index, message, 0)
        many = self.layout.add(Kind.MAP if is_map(entry) else Kind.LIST, wanted, domain)
        many.own_domain, many.has_default = self.layout.add_domain(), True
        if is_map(entry):
            pair = struct_of((("key", wanted.key_type), ("value", wanted.item_type)))
            node, message = self.add_message(entry.message_type, pair, many.own_domain)
            many.children = node.children
            for child in node.children:  # an entry without key or value has their defaults
                child.has_default = True
            return many, (entry.number, kernel.MESSAGE, many.index, node.index, message, many.own_domain)
        node, kind, message = self._add_single(entry, wanted.value_type, many.own_domain)
        many.children = [node]
        return many, (entry.number, kind, many.index, node.index, message, many.own_domain)

    def _add_single(self, entry: Any, wanted: pa.DataType, domain: int) -> tuple[Node, int, int]:
        if entry.message_type is not None:
            node, message = self.add_message(entry.message_type, wanted, domain)
            return node, kernel.MESSAGE, message
        code, kind = _TYPES[type_name(entry)]
        node = self.layout.add(kind, wanted, domain)
        node.has_default = not entry.has_presence and not is_repeated(entry)
        if entry.enum_type is not None:
            node.symbols = {value.number: value.name for value in reversed(entry.enum_type.values)}
        return node, code, 0
