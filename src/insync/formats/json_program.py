"""From an Arrow type to the tables by which JSON values are decoded into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from insync.formats.errors import SchemaError
from insync.formats.json_text import MAX_DIGITS, POWERS
from insync.formats.layout import Kind, Layout, Node

_NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class JsonProgram:
    layout: Layout
    root: Node
    nodes: Any
    limits: Any
    fields: Any
    names: Any

    @property
    def arguments(self) -> tuple[Any, ...]:
        """In the order of `decode_json`'s parameters."""
        return self.nodes, self.limits, self.fields, self.names, POWERS, np.empty(1024, np.uint8)


def compile_json(wanted: pa.DataType) -> JsonProgram:
    layout = Layout()
    root = _add_nodes(layout, wanted, 0)
    nodes, limits = np.zeros((len(layout.nodes), 5), np.int64), np.zeros((len(layout.nodes), 2), np.int64)
    fields: list[tuple[int, int, int]] = []
    names = b""
    for node in layout.nodes:
        nodes[node.index] = (node.kind, 0, 0, node.own_domain, int(node.type == pa.timestamp("us", tz="UTC")))
        limits[node.index] = _limits(node)
        if node.kind is Kind.STRUCT:
            nodes[node.index, 1:3] = len(fields), len(node.children)
            for name, child in zip(node.names, node.children, strict=True):
                fields.append((child.index, len(names), len(name.encode())))
                names += name.encode()
        elif node.kind in (Kind.LIST, Kind.MAP):
            nodes[node.index, 1], nodes[node.index, 2] = node.children[0].index, node.children[-1].index
    table = np.array(fields, np.int64).reshape(-1, 3)
    return JsonProgram(layout, root, nodes, limits, table, np.frombuffer(names + b"\0", np.uint8))


def _limits(node: Node) -> tuple[int, int]:
    if node.kind is Kind.UNSCALED:
        return node.type.scale, 10**node.type.precision if node.type.precision <= MAX_DIGITS else _NO_LIMIT
    if node.kind is Kind.INT:
        top = 1 << (node.type.bit_width - 1)
        return -top, top - 1
    return 0, 0


def _add_nodes(layout: Layout, wanted: pa.DataType, domain: int) -> Node:
    if types.is_struct(wanted):
        node = layout.add(Kind.STRUCT, wanted, domain)
        for i in range(wanted.num_fields):
            node.names.append(wanted.field(i).name)
            node.children.append(_add_nodes(layout, wanted.field(i).type, domain))
        return node
    if types.is_list(wanted) or types.is_map(wanted):
        node = layout.add(Kind.LIST if types.is_list(wanted) else Kind.MAP, wanted, domain)
        node.own_domain = layout.add_domain()
        if types.is_map(wanted):
            if wanted.key_type != pa.string():
                raise SchemaError(f"a map in JSON has strings as keys, not {wanted.key_type}")
            node.children.append(layout.add(Kind.TEXT, pa.string(), node.own_domain))
        element = wanted.value_type if types.is_list(wanted) else wanted.item_type
        node.children.append(_add_nodes(layout, element, node.own_domain))
        return node
    return layout.add(_scalar_kind(wanted), wanted, domain)


def _scalar_kind(wanted: pa.DataType) -> Kind:
    if types.is_boolean(wanted):
        return Kind.BOOL
    if types.is_signed_integer(wanted):
        return Kind.INT
    if wanted in (pa.float32(), pa.float64()):
        return Kind.FLOAT
    if types.is_string(wanted):
        return Kind.TEXT
    if types.is_binary(wanted):
        return Kind.BASE64
    if types.is_date32(wanted):
        return Kind.DATE
    if types.is_timestamp(wanted):
        return Kind.TIME
    if types.is_decimal128(wanted):
        return Kind.UNSCALED
    raise SchemaError(f"JSON has no values of the type {wanted}")
