"""Formats of keys and values that are written, and the format strings by which `insync consume` prints records."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable

from insync.cli.exits import usage_error
from insync.client.errors import ClientError
from insync.wire.batch import Record

FORMATS = ("text", "json", "hex", "base64")
"""How the bytes of a key or a value are written in the input."""

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)|[%\\]$", re.DOTALL)
FIELDS = "%t topic, %p partition, %o offset, %k key, %s value, %T timestamp, %h headers, %K and %S sizes, %% percent"

Render = Callable[[str, int, Record], bytes]


def unescape(text: str) -> bytes:
    """Text with \\n, \\t, \\0 and \\xHH as one writes them in a shell."""
    matches = re.finditer(r"\\(x[0-9a-fA-F]{2}|.)|([^\\]+|\\$)", text, re.DOTALL)
    return b"".join(
        [_escaped(match[1]) if match[1] else match[2].encode("utf-8", "surrogateescape") for match in matches]
    )


def _escaped(name: str) -> bytes:
    if name.startswith("x") and len(name) == 3:
        return bytes.fromhex(name[1:])
    return _ESCAPES.get(name, b"\\" + name.encode("utf-8", "surrogateescape"))


def decode_input(data: bytes, kind: str) -> bytes:
    """The bytes that a key or a value stands for."""
    if kind == "text":
        return data
    try:
        if kind == "hex":
            return bytes.fromhex(data.decode("ascii"))
        if kind == "base64":
            return base64.b64decode(data, validate=True)
        json.loads(data)
    except (ValueError, binascii.Error, RecursionError) as error:
        raise ClientError(f"{data[:80]!r} is not {kind}: {error}") from None
    return data


def parse_format(text: str) -> Render:
    """A format string as kcat has them; exit code 2 for an unknown field."""
    parts: list[Render] = []
    for match in _TOKEN.finditer(text):
        field, escape, literal = match.groups()
        if field is None:
            data = _escaped(escape) if escape else (literal or match[0]).encode("utf-8", "surrogateescape")
            parts.append(lambda topic, partition, record, data=data: data)  # type: ignore[misc]
        elif field in _FIELDS:
            parts.append(_FIELDS[field])
        else:
            raise usage_error(f"--format {text}: there is no field %{field}. Use {FIELDS}")
    return lambda topic, partition, record: b"".join([part(topic, partition, record) for part in parts])


def _size(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


_FIELDS: dict[str, Render] = {
    "t": lambda topic, partition, record: topic.encode(),
    "p": lambda topic, partition, record: b"%d" % partition,
    "o": lambda topic, partition, record: b"%d" % record.offset,
    "k": lambda topic, partition, record: record.key or b"",
    "s": lambda topic, partition, record: record.value or b"",
    "T": lambda topic, partition, record: b"%d" % record.timestamp_ms,
    "h": lambda topic, partition, record: _headers(record),
    "K": lambda topic, partition, record: _size(record.key),
    "S": lambda topic, partition, record: _size(record.value),
    "%": lambda topic, partition, record: b"%",
}
