"""Where compiled decoders put what they read, and the Arrow arrays that are made of it.

A schema is a tree of nodes. Every node has one cell of 64 bits and one validity byte for each of its elements; the cell
holds a number, a float, the place of a string in the input, or the end of a list. A field of a struct has the struct's
index; the elements of lists and maps are counted by themselves. What is counted together is a domain: domain 0 are the
rows, every list or map below has one of its own.

The room for lists is a guess. A decoder that runs out of it returns the row it could not finish, and continues there
when there is more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from insync.formats.cells import gather_decimals, gather_spans
from insync.formats.errors import FULL

TO_PARSE = 2
"""A validity byte: the cell is the place of a number's text, which Arrow or Python parses. Others are 0 and 1."""
MAX_SECONDS = 1 << 39
"""Of a Protobuf timestamp or duration: about 17,000 years."""


class Kind(IntEnum):
    STRUCT = 0
    LIST = 1
    MAP = 2
    BOOL = 3
    INT = 4
    FLOAT = 5
    TEXT = 6
    BYTES = 7
    DECIMAL = 8
    """The place of a big-endian number."""
    ENUM = 9
    UNSIGNED = 10
    """64 bits without a sign, as a decimal."""
    TIME = 11
    DATE = 12
    BASE64 = 13
    UNSCALED = 14
    """A decimal as its unscaled number, or TO_PARSE."""
    INSTANT = 15
    """A struct of seconds and nanoseconds that becomes one column of microseconds."""
    NULL = 16


@dataclass(slots=True)
class Node:
    index: int
    kind: Kind
    type: pa.DataType
    domain: int
    children: list[Node] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of a struct's fields."""
    symbols: dict[int, str] = field(default_factory=dict)
    """Of an enum, by number."""
    own_domain: int = 0
    """Of the elements of a list or map."""
    constant: Any = None
    """(value,): what a field has that the writer's schema does not have."""
    has_default: bool = False
    """Without a value it is zero or empty, not null."""


class Layout:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.domains = 1

    def add(self, kind: Kind, arrow_type: pa.DataType, domain: int) -> Node:
        node = Node(len(self.nodes), kind, arrow_type, domain)
        self.nodes.append(node)
        return node

    def add_domain(self) -> int:
        self.domains += 1
        return self.domains - 1

    @property
    def domain_of(self) -> Any:
        return np.array([node.domain for node in self.nodes], np.int64)


class Cells:
    """The memory for one batch of values. `arrays` are the arguments that every decoder takes."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        self._rows = rows
        self.domain = layout.domain_of
        self.counts = np.zeros(layout.domains, np.int64)
        self.counts[0] = rows
        self.capacity = np.full(layout.domains, 2 * rows + 64, np.int64)
        self.capacity[0] = rows
        self._allocate()

    def _allocate(self) -> None:
        sizes = self.capacity[self.domain]
        self.base = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.cells = np.zeros(int(sizes.sum()), np.int64)
        self.valid = np.zeros(int(sizes.sum()), np.uint8)

    def grow(self) -> None:
        old_base, old_cells, old_valid = self.base, self.cells, self.valid
        self.capacity[1:] *= 4
        self._allocate()
        for node, (to, start) in enumerate(zip(self.base.tolist(), old_base.tolist(), strict=True)):
            used = int(self.counts[self.domain[node]])
            self.cells[to : to + used] = old_cells[start : start + used]
            self.valid[to : to + used] = old_valid[start : start + used]

    def fill(self, decode: Callable[..., int], rows: int, status: Any, *arguments: Any) -> None:
        """Run a decoder over all rows, with more room whenever it asks for it."""
        first = 0
        while first < rows:
            first = decode(
                *(first, self.cells, self.cells.view(np.float64), self.valid, self.base, self.domain),
                *(self.counts, self.capacity, status, *arguments),
            )
            if first < rows and status[first] == FULL:
                status[first] = 0
                self.grow()

    def of(self, node: Node) -> tuple[Any, Any]:
        """Cells and validity bytes."""
        start, count = int(self.base[node.index]), int(self.counts[node.domain])
        return self.cells[start : start + count], self.valid[start : start + count]


# --- Arrow arrays ----------------------------------------------------------------------------------------------------


def to_array(node: Node, cells: Cells, data: Any) -> pa.Array:
    """The column of a node. `data` are the bytes that places refer to."""
    values, valid = cells.of(node)
    count = len(values)
    if node.constant is not None:
        return pa.repeat(pa.scalar(node.constant[0], node.type), count)
    if node.kind is Kind.NULL:
        return pa.nulls(count)
    bits = None if node.has_default or valid.all() else pa.py_buffer(np.packbits(valid != 0, bitorder="little"))
    if node.kind in (Kind.LIST, Kind.MAP):
        return _to_lists(node, cells, data, values, bits)
    if node.kind is Kind.STRUCT:
        children = [to_array(child, cells, data) for child in node.children]
        return pa.Array.from_buffers(node.type, count, [bits], children=children)
    if node.kind is Kind.INSTANT:
        return _to_instants(node, cells, valid)
    if node.kind in (Kind.TEXT, Kind.BYTES, Kind.BASE64):
        return _to_strings(node, values, bits, data)
    if node.kind is Kind.FLOAT:
        return _to_floats(node, values, valid, bits, data)
    if node.kind is Kind.ENUM:
        return _to_symbols(node, values, bits)
    if node.kind is Kind.BOOL:
        return pa.Array.from_buffers(
            node.type, count, [bits, pa.py_buffer(np.packbits(values != 0, bitorder="little"))]
        )
    if node.kind in (Kind.DECIMAL, Kind.UNSIGNED, Kind.UNSCALED):
        return _to_decimals(node, values, valid, bits, data)
    width = np.dtype(f"i{node.type.bit_width // 8}")
    return pa.Array.from_buffers(node.type, count, [bits, pa.py_buffer(np.ascontiguousarray(values.astype(width)))])


def _to_lists(node: Node, cells: Cells, data: Any, ends: Any, bits: Any) -> pa.Array:
    """A list that was never begun ends where the one before it does."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = np.maximum.accumulate(ends)
    children = [to_array(child, cells, data) for child in node.children]
    if node.kind is Kind.MAP:
        count = int(cells.counts[node.own_domain])
        entries = pa.struct([node.type.key_field, node.type.item_field])
        children = [pa.Array.from_buffers(entries, count, [None], children=children)]
    return pa.Array.from_buffers(node.type, len(ends), [bits, pa.py_buffer(offsets)], children=children)


