"""What an executor does in a campaign: play seeds, and tell what became of each in a row.

A seed that breaks the simulator itself is a row like any other (`property` "crash"): one bad seed in a million must not
take a job down.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from insync.pipeline.campaign import store as campaign_store
from insync.pipeline.campaign.store import Chunks, Store
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
DONE = "first bigint, last bigint, seeds bigint, violations bigint"


class OtherCodeError(RuntimeError):
    """An executor has another version of the package than the driver."""


@dataclass(frozen=True)
class Work:
    """What every run of a campaign has in common."""

    steps: int = 0
    """The fault phase ends after about so many node steps; 0: when the plan says."""
    mutant: str = ""
    """A safeguard that is removed, to see that its absence is noticed."""

    @property
    def build(self) -> str:
        return campaign_store.build_of(self.steps, self.mutant)


def play(seed: int, work: Work) -> dict[str, Any]:
    with apply_mutant(MUTANTS[work.mutant] if work.mutant else None):
        return _row(run_seed(seed, work.steps))


def _row(outcome: Outcome) -> dict[str, Any]:
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


def rows(chunks: Chunks, work: Work, expected: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow over the numbers of chunks: a row per seed, as they come."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for seeds in _chosen(numbers, chunks, work, expected):
            yield pa.RecordBatch.from_pylist([play(seed, work) for seed in seeds], SCHEMA)

    return run


def files(
    chunks: Chunks, work: Work, expected: str, out: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow over the numbers of chunks: a file per chunk, and a row that says that it is there."""

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = Store(out, expected)
        for seeds in _chosen(numbers, chunks, work, expected):
            table = pa.Table.from_pylist([play(seed, work) for seed in seeds], SCHEMA)
            store.write(seeds, _parquet(table), uuid.uuid4().hex)
            bad = len(table) - table["property"].null_count
            done = {"first": seeds.start, "last": seeds.stop - 1, "seeds": len(seeds), "violations": bad}
            yield pa.RecordBatch.from_pylist([done])

    return run


def _chosen(numbers: Iterator[pa.RecordBatch], chunks: Chunks, work: Work, expected: str) -> Iterator[range]:
    if work.build != expected:
        raise OtherCodeError(
            f"this executor has build {work.build} of insync, the driver {expected}: install the same on both"
        )
    prepare_worker()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield chunks[number]


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
