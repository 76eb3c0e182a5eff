"""Java's regular expressions for topic names, as Python's.

Spark's connector selects topics with `java.util.regex`: a pattern has to match somewhere in the name. The dialects
differ in many places (`\\p{Alpha}`, `\\h`, `(?<name>…)`, `\\Q…\\E`, intersections of character classes, what counts as
an error), so a pattern is parsed here as Java does and written anew. Topic names consist of 65 characters (`ALPHABET`):
everything that matches one character, such as a letter, a class or a property, becomes the set of those characters.
What cannot be translated is refused with an error that names the construct.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters of topic names."""

_NOTHING: frozenset[str] = frozenset()
_NEVER = r"[^\x00-\U0010ffff]"
_WORD = frozenset(string.ascii_letters + string.digits + "_") & ALPHABET
_DIGITS = frozenset(string.digits)
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _NOTHING, "h": _NOTHING, "v": _NOTHING}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {"A": r"(?:\A)", "G": r"(?:\A)", "Z": r"(?:\Z)", "z": r"(?:\Z)", "b": r"(?:\b)", "B": r"(?:\B)"}
_WHITESPACE = " \t\n\x0b\f\r"
_QUANTIFIERS = "*+?{"
_MAX_REPEAT = (1 << 31) - 1
_FLAGS = "idmsuxU"

_LOWER, _UPPER = frozenset(string.ascii_lowercase), frozenset(string.ascii_uppercase)
_LETTERS, _PUNCTUATION = _LOWER | _UPPER, frozenset("._-")
_CATEGORIES = {
    *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Me", "Mc", "N", "Nd", "Nl", "No", "Z", "Zs", "Zl", "Zp"),
    *("C", "Cc", "Cf", "Co", "Cs", "Cn", "P", "Pd", "Ps", "Pe", "Pc", "Po", "Pi", "Pf", "S", "Sm", "Sc", "Sk", "So"),
}
_POSIX = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ALPHABET,
    "Alpha": _LETTERS,
    "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": ALPHABET,
    "Print": ALPHABET,
    "Blank": _NOTHING,
    "Cntrl": _NOTHING,
    "XDigit": frozenset(string.hexdigits),
    "Space": _NOTHING,
    "L1": ALPHABET,
    "all": ALPHABET,
    "LC": _LETTERS,
    "LD": _LETTERS | _DIGITS,
    "javaLowerCase": _LOWER,
    "javaUpperCase": _UPPER,
    "javaAlphabetic": _LETTERS,
    "javaLetter": _LETTERS,
    "javaDigit": _DIGITS,
    "javaLetterOrDigit": _LETTERS | _DIGITS,
    "javaWhitespace": _NOTHING,
    "javaSpaceChar": _NOTHING,
    "javaISOControl": _NOTHING,
    "javaMirrored": _NOTHING,
    "javaTitleCase": _NOTHING,
    "javaDefined": ALPHABET,
}
_BINARY = {  # \p{Is…}, in any case
    "ALPHABETIC": _LETTERS,
    "LETTER": _LETTERS,
    "IDEOGRAPHIC": _NOTHING,
    "LOWERCASE": _LOWER,
    "UPPERCASE": _UPPER,
    "TITLECASE": _NOTHING,
    "WHITE_SPACE": _NOTHING,
    "CONTROL": _NOTHING,
    "PUNCTUATION": _PUNCTUATION,
    "HEX_DIGIT": frozenset(string.hexdigits),
    "ASSIGNED": ALPHABET,
    "DIGIT": _DIGITS,
    "ALNUM": _LETTERS | _DIGITS,
    "BLANK": _NOTHING,
    "GRAPH": ALPHABET,
    "PRINT": ALPHABET,
    "WORD": _WORD,
}
_SCRIPTS = {"LATIN": _LETTERS, "LATN": _LETTERS, "COMMON": ALPHABET - _LETTERS, "ZYYY": ALPHABET - _LETTERS}


class JavaPatternError(ValueError):
    """Not a regular expression in Java, or one that has no equivalent here."""


def compile_java_pattern(pattern: str) -> re.Pattern[str]:
    """For topic names: `search` finds what Java's `Matcher.find` finds."""
    translated = translate(pattern)
    try:
        return re.compile(translated, re.ASCII)
    except re.error as error:
        if "look-behind" in str(error):
            raise _unsupported("a lookbehind of variable length") from None
        raise JavaPatternError(f"not supported here: {error}") from None
    except (RecursionError, OverflowError):
        raise JavaPatternError("too large") from None


