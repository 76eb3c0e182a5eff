"""What an executor does in a campaign: runs seeds, and makes a row of each.

A seed that crashes the simulator itself is a row like any other (`property` "crash"): one bad seed in a million must
not fail the job.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from insync.pipeline.campaign.store import Chunks, Store, digest_build
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.run import Outcome, run_seed
from insync.spark.worker import prepare_worker

_COUNTS = pa.map_(pa.string(), pa.int64())
SCHEMA = pa.schema(
    [
        ("seed", pa.int64()),
        ("property", pa.string()),
        ("detail", pa.string()),
        ("time_ms", pa.int64()),
        ("steps", pa.int64()),
        ("sim_seconds", pa.float64()),
        ("cpu_seconds", pa.float64()),
        ("trace_hash", pa.string()),
        ("probes", _COUNTS),
        ("stats", _COUNTS),
    ]
)
DDL = (
    "seed bigint, property string, detail string, time_ms bigint, steps bigint, sim_seconds double, "
    "cpu_seconds double, trace_hash string, probes map<string, bigint>, stats map<string, bigint>"
)
CHUNK_DDL = "first bigint, last bigint, seeds bigint, violations bigint"


class BuildMismatchError(RuntimeError):
    """An executor has another version of the package than the driver."""


@dataclass(frozen=True)
class RunOptions:
    """What all runs of a campaign have in common."""

    steps: int = 0
    """The fault phase ends after about so many node steps; 0: as planned."""
    mutant: str = ""
    """The safeguard to remove, to see that its absence is detected."""

    @property
    def build(self) -> str:
        return digest_build(self.steps, self.mutant)


def make_row(seed: int, options: RunOptions) -> dict[str, Any]:
    with apply_mutant(MUTANTS[options.mutant] if options.mutant else None):
        return _to_row(run_seed(seed, options.steps))


def _to_row(outcome: Outcome) -> dict[str, Any]:
    violation = outcome.violation
    return {
        "seed": outcome.seed,
        "property": violation and violation.property,
        "detail": violation and violation.detail,
        "time_ms": violation and violation.time,
        "steps": outcome.steps,
        "sim_seconds": outcome.sim_seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "trace_hash": outcome.trace_hash,
        "probes": sorted(outcome.probes.items()),
        "stats": sorted(outcome.stats.items()),
    }


# --- on executors ----------------------------------------------------------------------------------------------------


def row_maker(
    chunks: Chunks, options: RunOptions, expected_build: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow over the numbers of chunks: a row per seed."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for seeds in _select_chunks(numbers, chunks, options, expected_build):
            yield pa.RecordBatch.from_pylist([make_row(seed, options) for seed in seeds], SCHEMA)

    return run


def chunk_writer(
    chunks: Chunks, options: RunOptions, expected_build: str, out: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow over the numbers of chunks: writes a file per chunk, and returns a row about it."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = Store(out, expected_build)
        for seeds in _select_chunks(numbers, chunks, options, expected_build):
            table = pa.Table.from_pylist([make_row(seed, options) for seed in seeds], SCHEMA)
            store.write(seeds, _to_parquet(table), uuid.uuid4().hex)
            violations = len(table) - table["property"].null_count
            row = {"first": seeds.start, "last": seeds.stop - 1, "seeds": len(seeds), "violations": violations}
            yield pa.RecordBatch.from_pylist([row])

    return run


def _select_chunks(
    numbers: Iterator[pa.RecordBatch], chunks: Chunks, options: RunOptions, expected_build: str
) -> Iterator[range]:
    if options.build != expected_build:
        raise BuildMismatchError(
            f"this executor has build {options.build} of insync, the driver {expected_build}: install the same on both"
        )
    prepare_worker()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield chunks[number]


def _to_parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
