"""Files of histories: whether they exist, and which line of a file holds a given text.

Spark reads a file in splits and does not count lines. So the driver looks line numbers up afterwards, by the lines'
text: that costs time only if something is wrong.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlparse

LINE_PREFIX = 200
"""Characters by which a line is identified."""


def to_local_name(name: str) -> str:
    """A file URL as a path; names in other stores stay as they are."""
    parsed = urlparse(name)
    return unquote(parsed.path) if parsed.scheme == "file" else name


def check_history(path: str) -> None:
    """Raise if the file, or anything that matches the pattern, does not exist; stores are not checked."""
    name = to_local_name(path)
    if "://" in name or os.path.exists(name) or glob.glob(name):
        return
    problem = "nothing matches this pattern" if glob.has_magic(name) else "there is no such file or directory"
    raise ValueError(f"--history {path}: {problem}")


def find_lines(file: str, texts: Iterable[str]) -> dict[str, list[int]]:
    """By text: the numbers of the lines that start with it. Empty if the driver cannot read the file."""
    numbers: dict[str, list[int]] = {text: [] for text in texts}
    path = Path(to_local_name(file))
    if not path.is_file() or path.suffix in (".gz", ".bz2", ".zst", ".parquet"):
        return numbers
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            prefix = line.rstrip("\r\n")[:LINE_PREFIX]
            if prefix in numbers:
                numbers[prefix].append(number)
    return numbers
