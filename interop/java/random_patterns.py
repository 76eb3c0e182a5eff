"""Random regular expressions in Java's dialect, some of them invalid, and topic names to try them on."""

from __future__ import annotations

from random import Random

_NAME = "abcABC019._-"
_CHARACTERS = ("a", "b", "c", "A", "B", "0", "1", r"\.", "_", "-", ".", r"\-")
_SETS = (
    *(r"\d", r"\w", r"\S", r"\W", r"\h", r"\H", r"\V", r"\p{Upper}", r"\p{Lower}", r"\P{Alpha}", r"\p{L}", r"\p{Lu}"),
    *(r"\p{XDigit}", r"\p{IsAlphabetic}", r"\p{Pd}", r"\p{javaLowerCase}", r"\p{gc=Nd}", r"\p{IsLatin}"),
)
_ANCHORS = ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G")
_SPECIAL = (
    *(r"\Qa.b\E", r"\Q-\E", r"\x61", r"\u0041", r"\0141", r"\1", r"\2", r"\k<n>", r"\x{62}", "}", "]", r"\R", r"\e"),
)
_GROUPS = ("(", "(?:", "(?>", "(?=", "(?!", "(?<n>", "(?i:", "(?<=", "(?<!", "(?x:", "(?i-s:", "(?-i:")
_QUANTIFIERS = ("*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{0,1}+", "{1,}?")
_FLAGS = ("(?i)", "(?-i)", "(?x)", "(?s)", "(?U)")
_CLASS_ITEMS = ("a", "b", "A", "C", "0", r"\.", "_", r"\-", "&", ".", " ", "a-c", "A-B", "0-9", "a-zA-Z", "b-b", "_-c")
_CLASS_SETS = (r"\d", r"\w", r"\p{Alpha}", r"\P{Lower}", r"\h", r"\W", r"\pL", r"\D", r"\p{Punct}", r"\Q-]\E", r"\x41")
_STRAY = "()[]{}*+?\\|^$&-#x "


def random_name(random: Random) -> str:
    return "".join(random.choice(_NAME) for _ in range(random.randint(1, 6)))


def random_pattern(random: Random) -> str:
    pattern = _alternatives(random, 0)
    if random.random() < 0.1:
        at = random.randint(0, len(pattern))
        pattern = pattern[:at] + random.choice(_STRAY) + pattern[at:]
    return pattern


def _alternatives(random: Random, depth: int) -> str:
    return "|".join(_sequence(random, depth) for _ in range(random.choice((1, 1, 1, 2))))


def _sequence(random: Random, depth: int) -> str:
    parts = []
    for _ in range(random.randint(0 if depth else 1, 3)):
        if random.random() < 0.06:
            parts.append(random.choice(_FLAGS))
        parts.append(_atom(random, depth))
        if random.random() < 0.3:
            parts.append(random.choice(_QUANTIFIERS))
    return "".join(parts)


def _atom(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.35 or (depth > 2 and kind >= 0.72):
        return random.choice(_CHARACTERS)
    if kind < 0.5:
        return _class(random, 0)
    if kind < 0.72:
        return random.choice(random.choice((_SETS, _ANCHORS, _SPECIAL)))
    return random.choice(_GROUPS) + _alternatives(random, depth + 1) + ")"


def _class(random: Random, depth: int) -> str:
    operands = [_union(random, depth, 3)]
    while random.random() < 0.25:
        operands.append(_union(random, depth, 2))
    return "[" + random.choice(("", "", "^")) + "&&".join(operands) + "]"


def _union(random: Random, depth: int, most: int) -> str:
    parts = []
    for _ in range(random.randint(1, most)):
        kind = random.random()
        if kind < 0.15 and depth < 2:
            parts.append(_class(random, depth + 1))
        else:
            parts.append(random.choice(_CLASS_SETS if kind < 0.3 else _CLASS_ITEMS))
    return "".join(parts)
