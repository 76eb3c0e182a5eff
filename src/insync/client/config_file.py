"""Java's properties files, such as Kafka's own tools take with --command-config.

A `#` or `!` begins a comment, `=`, `:` or white space ends a name, and a backslash at the end continues a line.
"""

from __future__ import annotations

import re

_PAIR = re.compile(r"((?:\\.|[^\s=:\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.S)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """The last line with a name wins, as in Java."""
    found = {}
    for line in _lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is not None:
            found[_plain(pair[1])] = _plain(pair[2])
    return found


def _lines(text: str) -> list[str]:
    """Logical lines, without comments and empty ones."""
    found: list[str] = []
    going_on = False
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not going_on and (not line or line[0] in "#!"):
            continue
        body = line[:-1] if (continues := _continues(line)) else line
        if going_on:
            found[-1] += body
        else:
            found.append(body)
        going_on = continues
    return found


def _continues(line: str) -> bool:
    """An even number of backslashes are backslashes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _plain(text: str) -> str:
    found = _ESCAPED.sub(lambda match: _character(match[1]), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes may be one character


def _character(code: str) -> str:
    return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROLS.get(code, code)
