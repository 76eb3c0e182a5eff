"""Where a campaign keeps what it did: one Parquet file per chunk of seeds, named after them.

    DIR/build=4f1c0a9d2b7e/part-00000000000000000000-00000000000000000016.parquet

A chunk is run in one go by one task, which writes its file under another name and renames it: a file that is there is
whole. What is left to do is what no name covers, so a campaign that was stopped goes on where it was, also with chunks
of another size. Seeds mean something only together with the code that plays them: `build` is a digest of the package,
and of what was asked of each run, and results of different builds never mix.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from pyarrow import fs

_NAME = re.compile(r"part-(\d{20})-(\d{20})\.parquet")
DIGITS = 12
_NOT_PLAYED = (
    *("chaos", "cli", "client", "cluster", "columnar", "history", "logdir", "ops", "pipeline", "server", "spark"),
    "testing",
)
"""Packages that no simulated run touches."""


@cache
def build_of(steps: int, mutant: str) -> str:
    """A digest of the sources that a run is made of, and of how it differs from a plain one."""
    digest = hashlib.sha256(f"{steps} {mutant}".encode())
    root = Path(__file__).parents[2]
    for file in sorted(root.rglob("*.py")):
        where = file.relative_to(root)
        if where.parts[0] not in _NOT_PLAYED:
            digest.update(f"{where} ".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:DIGITS]


def file_name(seeds: range) -> str:
    return f"part-{seeds.start:020d}-{seeds.stop:020d}.parquet"


def seeds_in(name: str) -> range | None:
    """What a file name covers; None for a file of another kind."""
    found = _NAME.fullmatch(name)
    return range(int(found[1]), int(found[2])) if found else None


def whole(out: str) -> str:
    """A relative path is relative to where the driver runs; executors run elsewhere."""
    return out if "://" in out else str(Path(out).resolve())


class Store:
    """One build's directory, on any file system that Arrow knows; every executor must see it under the same name."""

    def __init__(self, out: str, build: str) -> None:
        system, path = fs.FileSystem.from_uri(out) if "://" in out else (fs.LocalFileSystem(), whole(out))
        self._system = system
        self.path = f"{path}/build={build}"

    def create(self) -> None:
        self._system.create_dir(self.path, recursive=True)

    def parts(self) -> dict[range, str]:
        listed = self._system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        found = {seeds: info.path for info in listed if (seeds := seeds_in(info.base_name)) is not None}
        return dict(sorted(found.items(), key=lambda each: (each[0].start, each[0].stop)))

    def write(self, seeds: range, data: bytes, attempt: str) -> str:
        """Two attempts at a chunk write the same; whoever renames last leaves the file that counts."""
        final = f"{self.path}/{file_name(seeds)}"
        unfinished = f"{self.path}/.{file_name(seeds)}.{attempt}"
        with self._system.open_output_stream(unfinished) as file:
            file.write(data)
        self._system.move(unfinished, final)
        return final


def missing(wanted: range, done: Iterable[range]) -> list[range]:
    """What of `wanted` no range of `done` covers, in order."""
    at, found = wanted.start, []
    for each in sorted(done, key=lambda each: each.start):
        if each.start > at:
            found.append(range(at, min(each.start, wanted.stop)))
        at = max(at, each.stop)
    found.append(range(at, wanted.stop))
    return [each for each in found if each]


@dataclass(frozen=True)
class Chunks(Sequence[range]):
    """`ranges` cut into pieces of at most `size` seeds; small to pickle however many there are."""

    ranges: tuple[range, ...]
    size: int

    def __len__(self) -> int:
        return self._ends()[-1] if self.ranges else 0

    def __getitem__(self, index: int) -> range:  # type: ignore[override]  # no slices
        ends = self._ends()
        if not 0 <= index < len(self):
            raise IndexError(index)
        which = bisect_right(ends, index)
        whole = self.ranges[which]
        start = whole.start + (index - (ends[which - 1] if which else 0)) * self.size
        return range(start, min(start + self.size, whole.stop))

    def _ends(self) -> list[int]:
        return list(accumulate(-(-len(each) // self.size) for each in self.ranges))


def chunk_size(seeds: int, cores: int, *, least: int = 8, most: int = 64, chunks_per_core: int = 16) -> int:
    """Tasks of a second or more, and enough of them that no core waits long for the last one."""
    return max(least, min(most, seeds // (cores * chunks_per_core)))
