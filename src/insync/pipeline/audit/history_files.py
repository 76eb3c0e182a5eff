"""Files of histories: whether they are there, and in which line something stands.

Spark reads a file in pieces and does not count lines. So lines are looked for afterwards, by their text, where the
driver can open the file: that costs something only where something is wrong.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlparse

TEXT = 200
"""Characters of a line by which it is known."""


def local(name: str) -> str:
    """A file of this machine, as people write it; other stores stay as they are."""
    parsed = urlparse(name)
    return unquote(parsed.path) if parsed.scheme == "file" else name


def check(path: str) -> None:
    """Whether something fits it, as far as can be seen from here; Spark takes globs."""
    name = local(path)
    if "://" in name or os.path.exists(name) or glob.glob(name):
        return
    what = "nothing fits this pattern" if glob.has_magic(name) else "there is no such file or directory"
    raise ValueError(f"--history {path}: {what}")


def numbers(file: str, texts: Iterable[str]) -> dict[str, list[int]]:
    """The lines that begin with each of `texts`, or are it; none if the file cannot be read from here."""
    found: dict[str, list[int]] = {text: [] for text in texts}
    path = Path(local(file))
    if not path.is_file() or path.suffix in (".gz", ".bz2", ".zst", ".parquet"):
        return found
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            beginning = line.rstrip("\r\n")[:TEXT]
            if beginning in found:
                found[beginning].append(number)
    return found
