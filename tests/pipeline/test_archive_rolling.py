"""A following archive writes a file once it is large enough or its oldest record has waited long enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.lake import directory
from insync.lake.ledger import RANGES, File, Ledger, Range
from insync.pipeline.archive.plan import Plan
from insync.pipeline.archive.rolling import Rolling, RollLimits

A, B = ("t", 0), ("t", 1)
LIMITS = RollLimits(bytes=10_000, interval_s=600.0, rows=1_000_000)


class Clock:
    def __init__(self, wall_s: float) -> None:
        self.now_s = 1_000.0
        self._started_s, self._wall_s = self.now_s, wall_s

    def monotonic(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self._wall_s + self.now_s - self._started_s


class Archive:
    """A ledger, and the rolling of one process after the other."""

    def __init__(self, path: Path) -> None:
        directory.make_lake(path)
        self.ledger = Ledger.load(path)
        self.clock = Clock(0.0)
        self.ends: dict[tuple[str, int], int] = {}

    def restart(self, *, after_s: float = 0.0) -> None:
        committed = max((self.ledger.committed_at_s(key) for key in self.ledger.partitions()), default=0.0)
        self.clock = Clock(committed + after_s)
        self.rolling = Rolling(LIMITS, self.ledger, monotonic_s=self.clock.monotonic, wall_s=self.clock.wall)

    def archive(self, key: tuple[str, int], end: int, *, size: int) -> None:
        start = self._start(key)
        file = File(path="p", rows=end - start, bytes=size, crc=1, first=start, last=end - 1, oldest=0, newest=0)
        self.ledger.commit(RANGES, "me", ranges=[_range(key, start, end, file)])
        self.ends[key] = end

    def _start(self, key: tuple[str, int]) -> int:
        last = self.ledger.last(key)
        return last.end if last else 0

    def due(self, configs: dict[str, dict[str, str]] | None = None) -> list[tuple[str, int]]:
        starts = {key: _range(key, self._start(key), self._start(key)) for key in self.ends}
        return self.rolling.find_due(Plan(starts=starts, ends=dict(self.ends)), configs or {})


def _range(key: tuple[str, int], start: int, end: int, *files: File) -> Range:
    rows = sum(file.rows for file in files)
    topic, partition = key
    return Range(
        topic=topic, topic_id="A", partition=partition, generation=0, start=start, end=end, rows=rows, files=files
    )


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    archive = Archive(tmp_path)
    archive.restart()
    return archive


def test_the_first_records_of_a_partition_are_archived_at_once(archive: Archive) -> None:
    archive.ends = {A: 3, B: 0}
    assert archive.due() == [A]


def test_records_wait_until_they_make_a_file(archive: Archive) -> None:
    """The last file had 10 bytes per record, so 1,000 records make 10,000 bytes."""
    archive.archive(A, 100, size=1_000)
    archive.ends[A] = 1_099
    assert archive.due() == []
    archive.ends[A] = 1_100
    assert archive.due() == [A]


def test_records_wait_no_longer_than_the_interval(archive: Archive) -> None:
    archive.archive(A, 100, size=1_000)
    assert archive.due() == []
    archive.clock.now_s += 1_000  # nothing is new all that time
    assert archive.due() == []
    archive.clock.now_s += 10
    archive.ends[A] = 101
    assert archive.due() == []
    archive.clock.now_s += 589
    archive.ends[A] = 150
    assert archive.due() == []
    archive.clock.now_s += 1  # it may have come right after the look before it was seen
    assert archive.due() == [A]
    archive.archive(A, 150, size=1_000)
    archive.ends[A] = 160
    assert archive.due() == []


def begin_to_wait(archive: Archive, waiting: tuple[str, int]) -> None:
    """Both partitions are archived, and one has a new record."""
    for key in (A, B):
        archive.archive(key, 10, size=100)
    archive.due()
    archive.ends[waiting] = 11
    archive.due()


def test_partitions_that_have_waited_half_as_long_go_along(archive: Archive) -> None:
    begin_to_wait(archive, A)
    archive.clock.now_s += 299
    archive.due()
    archive.clock.now_s += 1
    archive.ends[B] = 11
    assert archive.due() == []
    archive.clock.now_s += 300
    assert archive.due() == [A, B]  # B has waited for 301 s


def test_a_large_partition_does_not_take_others_along(archive: Archive) -> None:
    begin_to_wait(archive, B)
    archive.clock.now_s += 400
    archive.ends[A] = 10**6
    assert archive.due() == [A]


def test_a_restart_does_not_extend_the_wait(archive: Archive) -> None:
    """Otherwise an archiver that is killed every few minutes would never write."""
    archive.archive(A, 10, size=100)
    archive.ends[A] = 11
    archive.restart(after_s=400)
    assert archive.due() == []
    archive.restart(after_s=601)
    assert archive.due() == [A]


@pytest.mark.parametrize(("configs", "after_s"), [({"retention.ms": "400000"}, 100), ({"retention.ms": "-1"}, 600)])
def test_the_interval_is_at_most_a_quarter_of_the_topics_retention(
    archive: Archive, configs: dict[str, str], after_s: int
) -> None:
    archive.archive(A, 10, size=100)
    archive.due({"t": configs})
    archive.ends[A] = 11
    archive.clock.now_s += after_s - 1
    assert archive.due({"t": configs}) == []
    archive.clock.now_s += after_s
    assert archive.due({"t": configs}) == [A]


def test_the_size_is_at_most_a_quarter_of_the_topics_retention(archive: Archive) -> None:
    archive.archive(A, 100, size=1_000)
    archive.ends[A] = 200
    assert archive.due({"t": {"retention.bytes": "4004"}}) == []
    assert archive.due({"t": {"retention.bytes": "4000"}}) == [A]
