"""Records as JSON objects or plain lines."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from insync.cli.parsing import iso
from insync.client.errors import ClientError
from insync.escaping import printable
from insync.wire.batch import NewRecord, Record

Json = str | dict[str, str] | None

EXPECTED = 'Write one object a line, such as {"key": "a", "value": "b"}; `insync consume --json` prints this format.'


def to_json(topic: str, partition: int, record: Record) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _to_text(record.key),
        "value": _to_text(record.value),
        "headers": [[name, _to_text(value)] for name, value in record.headers],
    }


def from_json(line: str) -> tuple[NewRecord, int | None]:
    """A record and its partition, if given, in the format of `consume --json`."""
    try:
        parsed = json.loads(line)
    except ValueError as error:
        raise ClientError(f"this input line is not JSON: {line[:80]} ({error}). {EXPECTED}") from None
    if not isinstance(parsed, dict):
        raise ClientError(f"this input line is not a JSON object: {line[:80]}. {EXPECTED}")
    headers = parsed.get("headers") or []
    named = list(headers.items()) if isinstance(headers, dict) else headers
    try:
        record = NewRecord(
            _to_bytes(parsed.get("key")),
            _to_bytes(parsed.get("value")),
            tuple((str(name), _to_bytes(value)) for name, value in named),
            None if parsed.get("timestamp") is None else int(parsed["timestamp"]),
        )
        partition = parsed.get("partition")
        return record, None if partition is None else int(partition)
    except (TypeError, ValueError) as error:
        raise ClientError(f"this input line is not a record: {line[:80]} ({error}). {EXPECTED}") from None


def to_line(
    partition: int,
    record: Record,
    *,
    keys: bool,
    headers: bool,
    timestamps: bool,
    offsets: bool,
    separator: str,
    terminal: bool = False,
    pretty: bool = False,
) -> str:
    """With `terminal`, control characters are escaped; pipes get the record unchanged."""
    parts = [iso(record.timestamp_ms)] if timestamps else []
    parts += [f"{partition}:{record.offset}"] if offsets else []
    parts += [",".join(f"{name}={_readable(value)}" for name, value in record.headers) or "-"] if headers else []
    parts += [_readable(record.key)] if keys else []
    line = separator.join([*parts, _indented(record.value) if pretty else _readable(record.value)])
    return printable(line, keep="\n\t") if terminal else line


def _readable(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="backslashreplace")


def _indented(data: bytes | None) -> str:
    """JSON with a line for each element; what is not JSON stays as it is."""
    try:
        return json.dumps(json.loads(data or b""), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return _readable(data)


def _to_text(data: bytes | None) -> Json:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _to_bytes(value: Any) -> bytes | None:
    """Text, null or {"base64": ...}; anything else becomes JSON text."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"not base64: {error}") from None
    return json.dumps(value).encode()