def translate(pattern: str) -> str:
    return _Translator(_expand_quotes(pattern)).translate()


def _unsupported(construct: str) -> JavaPatternError:
    return JavaPatternError(f"{construct} is not supported here, though Java has it")


def _invalid(problem: str) -> JavaPatternError:
    return JavaPatternError(f"not a regular expression: {problem}")


def _expand_quotes(pattern: str) -> str:
    r"""With `\Q…\E` written as escaped characters, as Java does before it parses."""
    expanded: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("\\Q", at):
            end = pattern.find("\\E", at)
            end = len(pattern) if end < 0 else end
            expanded += map(_escape_quoted, pattern[at + 2 : end])
            at = end + 2
        else:
            size = 2 if pattern[at] == "\\" else 1
            expanded.append(pattern[at : at + size])
            at += size
    return "".join(expanded)


def _escape_quoted(char: str) -> str:
    if char.isascii() and char.isdigit():
        return f"\\x3{char}"  # a digit must not continue an escape before the quote
    return char if char.isascii() and char.isalpha() else f"\\{char}"


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = 0
        self._open: list[int] = []
        self._names: dict[str, int] = {}
        self._forward: list[int] = []

    def translate(self) -> str:
        alternatives = self._alternatives()
        if self._at < len(self._text):
            raise _invalid("an unmatched ')'")
        if any(group <= self._groups for group in self._forward):
            raise _unsupported("a backreference to a group that comes later")
        return "|".join(alternatives)

    # --- characters of the pattern -----------------------------------------------------------------------------------

    def _peek(self) -> str:
        """The next character, after comments if they are on; empty at the end."""
        if "x" in self._flags:
            self._skip_comments()
        return self._text[self._at : self._at + 1]

    def _skip_comments(self) -> None:
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end + 1
            elif self._text[self._at] in _WHITESPACE:
                self._at += 1
            else:
                return

    def _take(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        return char

    def _accept(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _take_match(self, expression: str, problem: str) -> re.Match[str]:
        match = re.compile(expression).match(self._text, self._at)
        if match is None:
            raise _invalid(problem)
        self._at = match.end()
        return match

    # --- structure ---------------------------------------------------------------------------------------------------

    def _alternatives(self) -> list[str]:
        alternatives = [self._sequence()]
        while self._peek() == "|":
            self._take()
            alternatives.append(self._sequence())
        return alternatives

    def _sequence(self) -> str:
        parts: list[str] = []
        while (char := self._peek()) and char not in "|)":
            if char in "*+?":
                raise _invalid(f"nothing before the quantifier '{char}'")
            if char == "{":
                raise _invalid("a '{' that is not part of a quantifier")
            atom = self._atom()
            if atom is not None:
                parts.append(atom + self._quantifier())
        return "".join(parts)

    def _quantifier(self) -> str:
        char = self._peek()
        if not char or char not in _QUANTIFIERS:
            return ""
        if char == "{":
            match = self._take_match(r"\{(\d+)(,(\d*))?\}", "a '{' that is not part of a quantifier")
            low, high = int(match[1]), int(match[3] or _MAX_REPEAT)
            if not low <= high <= _MAX_REPEAT:
                raise _invalid(f"the repetition {match[0]}")
            written = match[0]
        else:
            written = self._take()
        following = self._peek()
        if following and following in "?+":
            written += self._take()
        if self._peek() == "{":
            raise _unsupported("a quantifier of a quantifier")
        return written

    def _atom(self) -> str | None:
        """None for what is only a change of flags."""
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return _written(self._class())
        if char == "\\":
            return self._escape()
        if char == ".":
            return _written(ALPHABET)
        if char == "^":
            return _ANCHORS["A"]
        if char == "$":
            return _ANCHORS["z"]
        return _written(self._literal(char))

    def _literal(self, char: str) -> frozenset[str]:
        if not char.isascii() and "u" in self._flags:
            raise _unsupported("a character outside ASCII together with (?u)")
        return self._ignore_case(frozenset(char) & ALPHABET if char in ALPHABET else _NOTHING)

    def _ignore_case(self, chars: frozenset[str]) -> frozenset[str]:
        return frozenset(c for char in chars for c in (char.lower(), char.upper())) if "i" in self._flags else chars

    # --- groups ------------------------------------------------------------------------------------------------------

    def _group(self) -> str | None:
        if not self._accept("?"):
            return self._capturing()
        for opening in (":", "=", "!", ">"):
            if self._accept(opening):
                return f"(?{opening}{'|'.join(self._body())})"
        if self._accept("<="):
            return "(?:" + "|".join(f"(?<={body})" for body in self._body()) + ")"
        if self._accept("<!"):
            return "(?:" + "".join(f"(?<!{body})" for body in self._body()) + ")"
        if self._accept("<"):
            name = self._take_match(r"([a-zA-Z][a-zA-Z0-9]*)>", "a group whose name is not made of letters and digits")[
                1
            ]
            if name in self._names:
                raise _invalid(f"two groups called '{name}'")
            return self._capturing(name)
        return self._change_flags()

    def _capturing(self, name: str = "") -> str:
        self._groups += 1
        number = self._groups
        if name:
            self._names[name] = number
        self._open.append(number)
        body = "|".join(self._body())
        self._open.remove(number)
        return f"({body})"

    def _body(self) -> list[str]:
        with self._own_flags():
            alternatives = self._alternatives()
        if not self._accept(")"):
            raise _invalid("a group without ')'")
        return alternatives

    @contextmanager
    def _own_flags(self) -> Iterator[None]:
        before = self._flags
        yield
        self._flags = before

    def _change_flags(self) -> str | None:
        start = self._at
        match = re.compile(rf"([{_FLAGS}]*)(?:-([{_FLAGS}]*))?([:)])").match(self._text, self._at)
        if match is None:
            raise _invalid(f"a group that begins with '(?{self._text[start : start + 1]}'")
        self._at = match.end()
        added = set(match[1]) | ({"u"} if "U" in match[1] else set())
        changed = (self._flags | added) - set(match[2] or "")
        if match[3] == ")":
            self._flags = changed
            return None
        before, self._flags = self._flags, changed
        body = "|".join(self._alternatives())
        self._flags = before
        if not self._accept(")"):
            raise _invalid("a group without ')'")
        return f"(?:{body})"

    # --- escapes -----------------------------------------------------------------------------------------------------

    def _escape(self) -> str:
        char = self._text[self._at : self._at + 1]
        if char and char in _ANCHORS:
            self._take()
            if char == "b" and self._accept("{"):
                raise _unsupported(r"\b{g}")
            return _ANCHORS[char]
        if char == "R":
            self._take()
            return _NEVER
        if char == "X":
            raise _unsupported(r"\X")
        if char == "k":
            self._take()
            name = self._take_match(r"<([a-zA-Z][a-zA-Z0-9]*)>", r"\k without the name of a group")[1]
            if name not in self._names:
                raise _invalid(f"there is no group '{name}' before \\k<{name}>")
            return self._backreference(self._names[name])
        if char and char in "123456789":
            return self._backreference(self._reference_number())
        return _written(self._escaped_set() if self._is_escaped_set() else self._literal(self._escaped_char()))

    def _reference_number(self) -> int:
        """As many digits as name a group that has begun."""
        number = int(self._take())
        while (digit := self._text[self._at : self._at + 1]).isdecimal() and number * 10 + int(digit) <= self._groups:
            number = number * 10 + int(self._take())
        return number

    def _backreference(self, number: int) -> str:
        if number in self._open:
            raise _unsupported("a backreference within its own group")
        if number > self._groups:
            self._forward.append(number)
            return _NEVER
        return f"(?i:\\{number})" if "i" in self._flags else f"(?:\\{number})"

    def _is_escaped_set(self) -> bool:
        r"""Whether a set such as \d follows the backslash, not a single character."""
        char = self._text[self._at : self._at + 1]
        return char != "" and (char.lower() in _CLASSES or char in "pP")

    def _escaped_set(self) -> frozenset[str]:
        char = self._take()
        if char in "pP":
            return self._negated_if(char == "P", self._ignore_case(self._property()))
        return self._negated_if(char.isupper(), _CLASSES[char.lower()])

    def _escaped_char(self) -> str:
        char = self._take()
        if not char:
            raise _invalid("a backslash at the end")
        if char in _CONTROLS or not (char.isascii() and char.isalnum()):
            return _CONTROLS.get(char, char)
        if char == "c":
            if not (control := self._take()):
                raise _invalid(r"\c without a character")
            return chr(ord(control) ^ 64)
        if char == "0":
            return chr(int(self._take_match("[0-3][0-7]{2}|[0-7]{1,2}", r"\0 without octal digits")[0], 8))
        if char == "u":
            return chr(int(self._take_match("[0-9a-fA-F]{4}", r"\u without four digits")[0], 16))
        if char == "x":
            match = self._take_match(r"\{([0-9a-fA-F]{1,8})\}|[0-9a-fA-F]{2}", r"\x without hexadecimal digits")
            if (code := int(match[1] or match[0], 16)) > sys.maxunicode:
                raise _invalid(f"\\x{match[0]}")
            return chr(code)
        if char == "N":
            name = self._take_match(r"\{([^}]*)\}", r"\N without a name")[1]
            try:
                return unicodedata.lookup(name)
            except KeyError:
                raise _invalid(f"there is no character '{name}'") from None
        raise _invalid(f"\\{char}")

    def _negated_if(self, negated: bool, chars: frozenset[str]) -> frozenset[str]:
        return ALPHABET - chars if negated else chars

    def _property(self) -> frozenset[str]:
        name = self._take_match(r"([^}]*)\}", r"\p without '}'")[1] if self._accept("{") else self._take()
        chars: frozenset[str] | None
        key, _, value = name.partition("=")
        if value:
            chars = _keyed_property(key.lower(), value)
        elif name.startswith("In"):
            chars = _block(name[2:])
        elif name.startswith("Is"):
            upper = name[2:].upper()
            chars = _BINARY.get(upper, _SCRIPTS.get(upper))
            chars = _category(name[2:]) if chars is None else chars
        else:
            chars = _POSIX.get(name, _category(name))
        if chars is None:
            raise JavaPatternError(f"\\p{{{name}}} is unknown or not supported here")
        return chars

    # --- character classes -------------------------------------------------------------------------------------------

    def _class(self) -> frozenset[str]:
        """After the '['."""
        negated = self._accept("^")
        chars = self._union(first=True)
        while self._accept("&&"):
            if self._text[self._at : self._at + 1] in ("&", "]", ""):
                raise _unsupported("an intersection with an empty operand in a character class")
            chars &= self._union(first=False)
        if not self._accept("]"):
            raise _invalid("a character class without ']'")
        return self._negated_if(negated, chars)

    def _union(self, *, first: bool) -> frozenset[str]:
        """Up to the class's end or an intersection. `first`: of the class."""
        chars: frozenset[str] = _NOTHING
        items = nested = 0
        while True:
            char = self._peek()
            if not char or (char == "]" and not (first and not items)):
                break
            if self._text.startswith("&&", self._at):
                if not items:
                    raise _unsupported("an intersection with an empty operand in a character class")
                break
            items += 1
            if char == "[":
                self._take()
                nested += 1
                chars |= self._class()
            else:
                chars |= self._range()
        if not first and nested and items > 1:  # Java reads these in ways that its documentation does not tell
            raise _unsupported("an intersection with a nested class and more in a character class")
        return chars

    def _range(self) -> frozenset[str]:
        """One character, a range of them, or an escaped set."""
        low = self._class_char()
        if low is None:
            return self._escaped_set()
        following = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "-" or following in ("]", "[", "") or self._text.startswith("-&&", self._at):
            return self._literal(low)
        self._take()
        self._peek()
        high = self._class_char()
        if high is None or high < low:
            raise _invalid("an impossible range in a character class")
        between = frozenset(char for char in ALPHABET if low <= char <= high)
        if "u" in self._flags and not high.isascii():
            raise _unsupported("a character outside ASCII together with (?u)")
        return self._ignore_case(between)

    def _class_char(self) -> str | None:
        r"""The next character of a class, or None before a set such as \d: the backslash is taken."""
        char = self._take()
        if char != "\\":
            return char
        return None if self._is_escaped_set() else self._escaped_char()


def _category(name: str) -> frozenset[str] | None:
    if name not in _CATEGORIES:
        return None
    return frozenset(char for char in ALPHABET if unicodedata.category(char).startswith(name))


def _keyed_property(key: str, value: str) -> frozenset[str] | None:
    if key in ("gc", "general_category"):
        return _category(value)
    if key in ("sc", "script"):
        return _SCRIPTS.get(value.upper())
    return _block(value) if key in ("blk", "block") else None


def _block(name: str) -> frozenset[str] | None:
    return ALPHABET if name.upper().replace("_", "").replace(" ", "") == "BASICLATIN" else None


def _written(chars: frozenset[str]) -> str:
    """A character class of Python."""
    if not chars:
        return _NEVER
    if chars == ALPHABET:
        return "."
    if len(chars) == 1:
        return re.escape(next(iter(chars)))
    return f"[{''.join(re.escape(char) for char in sorted(chars))}]"