def _to_symbols(node: Node, numbers: Any, bits: Any) -> pa.Array:
    """A number that the enum does not have is shown as such."""
    distinct, indices = np.unique(numbers, return_inverse=True)
    symbols = pa.array([node.symbols.get(number, str(number)) for number in distinct.tolist()], pa.string())
    places = np.ascontiguousarray(indices.astype(np.int64))
    return symbols.take(pa.Array.from_buffers(pa.int64(), len(numbers), [bits, pa.py_buffer(places)]))


def _to_instants(node: Node, cells: Cells, valid: Any) -> pa.Array:
    """Null beyond the years that Protobuf allows."""
    (seconds, _), (nanos, _) = (cells.of(child) for child in node.children)
    known = ((valid != 0) | node.has_default) & (np.abs(seconds) < MAX_SECONDS)
    micros = np.where(known, seconds, 0) * 1_000_000 + nanos // 1_000
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(node.type, len(micros), [bits, pa.py_buffer(micros)])


def _to_strings(node: Node, places: Any, bits: Any, data: Any) -> pa.Array:
    room = int((places & 0x7FFFFFFF).sum())
    offsets, characters = np.zeros(len(places) + 1, np.int32), np.empty(room, np.uint8)
    gather_spans(data, places, offsets, characters)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(characters[: offsets[-1]])]
    if node.kind is not Kind.BASE64:
        return pa.Array.from_buffers(node.type, len(places), buffers)
    import base64

    texts = pa.Array.from_buffers(pa.binary(), len(places), buffers).to_pylist()
    return pa.array([None if text is None else base64.b64decode(text) for text in texts], pa.binary())


def _to_floats(node: Node, values: Any, valid: Any, bits: Any, data: Any) -> pa.Array:
    floats = values.view(np.float64)
    if (slow := np.flatnonzero(valid == TO_PARSE)).size:
        floats = floats.copy()
        floats[slow] = _parse_floats(_texts(values[slow], data))
    if node.type == pa.float32():
        with np.errstate(over="ignore", invalid="ignore"):
            floats = floats.astype(np.float32)
    return pa.Array.from_buffers(node.type, len(values), [bits, pa.py_buffer(np.ascontiguousarray(floats))])


def _texts(places: Any, data: Any) -> pa.Array:
    offsets, characters = np.zeros(len(places) + 1, np.int32), np.empty(int((places & 0x7FFFFFFF).sum()), np.uint8)
    gather_spans(data, places, offsets, characters)
    return pa.Array.from_buffers(pa.string(), len(places), [None, pa.py_buffer(offsets), pa.py_buffer(characters)])


def _parse_floats(texts: pa.Array) -> Any:
    """Numbers beyond what a double can hold are infinite, which only Python's parser accepts."""
    try:
        return pc.cast(texts, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return np.array([float(text) for text in texts.to_pylist()])


def _to_decimals(node: Node, values: Any, valid: Any, bits: Any, data: Any) -> pa.Array:
    words = np.empty((len(values), 2), np.int64)
    if node.kind is Kind.DECIMAL:
        gather_decimals(data, values, words)
    else:
        words[:, 0] = values
        words[:, 1] = 0 if node.kind is Kind.UNSIGNED else values >> 63
    slow = np.flatnonzero(valid == TO_PARSE) if node.kind is Kind.UNSCALED else ()
    if len(slow):
        valid = valid.copy()
        for i, text in zip(slow, _texts(values[slow], data).to_pylist(), strict=True):
            unscaled = _parse_decimal(text, node.type)
            valid[i] = unscaled is not None
            words[i] = np.frombuffer((unscaled or 0).to_bytes(16, "little", signed=True), np.int64)
        bits = pa.py_buffer(np.packbits(valid != 0, bitorder="little"))
    return pa.Array.from_buffers(node.type, len(values), [bits, pa.py_buffer(words)])


def _parse_decimal(text: str, kind: pa.DataType) -> int | None:
    """The unscaled number, rounded to the type's scale; None if it has more digits than the type."""
    with localcontext(prec=kind.precision):
        try:
            return int(Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP).scaleb(kind.scale))
        except InvalidOperation:
            return None
