"""Checks a lake against its ledger and the brokers. Needs no Spark: threads read the files.

Loading the ledger checks the ledger itself (sequence, checksums, no gap, no overlap). Then each file is checked: its
size, checksum and number of rows, and that its offsets increase and lie inside their range. Then each partition is
checked against the brokers: the topic has the id in the ledger, its log was not truncated below what was archived, and
nothing was deleted before it was archived.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from insync.client.model import TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.lake.directory import list_orphans, load_ledger
from insync.lake.ledger import File, Ledger, Range
from insync.lake.location import Location
from insync.lake.staging import list_data_files
from insync.lake.verify import find_file_problem
from insync.pipeline.archive.plan import find_archive_loss, open_view
from insync.pipeline.rounds import ClusterOptions
from insync.pipeline.text import pluralize


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One generation of a partition, in the ledger and on the brokers."""

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
    """Offsets on the brokers; -1 if they were not asked."""

    @property
    def behind(self) -> int:
        return max(0, self.latest - self.end)


@dataclass(slots=True)
class LakeReport:
    lake: str
    entries: int
    partitions: list[PartitionReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Worth knowing but not wrong: orphans, losses in the ledger."""

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_lake(
    path: Location,
    bootstrap: str = "",
    *,
    timeout_s: float = 30.0,
    client: ClientSettings = DEFAULT_SETTINGS,
    on_file: Callable[[int, int], None] = lambda done, total: None,
) -> LakeReport:
    """Without a bootstrap, the brokers are not asked. A damaged ledger raises JournalDamagedError."""
    ledger = load_ledger(path)
    problems = _check_files(ledger, on_file)
    report = LakeReport(str(ledger.lake), ledger.entries, problems=problems)
    if orphans := list_orphans(ledger):
        files = pluralize(len(orphans), "file")
        report.notes.append(f"{files} not in the ledger, such as {orphans[0]}: not archived data")
    stored = list_data_files(ledger.lake)
    if waiting := [path for path in ledger.replaced if path in stored]:
        files = pluralize(len(waiting), "replaced file")
        report.notes.append(f"{files} not deleted yet, such as {waiting[0]}: the next compaction does it")
    report.notes += [
        f"{archived.topic}-{archived.partition}: offsets {archived.start} to {archived.end - 1} were removed from the "
        f"lake: {archived.expired}"
        for archived in ledger.ranges()
        if archived.expired
    ]
    report.notes += [f"the ledger records a loss: {archived.lost}" for archived in ledger.ranges() if archived.lost]
    report.notes += [f"generation {first.generation}: {first.why}" for first in ledger.ranges() if first.why]
    ends: dict[TopicPartition, tuple[int, int]] = {}
    if bootstrap:
        ends = _check_brokers(ledger, report, ClusterOptions(bootstrap=bootstrap, timeout_s=timeout_s, client=client))
    report.partitions = [
        partition
        for key in ledger.partitions()
        for partition in _report_generations(ledger, key, ends.get(key, (-1, -1)))
    ]
    return report


# --- files -----------------------------------------------------------------------------------------------------------


def _check_files(ledger: Ledger, on_file: Callable[[int, int], None]) -> list[str]:
    checked: dict[str, str] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while work := _list_unchecked(ledger, checked):
            total = len(checked) + len(work)
            problems = pool.map(lambda pair: find_file_problem(ledger.lake, *pair), work)
            for (_, file), problem in zip(work, problems, strict=True):
                checked[file.path] = problem
                on_file(len(checked), total)
            if any(checked.values()):
                ledger.refresh()  # a compaction may have replaced what was missing
    return [checked[path] for path in ledger.files() if checked.get(path)]


def _list_unchecked(ledger: Ledger, checked: Mapping[str, str]) -> list[tuple[Range, File]]:
    return [(archived, file) for archived in ledger.ranges() for file in archived.files if file.path not in checked]


# --- brokers ---------------------------------------------------------------------------------------------------------


def _check_brokers(
    ledger: Ledger, report: LakeReport, cluster: ClusterOptions
) -> dict[TopicPartition, tuple[int, int]]:
    """Returns the partitions' earliest and latest offsets."""
    names = tuple(dict.fromkeys(topic for topic, _ in ledger.partitions()))
    if not names:
        return {}
    isolation = ledger.settings.get("isolation", "read_committed")
    view = open_view(cluster, names, isolation=isolation)
    try:
        topics = view.describe_topics(must_exist=False)
        report.notes += [f"topic '{name}' no longer exists" for name in names if name not in topics]
        existing = set(view.list_partitions(topics))
        keys = [key for key in ledger.partitions() if key in existing]
        report.problems += [
            f"{topic}-{index} is archived, but the topic has no such partition"
            for topic, index in ledger.partitions()
            if topic in topics and (topic, index) not in existing
        ]
        earliest = view.list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST), topics)
        latest = view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), topics)
        for key in keys:
            loss = find_archive_loss(view, ledger, key, topics, earliest[key], latest[key])
            report.problems += [str(loss)] if loss is not None else []
    finally:
        view.close()
    return {key: (earliest[key].offset, latest[key].offset) for key in keys}


def _report_generations(ledger: Ledger, key: TopicPartition, ends: tuple[int, int]) -> list[PartitionReport]:
    newest = ledger.ranges(key)[-1].generation
    generations = []
    for generation in range(newest + 1):
        ranges = ledger.ranges(key, generation)
        earliest, latest = ends if generation == newest else (-1, -1)
        generations.append(
            PartitionReport(
                topic=key[0],
                partition=key[1],
                generation=generation,
                start=ranges[0].start,
                end=ranges[-1].end,
                rows=sum(archived.rows for archived in ranges),
                files=sum(len(archived.files) for archived in ranges),
                bytes=sum(archived.bytes for archived in ranges),
                lost=sum(archived.end - archived.start for archived in ranges if archived.lost),
                earliest=earliest,
                latest=latest,
            )
        )
    return generations
