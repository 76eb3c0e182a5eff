"""Java's properties files: those of Kafka's brokers, and those for the --command-config of its tools.

A `#` or `!` begins a comment, `=`, `:` or white space ends a name, and a backslash at the end continues a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PAIR = re.compile(r"((?:\\.|[^\s=:\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.S)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def entries(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields (line number, name, value)."""
    for number, line in _lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is not None:
            yield number, _unescape(pair[1]), _unescape(pair[2])


def parse(text: str) -> dict[str, str]:
    """The last line with a name wins, as in Java."""
    return {name: value for _, name, value in entries(text)}


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first physical line; comments and empty lines are skipped."""
    whole, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = natural.lstrip(" \t\f")
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        if _continues(line):
            whole += line[:-1]
            continue
        yield first, whole + line
        whole, first = "", 0
    if first:
        yield first, whole


def _continues(line: str) -> bool:
    """Whether the line ends with an odd number of backslashes; pairs of them are escaped backslashes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    unescaped = _ESCAPED.sub(lambda match: _character(match[1]), text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins surrogate pairs


def _character(code: str) -> str:
    return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROLS.get(code, code)
