"""Spark's notation for types, such as `id BIGINT, tags ARRAY<STRING>`, as Arrow types.

Spark itself has a parser for it in Java only, which the processes that plan a Python data source cannot ask.
"""

from __future__ import annotations

import re

import pyarrow as pa

from insync.formats.arrow_types import LOCAL_TIMESTAMP, MAX_PRECISION, TIMESTAMP, list_of, map_of, struct_of
from insync.formats.errors import SchemaError

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([A-Za-z_0-9]+)|([<>(),:]))")
_SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": LOCAL_TIMESTAMP,
}


def parse_ddl(text: str) -> pa.DataType:
    """A type, or fields with commas between them, which are a struct."""
    parser = _Parser(text)
    parsed = parser.parse_type() if parser.is_type() else struct_of(parser.parse_fields(""))
    parser.expect("")
    return parsed


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise SchemaError(f"{text[at:].strip()[:20]!r} is not understood in the schema {text!r}")
            self._tokens.append(match[0].strip())
            at = match.end()
        self._at = 0

    def is_type(self) -> bool:
        """A single name with its parameters, not a list of fields."""
        following = self._tokens[1] if len(self._tokens) > 1 else ""
        return self._peek().lower() in (*_SIMPLE, "array", "map", "struct", "decimal") and following in ("", "<", "(")

    def parse_type(self) -> pa.DataType:
        name = self._next().lower()
        if name == "array":
            self.expect("<")
            element = self.parse_type()
            self.expect(">")
            return list_of(element)
        if name == "map":
            self.expect("<")
            key = self.parse_type()
            self.expect(",")
            value = self.parse_type()
            self.expect(">")
            return map_of(value, key)
        if name == "struct":
            self.expect("<")
            fields = self.parse_fields(">")
            self.expect(">")
            return struct_of(fields)
        numbers = self._parse_numbers()
        if name in ("decimal", "dec", "numeric"):
            precision, scale = (*numbers, *(10, 0)[len(numbers) :])
            if not 0 <= scale <= precision <= MAX_PRECISION or not precision:
                raise self._error(f"a decimal has 1 to {MAX_PRECISION} digits and no more after its point")
            return pa.decimal128(precision, scale)
        if name not in _SIMPLE:
            raise self._error(f"there is no type '{name}'")
        return _SIMPLE[name]

    def parse_fields(self, end: str) -> list[tuple[str, pa.DataType]]:
        fields: list[tuple[str, pa.DataType]] = []
        while self._peek() != end:
            if fields:
                self.expect(",")
            name = self._next()
            if not re.match(r"[`A-Za-z_0-9]", name):
                raise self._error(f"{name!r} is not a field's name")
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if self._peek() == ":":
                self._next()
            fields.append((name, self.parse_type()))
            self._skip_remarks()
        return fields

    def expect(self, token: str) -> None:
        if self._peek() != token:
            expected, actual = (f"'{text}'" if text else "its end" for text in (token, self._peek()))
            raise self._error(f"{expected} expected, not {actual}")
        self._at += bool(token)

    def _skip_remarks(self) -> None:
        """NOT NULL and COMMENT: every column of a decoded value may be null."""
        while self._peek().lower() in ("not", "comment"):
            self._at += 2

    def _parse_numbers(self) -> tuple[int, ...]:
        if self._peek() != "(":
            return ()
        self._next()
        numbers = [self._parse_number()]
        while self._peek() == ",":
            self._next()
            numbers.append(self._parse_number())
        self.expect(")")
        if len(numbers) > 2:
            raise self._error("a type has at most two parameters")
        return tuple(numbers)

    def _parse_number(self) -> int:
        token = self._next()
        if not token.isdecimal():
            raise self._error(f"{token!r} is not a number")
        return int(token)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise self._error("it ends too early")
        self._at += 1
        return token

    def _error(self, problem: str) -> SchemaError:
        return SchemaError(f"the schema {self._text!r}: {problem}")
