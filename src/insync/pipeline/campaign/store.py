"""Where a campaign keeps its results: one Parquet file per chunk of seeds, named after them.

    DIR/build=4f1c0a9d2b7e/part-00000000000000000000-00000000000000000016.parquet

A task runs a whole chunk, writes its file under a temporary name and renames it: every file is complete. What is left
to run is what no name covers, so a campaign that was stopped continues, even with chunks of another size. A seed's
result depends on the code that runs it: `build` is a digest of the package and of the run's options, and results of
different builds never mix.
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
_NOT_SIMULATED = (
    *("chaos", "cli", "client", "cluster", "columnar", "history", "logdir", "ops", "pipeline", "server", "spark"),
    "testing",
)
"""Packages that a simulated run does not use."""


@cache
def digest_build(steps: int, mutant: str) -> str:
    """A digest of the sources that a run uses, and of its options."""
    digest = hashlib.sha256(f"{steps} {mutant}".encode())
    root = Path(__file__).parents[2]
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root)
        if path.parts[0] not in _NOT_SIMULATED:
            digest.update(f"{path} ".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:DIGITS]


def file_name(seeds: range) -> str:
    return f"part-{seeds.start:020d}-{seeds.stop:020d}.parquet"


def parse_file_name(name: str) -> range | None:
    """The seeds in a file; None for a file of another kind."""
    match = _NAME.fullmatch(name)
    return range(int(match[1]), int(match[2])) if match else None


def absolute_path(out: str) -> str:
    """Relative paths are relative to the driver's directory; executors run elsewhere."""
    return out if "://" in out else str(Path(out).resolve())


class Store:
    """One build's directory, on any file system that Arrow supports. Executors must have it under the same path."""

    def __init__(self, out: str, build: str) -> None:
        system, path = fs.FileSystem.from_uri(out) if "://" in out else (fs.LocalFileSystem(), absolute_path(out))
        self._system = system
        self.path = f"{path}/build={build}"

    def create(self) -> None:
        self._system.create_dir(self.path, recursive=True)

    def parts(self) -> dict[range, str]:
        listed = self._system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        parts = {seeds: info.path for info in listed if (seeds := parse_file_name(info.base_name)) is not None}
        return dict(sorted(parts.items(), key=lambda part: (part[0].start, part[0].stop)))

    def write(self, seeds: range, data: bytes, attempt: str) -> str:
        """Two attempts at a chunk write the same rows; the last to rename wins."""
        final = f"{self.path}/{file_name(seeds)}"
        temporary = f"{self.path}/.{file_name(seeds)}.{attempt}"
        with self._system.open_output_stream(temporary) as file:
            file.write(data)
        self._system.move(temporary, final)
        return final


def find_missing(seeds: range, done: Iterable[range]) -> list[range]:
    """The parts of `seeds` that no range of `done` covers, in order."""
    position, missing = seeds.start, []
    for covered in sorted(done, key=lambda covered: covered.start):
        if covered.start > position:
            missing.append(range(position, min(covered.start, seeds.stop)))
        position = max(position, covered.stop)
    missing.append(range(position, seeds.stop))
    return [part for part in missing if part]


@dataclass(frozen=True)
class Chunks(Sequence[range]):
    """`ranges` split into chunks of at most `size` seeds; small to pickle, however many there are."""

    ranges: tuple[range, ...]
    size: int

    def __len__(self) -> int:
        return self._ends()[-1] if self.ranges else 0

    def __getitem__(self, index: int) -> range:  # type: ignore[override]  # no slices
        ends = self._ends()
        if not 0 <= index < len(self):
            raise IndexError(index)
        which = bisect_right(ends, index)
        seeds = self.ranges[which]
        start = seeds.start + (index - (ends[which - 1] if which else 0)) * self.size
        return range(start, min(start + self.size, seeds.stop))

    def _ends(self) -> list[int]:
        return list(accumulate(-(-len(seeds) // self.size) for seeds in self.ranges))


def choose_chunk_size(seeds: int, cores: int, *, minimum: int = 8, maximum: int = 64, chunks_per_core: int = 16) -> int:
    """So that tasks take a second or more, and no core waits long for the last one."""
    return max(minimum, min(maximum, seeds // (cores * chunks_per_core)))
