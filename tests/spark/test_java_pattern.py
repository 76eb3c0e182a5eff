"""Java's regular expressions for `subscribePattern`. interop/java/test_topic_patterns.py makes the table with Java."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from insync.spark.java_pattern import JavaPatternError, compile_java_pattern

TABLE = Path(__file__).parents[1] / "data" / "java-patterns.jsonl"


def test_every_pattern_of_the_table_finds_what_java_finds() -> None:
    rows = [json.loads(line) for line in TABLE.read_text().splitlines()]
    assert len(rows) > 400
    for row in rows:
        try:
            pattern = compile_java_pattern(row["pattern"])
        except JavaPatternError:
            matches = "invalid"
        else:
            matches = "".join("1" if pattern.search(name) else "0" for name in row["names"])
        assert (row["pattern"], matches) == (row["pattern"], row["found"])


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(?<=a+)b", "a lookbehind of variable length is not supported"),
        (r"a\X", r"\X is not supported"),
        (r"\b{g}a", r"\b{g} is not supported"),
        (r"(a\1)", "a backreference within its own group"),
        (r"(?:\2|(a)(b))+", "a backreference to a group that comes later"),
        ("[a&&&b]", "an intersection with an empty operand"),
        ("[a-z&&[aeiou]b]", "an intersection with a nested class and more"),
        ("a{2}{3}", "a quantifier of a quantifier"),
        (r"\p{IsGreek}", r"\p{IsGreek} is unknown or not supported"),
        ("(?iu)ſ", "a character outside ASCII together with (?u)"),
        ("(?P<name>a)", "not a regular expression: a group that begins with '(?P'"),
        ("*.orders", "nothing before the quantifier '*'"),
        ("orders(", "a group without ')'"),
        ("[a-", "a character class without ']'"),
        ("\\", "a backslash at the end"),
    ],
)
def test_what_is_refused_is_named(pattern: str, words: str) -> None:
    with pytest.raises(JavaPatternError) as caught:
        compile_java_pattern(pattern)
    assert words in str(caught.value)
