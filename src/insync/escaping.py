"""Text that came from outside (client ids, group ids, names, values), made safe for a log line or a terminal.

A name may contain a line break, which would forge a log line, or an escape sequence, which a terminal would obey. What
is not printable is written as Python writes it in a string literal (`\\n`, `\\x1b`, `\\u202e`).
"""

from __future__ import annotations

MAX_SHOWN = 1_024
"""Characters of one value in a log line."""
_NEED_QUOTES = (" ", "=", '"', "'", "\\")


def printable(text: str, keep: str = "") -> str:
    """`text` with everything escaped that is not printable, except for the characters in `keep`."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text])


def log_value(value: object) -> str:
    """One value of a `name=value` log line: bounded, and in quotes unless it is one plain word."""
    text = str(value)
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}...({len(text)} characters)"
    if text and text.isprintable() and not any(c in text for c in _NEED_QUOTES):
        return text
    return repr(text)
