"""Whether a lake is what its ledger says, and whether the brokers agree. Needs no Spark: threads read the files.

The ledger itself is checked by loading it (numbers, checksums, no gap, no overlap). Then each file: it exists, with its
size, its checksum, its number of rows, offsets that grow and lie inside their range. Then each partition, against the
brokers: the topic has the id that the ledger knows, the log has not been cut back below what was archived, and nothing
was deleted before it was archived.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from insync.client.offsets import EARLIEST, LATEST
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.pipeline import lake
from insync.pipeline.archive import plan as archive_plan
from insync.pipeline.lake_writer import checksum
from insync.pipeline.ledger import File, Key, Ledger, Range
from insync.pipeline.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """How the ledger and the brokers see one partition; -1 where the brokers were not asked."""

    topic: str
    partition: int
    generation: int
    start: int
    end: int
    rows: int
    files: int
    bytes: int
    lost: int
    """Offsets."""
    earliest: int = -1
    latest: int = -1

    @property
    def behind(self) -> int:
        return max(0, self.latest - self.end)


@dataclass(slots=True)
class Verdict:
    lake: str
    entries: int
    partitions: list[PartitionFacts] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """True, and not wrong: orphans, losses that the ledger knows of."""

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    path: str | Path,
    bootstrap: str = "",
    *,
    timeout_s: float = 30.0,
    client: ClientSettings = DEFAULT_SETTINGS,
    on_file: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Without a bootstrap, the brokers are not asked. A ledger that contradicts itself raises `Damaged`."""
    ledger = lake.load(path)
    verdict = Verdict(str(ledger.lake), ledger.entries)
    verdict.problems += _files(ledger, on_file)
    found = lake.orphans(ledger)
    if found:
        files = counted(len(found), "file")
        verdict.notes.append(f"{files} that the ledger does not know, such as {found[0]}: not archived data")
    verdict.notes += [f"the ledger knows of a loss: {each.lost}" for each in ledger.ranges() if each.lost]
    verdict.notes += [f"generation {each.generation}: {each.why}" for each in ledger.ranges() if each.why]
    ends = _against_brokers(ledger, verdict, bootstrap, timeout_s, client) if bootstrap else {}
    verdict.partitions = [
        facts for key in ledger.partitions() for facts in _facts(ledger, key, ends.get(key, (-1, -1)))
    ]
    return verdict


# --- files -----------------------------------------------------------------------------------------------------------


def _files(ledger: Ledger, on_file: Callable[[int, int], None]) -> list[str]:
    work = [(each, file) for each in ledger.ranges() for file in each.files]
    problems = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, problem in enumerate(pool.map(lambda pair: file_problem(ledger.lake, *pair), work), 1):
            on_file(done, len(work))
            problems += [problem] if problem else []
    return problems


def file_problem(root: Path, within: Range, file: File) -> str:
    """What is wrong with a file, or nothing."""
    if problem := lake.size_problem(root, file):
        return problem
    path = root / file.path
    _, crc = checksum(path)
    if crc != file.crc:
        return f"{file.path} was changed: its checksum is {crc:08x} instead of {file.crc:08x}"
    try:
        offsets = pq.read_table(path, columns=["offset"], partitioning=None).column(0).to_numpy()
    except (pa.ArrowException, OSError) as error:
        return f"{file.path} cannot be read: {error}"
    if len(offsets) != file.rows:
        return f"{file.path} has {len(offsets)} rows instead of {file.rows}"
    if len(offsets) and (offsets[0] < within.start or offsets[-1] >= within.end or not (np.diff(offsets) > 0).all()):
        return f"{file.path} has offsets that do not grow, or are outside {within.start} to {within.end}"
    return ""


# --- brokers ---------------------------------------------------------------------------------------------------------


def _against_brokers(
    ledger: Ledger, verdict: Verdict, bootstrap: str, timeout_s: float, client: ClientSettings
) -> dict[Key, tuple[int, int]]:
    names = tuple(dict.fromkeys(topic for topic, _ in ledger.partitions()))
    if not names:
        return {}
    isolation = ledger.settings.get("isolation", "read_committed")
    view = archive_plan.view_of(bootstrap, names, isolation=isolation, timeout_s=timeout_s, client=client)
    try:
        topics = view.describe_topics(must_exist=False)
        verdict.notes += [f"topic '{name}' does not exist any more" for name in names if name not in topics]
        there = set(view.list_partitions(topics))
        keys = [key for key in ledger.partitions() if key in there]
        verdict.problems += [
            f"{topic}-{index} is archived, but the topic has no such partition"
            for topic, index in ledger.partitions()
            if topic in topics and (topic, index) not in there
        ]
        earliest = view.list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST), topics)
        latest = view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), topics)
        for key in keys:
            loss = archive_plan.missing(view, ledger, key, topics, earliest[key], latest[key])
            verdict.problems += [str(loss)] if loss is not None else []
    finally:
        view.close()
    return {key: (earliest[key].offset, latest[key].offset) for key in keys}


def _facts(ledger: Ledger, key: Key, ends: tuple[int, int]) -> list[PartitionFacts]:
    newest = ledger.ranges(key)[-1].generation
    found = []
    for generation in range(newest + 1):
        ranges = ledger.ranges(key, generation)
        earliest, latest = ends if generation == newest else (-1, -1)
        found.append(
            PartitionFacts(
                topic=key[0],
                partition=key[1],
                generation=generation,
                start=ranges[0].start,
                end=ranges[-1].end,
                rows=sum(each.rows for each in ranges),
                files=sum(len(each.files) for each in ranges),
                bytes=sum(each.bytes for each in ranges),
                lost=sum(each.end - each.start for each in ranges if each.lost),
                earliest=earliest,
                latest=latest,
            )
        )
    return found
