"""ARCHITECTURE.md agrees with the code: its picture, its table of packages, the files it names, and its numbers.

The picture is drawn from the imports (`python tools/draw_architecture.py --write`). A number in the text stands in
CLAIMS together with the way to count it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import draw_architecture
from import_graph import SOURCE
from problems import report

DOCUMENT = draw_architecture.BLOCK.document
ROW = re.compile(r"^\| `(\w+)/` \|[^|]*\|([^|]*)\|$", re.MULTILINE)
FILE = re.compile(r"`([\w/.]+\.py|[\w/]+/)`")
SANSIO = SOURCE / "sansio.py"


def problems(root: Path = Path()) -> list[str]:
    """What is wrong, one sentence a line."""
    text = (root / DOCUMENT).read_text(encoding="utf-8")
    return [*_picture(root, text), *_table(root, text), *_files(root, text), *_sansio(root, text), *_claims(root, text)]


def _picture(root: Path, text: str) -> Iterator[str]:
    if draw_architecture.BLOCK.replace(text, draw_architecture.draw(root / SOURCE)) != text:
        yield f"{DOCUMENT}: the picture is out of date: python tools/draw_architecture.py --write"


def _table(root: Path, text: str) -> Iterator[str]:
    """Every package has a row, and the files to begin with exist."""
    rows = dict(ROW.findall(text))
    packages = {path.parent.name for path in (root / SOURCE).glob("*/__init__.py")}
    yield from (f"{DOCUMENT}: the table has no row for {name}/" for name in sorted(packages - set(rows)))
    yield from (
        f"{DOCUMENT}: the table has a row for {name}/, which is not there" for name in sorted(set(rows) - packages)
    )
    for package, files in rows.items():
        for name in FILE.findall(files):
            if package in packages and not (root / SOURCE / package / name).exists():
                yield f"{DOCUMENT}: begin with {package}/{name}, which is not there"


def _files(root: Path, text: str) -> Iterator[str]:
    """A path in backticks is relative to the repository, to src or to src/insync; a bare file name may be anywhere."""
    everywhere = {path.name for folder in ("src", "tools", "bench", "tests") for path in (root / folder).rglob("*.py")}
    for name in dict.fromkeys(FILE.findall(ROW.sub("", text))):
        bases = (root, root / "src", root / SOURCE)
        if not any((base / name).exists() for base in bases) and ("/" in name or name not in everywhere):
            yield f"{DOCUMENT} names {name}, which is not there"


def _sansio(root: Path, text: str) -> Iterator[str]:
    """The first picture names every event and every effect."""
    for union in ("Event", "Effect"):
        for name in _members(root / SANSIO, union):
            if not re.search(rf"\b{name}\b", text):
                yield f"{DOCUMENT}: the {union.lower()} {name} is missing"


def _members(path: Path, union: str) -> list[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == union for t in node.targets):
            return [name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)]
    return []


def _claims(root: Path, text: str) -> Iterator[str]:
    flat = " ".join(text.split())
    for claim, count in CLAIMS.items():
        match = re.search(claim, flat)
        if match is None:
            yield f"{DOCUMENT} no longer says '{claim}': change CLAIMS in tools/check_architecture.py"
        elif int(match[1].replace(",", "")) != count(root):
            yield f"{DOCUMENT} says '{match[0]}'; counted: {count(root)}"


def count_lines(root: Path) -> int:
    """Of sansio.py, rounded up to the next fifty, so that a line more is no change of the document."""
    lines = len((root / SANSIO).read_text(encoding="utf-8").splitlines())
    return -(-lines // 50) * 50


def _default(path: str, field: str) -> Callable[[Path], int]:
    """The default of a setting: `field: int = 500`."""

    def count(root: Path) -> int:
        match = re.search(rf"^    {field}: int = ([\d_]+)", (root / SOURCE / path).read_text(encoding="utf-8"), re.M)
        return int(match[1]) if match else -1

    return count


CLAIMS: dict[str, Callable[[Path], int]] = {
    r"fewer than (\d+) lines": count_lines,
    r"([\d,]+) records per step": _default("node/config.py", "metadata_apply_records"),
    r"more than ([\d,]+) partitions": _default("controller/config.py", "max_slice_records"),
}


def main(root: Path = Path()) -> int:
    return report(problems(root))


if __name__ == "__main__":
    sys.exit(main())
