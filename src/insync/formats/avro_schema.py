"""Avro schemas: parsed, with names resolved, and the Arrow type that a reader's schema gives.

The types are those of Spark's `from_avro`: a union with null is its other type, int and long are a long, float and
double a double, any other union a struct with a field `member0`, `member1`, … for each branch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from insync.formats.arrow_types import LOCAL_TIMESTAMP, MAX_PRECISION, TIMESTAMP, list_of, map_of, struct_of
from insync.formats.errors import SchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NO_DEFAULT = object()
_TIMES = {
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": LOCAL_TIMESTAMP,
    "local-timestamp-micros": LOCAL_TIMESTAMP,
}


@dataclass(slots=True)
class AvroField:
    name: str
    type: AvroType
    aliases: tuple[str, ...]
    default: Any = _NO_DEFAULT

    @property
    def has_default(self) -> bool:
        return self.default is not _NO_DEFAULT


@dataclass(slots=True)
class AvroType:
    kind: str
    """The name of a primitive type, or record, enum, fixed, array, map, union."""
    name: str = ""
    """With its namespace."""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    element: AvroType | None = None
    """Of an array or map."""
    branches: list[AvroType] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def of_elements(self) -> AvroType:
        if self.element is None:
            raise SchemaError(f"an {self.kind} without a type of its elements")
        return self.element


def parse_avro(text: str, references: Mapping[str, str] | None = None) -> AvroType:
    """`references` are the schemas that this one refers to, by name."""
    names: dict[str, AvroType] = {}
    for reference in (references or {}).values():
        _Parser(names).parse(_load(reference), "")
    return _Parser(names).parse(_load(text), "")


def _load(text: str) -> Any:
    text = text.strip()
    if text in PRIMITIVES:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not an Avro schema: it is not JSON ({error})") from None


class _Parser:
    def __init__(self, names: dict[str, AvroType]) -> None:
        self._names = names

    def parse(self, given: Any, namespace: str) -> AvroType:
        if isinstance(given, str):
            return self._parse_name(given, namespace)
        if isinstance(given, list):
            if not given:
                raise SchemaError("a union without branches in an Avro schema")
            return AvroType("union", branches=[self.parse(branch, namespace) for branch in given])
        if not isinstance(given, dict) or "type" not in given:
            raise SchemaError(f"not an Avro schema: {json.dumps(given)[:80]}")
        kind = given["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._parse_named("record" if kind == "error" else kind, given, namespace)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in given:
                raise SchemaError(f"an Avro {kind} without '{inner}'")
            return AvroType(kind, element=self.parse(given[inner], namespace))
        parsed = self.parse(kind, namespace)
        return _with_logical_type(parsed, given) if parsed.kind in PRIMITIVES else parsed

    def _parse_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (_full_name(name, namespace), name):
            if full in self._names:
                return self._names[full]
        raise SchemaError(f"the Avro schema uses the type '{name}' without defining it before")

    def _parse_named(self, kind: str, given: dict[str, Any], namespace: str) -> AvroType:
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"an Avro {kind} without a name")
        full = _full_name(name, str(given.get("namespace") or namespace))
        inside = full.rpartition(".")[0]
        aliases = tuple(_full_name(str(alias), inside) for alias in given.get("aliases", ()))
        made = AvroType(kind, name=full, aliases=aliases)
        self._names[full] = made
        try:
            if kind == "enum":
                made.symbols = tuple(str(symbol) for symbol in given["symbols"])
                made.default_symbol = given.get("default")
            elif kind == "fixed":
                made.size = int(given["size"])
                if made.size < 0:
                    raise SchemaError(f"the Avro fixed {full} has a negative size")
                made = _with_logical_type(made, given)
                self._names[full] = made
            else:
                made.fields = [self._parse_field(entry, inside) for entry in given["fields"]]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(f"the Avro {kind} {full} is not complete: {error}") from None
        return made

    def _parse_field(self, given: dict[str, Any], namespace: str) -> AvroField:
        aliases = tuple(str(alias) for alias in given.get("aliases", ()))
        parsed = self.parse(given["type"], namespace)
        return AvroField(str(given["name"]), parsed, aliases, given.get("default", _NO_DEFAULT))


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _with_logical_type(parsed: AvroType, given: Mapping[str, Any]) -> AvroType:
    """A logical type that is unknown, or not valid for its type, is ignored, as Avro's specification demands."""
    logical = given.get("logicalType")
    made = AvroType(parsed.kind, name=parsed.name, aliases=parsed.aliases, size=parsed.size)
    if logical == "decimal" and parsed.kind in ("bytes", "fixed"):
        precision, scale = given.get("precision"), given.get("scale", 0)
        if type(precision) is int and type(scale) is int and 0 <= scale <= precision <= MAX_PRECISION and precision:
            made.logical, made.precision, made.scale = logical, precision, scale
    elif (logical == "date" and parsed.kind == "int") or (logical in _TIMES and parsed.kind == "long"):
        made.logical = str(logical)
    return made


# --- the type of a column --------------------------------------------------------------------------------------------


def to_arrow_type(avro: AvroType, inside: tuple[str, ...] = ()) -> pa.DataType:
    if avro.kind == "record":
        if avro.name in inside:
            raise SchemaError(f"the Avro record {avro.name} contains itself: a column cannot have a recursive type")
        return struct_of((entry.name, to_arrow_type(entry.type, (*inside, avro.name))) for entry in avro.fields)
    if avro.kind == "array":
        return list_of(to_arrow_type(avro.of_elements, inside))
    if avro.kind == "map":
        return map_of(to_arrow_type(avro.of_elements, inside))
    if avro.kind == "union":
        members = union_members(avro)
        if len(members) == 1:
            return to_arrow_type(members[0], inside)
        return struct_of((f"member{i}", to_arrow_type(member, inside)) for i, member in enumerate(members))
    if avro.logical == "decimal":
        return pa.decimal128(avro.precision, avro.scale)
    if avro.logical == "date":
        return pa.date32()
    if avro.logical in _TIMES:
        return _TIMES[avro.logical]
    return _PLAIN[avro.kind]


_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}


def union_members(avro: AvroType) -> list[AvroType]:
    """The branches that a column has: without null, and numbers of two widths as the wider."""
    members = [branch for branch in avro.branches if branch.kind != "null"]
    kinds = sorted(member.kind for member in members if not member.logical)
    if len(members) == 2 and kinds in (["int", "long"], ["double", "float"]):
        return [AvroType("long" if "long" in kinds else "double")]
    return members or [AvroType("null")]
