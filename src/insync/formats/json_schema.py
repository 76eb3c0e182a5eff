"""JSON Schema, as schema registries store it, as an Arrow type: what has one type and known properties.

Properties that are not listed are not read. What a column cannot express, such as alternatives of several types or a
property without a type, is a string with the JSON text.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from insync.formats.arrow_types import TIMESTAMP, list_of, map_of, struct_of
from insync.formats.errors import SchemaError

_FORMATS = {"date": pa.date32(), "date-time": TIMESTAMP}
MAX_DEPTH = 64


def parse_json_schema(text: str) -> pa.DataType:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not a JSON Schema: {error}") from None
    if not isinstance(schema, dict):
        raise SchemaError("not a JSON Schema: it is not an object")
    return _to_type(schema, schema, 0)


def _to_type(given: Any, root: dict[str, Any], depth: int) -> pa.DataType:
    if depth > MAX_DEPTH:
        raise SchemaError("the JSON Schema refers to itself: a column cannot have a recursive type")
    if not isinstance(given, dict):
        return pa.string()
    if "$ref" in given:
        return _to_type(_follow(str(given["$ref"]), root), root, depth + 1)
    choices: Any = given.get("oneOf") or given.get("anyOf") or ()
    alternatives = [entry for entry in choices if entry != {"type": "null"}]
    if len(alternatives) == 1:
        return _to_type(alternatives[0], root, depth + 1)
    kinds = given.get("type")
    names = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else [kinds]
    kind = names[0] if len(names) == 1 else None
    if kind is None and "properties" in given:
        kind = "object"
    if kind == "object":
        return _to_object(given, root, depth)
    if kind == "array":
        return list_of(_to_type(given.get("items", {}), root, depth + 1))
    if kind == "string":
        return _FORMATS.get(str(given.get("format")), pa.string())
    return {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}.get(str(kind), pa.string())


def _to_object(given: dict[str, Any], root: dict[str, Any], depth: int) -> pa.DataType:
    if properties := given.get("properties"):
        return struct_of((name, _to_type(entry, root, depth + 1)) for name, entry in properties.items())
    values = given.get("additionalProperties", {})
    return map_of(_to_type(values, root, depth + 1))


def _follow(reference: str, root: dict[str, Any]) -> Any:
    if not reference.startswith("#"):
        raise SchemaError(
            f"the JSON Schema refers to {reference}, which is not in it: give the schema as 'valueSchema'"
        )
    target: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) and name else target
    return target
