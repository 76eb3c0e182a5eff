"""Makes text from outside (client ids, group ids, names, values) safe for a log line or a terminal.

A name may contain a line break, which would forge a log line, or an escape sequence, which a terminal would execute.
Characters that are not printable are escaped as in a Python string literal (`\\n`, `\\x1b`, `\\u202e`).
"""

from __future__ import annotations

MAX_VALUE_LENGTH = 1_024
"""Characters of one value in a log line."""
_NEED_QUOTES = (" ", "=", '"', "'", "\\")


def printable(text: str, keep: str = "") -> str:
    """Escape all characters that are not printable, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text])


def log_value(value: object) -> str:
    """One value of a `name=value` log line: shortened if long, and quoted unless it is one plain word."""
    text = str(value)
    if len(text) > MAX_VALUE_LENGTH:
        text = f"{text[:MAX_VALUE_LENGTH]}...({len(text)} characters)"
    if text and text.isprintable() and not any(c in text for c in _NEED_QUOTES):
        return text
    return repr(text)
