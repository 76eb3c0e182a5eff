"""The credentials in Java's `sasl.jaas.config`: a login module, a flag, and options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="one \\"quoted\\" word";

Errors never repeat any of the text: any part of it may be the password.
"""

from __future__ import annotations

import re

_HEAD = re.compile(r"\s*([\w.$-]+)\s+(?:required|requisite|sufficient|optional)\b", re.I)
_OPTION = re.compile(r"""\s*([\w.$-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s"'=;]+))""", re.S)
_END = re.compile(r"\s*;\s*")
_ESCAPED = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.S)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """What is wrong; does not contain the text."""


def parse(text: str) -> tuple[str, dict[str, str]]:
    """(login module, options)."""
    head = _HEAD.match(text)
    if head is None:
        raise JaasError("must start with a login module and 'required'")
    options, at = {}, head.end()
    while option := _OPTION.match(text, at):
        name, double, single, bare = option.groups()
        options[name] = bare if bare is not None else _ESCAPED.sub(_unescaped, single if double is None else double)
        at = option.end()
    end = _END.match(text, at)
    if end is None:
        raise JaasError("""must be options of the form name="value" and a ';' after the last; a " inside is \\\"""")
    if end.end() < len(text):
        raise JaasError("must be one login module: there is text after its ';'")
    return head[1], options


def _unescaped(match: re.Match[str]) -> str:
    """As Java's tokenizer: octal numbers, control characters, and any other character stands for itself."""
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _CONTROLS.get(code, code)
