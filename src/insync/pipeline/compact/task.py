"""One task of a compaction: reads the files of neighbouring ranges and writes their rows to one file per date.

The files are checked before they are read: a damaged one must not get a valid checksum by being merged.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pyarrow as pa

from insync.lake.ledger import File, Range
from insync.lake.location import Location, open_store
from insync.lake.staging import STAGED, open_file
from insync.lake.verify import find_file_problem
from insync.lake.writer import DECODED, RangeWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """Pickled to an executor."""

    lake: Location
    ranges: tuple[Range, ...]
    """Neighbours."""
    round: int
    codec: str
    target_bytes: int


@dataclass(frozen=True, slots=True)
class CompactResult:
    files: tuple[File, ...] = ()
    error: str = ""


def merge_files(task: CompactTask) -> CompactResult:
    """A failure is reported in the result, so that the other tasks' work counts."""
    lake = open_store(task.lake)
    work = [(archived, file) for archived in task.ranges for file in archived.files]
    for archived, file in work:
        if problem := find_file_problem(lake, archived, file):
            return CompactResult(error=problem)
    first, last = task.ranges[0], task.ranges[-1]
    writer = RangeWriter(
        lake.child(STAGED),
        topic=first.topic,
        partition=first.partition,
        start=first.start,
        end=last.end,
        attempt=f"{uuid.uuid4().hex[:12]}-{task.round}",  # Spark may run a task twice, even at the same time
        codec=task.codec,
        roll_bytes=task.target_bytes,
        prefix="compact",
    )
    try:
        for _, file in sorted(work, key=lambda pair: (pair[1].path.rpartition("/")[0], pair[1].first)):
            with open_file(lake, file.path) as parquet:
                for group in range(parquet.num_row_groups):
                    for batch in parquet.read_row_group(group, columns=list(DECODED)).to_batches():
                        writer.add(batch)
        files = tuple(writer.close())
    except (OSError, pa.ArrowException) as error:
        writer.abandon()
        return CompactResult(error=str(error) or type(error).__name__)
    return CompactResult(files)
