"""What the archive does next, from what ledger and brokers say; and what of a round may be committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from insync.client.errors import UnknownTopicError
from insync.client.model import Offset, Partition, Topic
from insync.client.offsets import EARLIEST
from insync.pipeline import lake
from insync.pipeline.archive import plan as archive_plan
from insync.pipeline.archive.job import select_committable
from insync.pipeline.archive.plan import Plan, UnarchivedLossError
from insync.pipeline.archive.task import ArchiveResult
from insync.pipeline.ledger import RANGES, File, Ledger, Range

A, B = UUID(int=1), UUID(int=2)
KEY = ("t", 0)


class View:
    """Brokers that say what a test wants them to."""

    def __init__(self, *, earliest: int = 0, latest: int, epoch: int = 0, topic_id: UUID = A, ends: Any = None) -> None:
        self._earliest, self._latest, self._epoch = earliest, latest, epoch
        self._ends = ends or {}
        partition = Partition(index=0, leader=1, leader_epoch=epoch, replicas=(1,), isr=(1,))
        self._topic = Topic(name="t", id=topic_id, partitions=(partition,))

    def remember_epochs(self, heard: Iterable[tuple[str, int, int]]) -> None:
        self.heard = list(heard)

    def describe_topics(self, *, must_exist: bool = True) -> dict[str, Topic]:
        return {"t": self._topic}

    def list_partitions(self, known: Mapping[str, Topic]) -> list[Any]:
        return [KEY]

    def list_offsets_and_epochs(self, wanted: Mapping[Any, int], known: Any = None) -> dict[Any, Offset]:
        which = {EARLIEST: self._earliest}
        return {key: Offset(which.get(at, self._latest), leader_epoch=self._epoch) for key, at in wanted.items()}

    def find_epoch_end(self, key: Any, epoch: int) -> tuple[int, int]:
        found: tuple[int, int] = self._ends[epoch]
        return found


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    lake.make_lake(tmp_path)
    return Ledger.load(tmp_path)


def archived(start: int, end: int, **facts: Any) -> Range:
    whole = {"topic": "t", "topic_id": str(A), "partition": 0, "generation": 0} | facts
    return Range(start=start, end=end, **whole)


def made(view: View, ledger: Ledger, *, allow_loss: bool = False) -> Plan:
    return archive_plan.make_plan(view, ledger, ("t",), allow_loss=allow_loss)  # type: ignore[arg-type]


def test_it_goes_on_where_the_ledger_ends(ledger: Ledger) -> None:
    assert made(View(earliest=3, latest=9), ledger).starts[KEY] == archived(3, 3)
    ledger.commit(RANGES, "me", ranges=[archived(3, 7, epoch=0, seen=7)])
    plan = made(View(earliest=5, latest=9), ledger)
    assert (plan.starts[KEY], plan.ends[KEY], plan.backlog) == (archived(7, 7), 9, 2)


def test_a_log_that_was_cut_back_is_an_error_and_a_new_generation_if_allowed(ledger: Ledger) -> None:
    """Even when the log has grown past the place again: the leader's epochs tell."""
    ledger.commit(RANGES, "me", ranges=[archived(0, 10, epoch=3, seen=10)])
    view = View(latest=50, epoch=5, ends={3: (3, 8)})
    with pytest.raises(UnarchivedLossError, match=r"offsets 8 to 9 missing .truncation."):
        made(view, ledger)
    plan = made(view, ledger, allow_loss=True)
    start = plan.starts[KEY]
    assert (start.generation, start.start, plan.lost) == (1, 8, [])
    assert "cut them off" in start.why
    ranges = plan.split(max_offsets=10**6, tasks=1, rows_per_file=20)
    assert [(each.start, each.end, bool(each.why)) for each in ranges] == [
        (8, 22, True),
        (22, 36, False),
        (36, 50, False),
    ]
    ledger.commit(RANGES, "me", ranges=ranges)  # the ledger agrees


def test_offsets_after_the_last_batch_of_an_epoch_are_not_taken_for_truncated(ledger: Ledger) -> None:
    """The range ends at 10, but its last batch ended at 6: compaction took the rest, and epoch 3 did end at 6."""
    ledger.commit(RANGES, "me", ranges=[archived(0, 10, epoch=3, seen=6)])
    assert made(View(latest=50, epoch=5, ends={3: (3, 6)}), ledger).starts[KEY] == archived(10, 10)


def test_what_retention_took_is_an_error_and_a_lost_range_if_allowed(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[archived(0, 10, epoch=0, seen=10)])
    with pytest.raises(UnarchivedLossError, match=r"offsets 10 to 29 missing .retention."):
        made(View(earliest=30, latest=30), ledger)
    plan = made(View(earliest=30, latest=40), ledger, allow_loss=True)
    assert [(each.start, each.end, "retention" in each.lost) for each in plan.lost] == [(10, 30, True)]
    assert plan.starts[KEY] == archived(30, 30)
    ledger.commit(RANGES, "me", ranges=plan.lost)
    assert made(View(earliest=30, latest=40), ledger).lost == []


def test_a_topic_with_another_id_begins_a_generation_without_being_allowed_to(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[archived(0, 10, epoch=0, seen=10)])
    plan = made(View(earliest=2, latest=4, topic_id=B), ledger)
    start = plan.starts[KEY]
    assert (start.topic_id, start.generation, start.start) == (str(B), 1, 2)
    assert str(A) in start.why
    assert str(B) in plan.notes[0]


def test_a_named_topic_must_be_there(ledger: Ledger) -> None:
    with pytest.raises(UnknownTopicError, match="'u'"):
        archive_plan.known_topics(View(latest=0), ("t", "u"))  # type: ignore[arg-type]


def test_small_ranges_are_not_cut_for_more_cores() -> None:
    plan = Plan(starts={KEY: archived(0, 0)}, ends={KEY: 90_000})
    assert len(plan.split(max_offsets=10**9, tasks=8, rows_per_file=10**6)) == 1
    plan.ends[KEY] = 400_000
    assert len(plan.split(max_offsets=10**9, tasks=8, rows_per_file=10**6)) == 8
    assert [each.end for each in plan.split(max_offsets=50_000, tasks=1, rows_per_file=10**6)] == [50_000]


# --- what may be committed -------------------------------------------------------------------------------------------


def answer(rows: int) -> ArchiveResult:
    file = File(path="p", rows=rows, bytes=1, crc=1, first=0, last=1, oldest=0, newest=0)
    return ArchiveResult((file,) if rows else (), epoch=2, seen=9)


def test_of_each_partition_what_comes_before_the_first_failure() -> None:
    ranges = [archived(0, 10), archived(10, 20), archived(20, 30), archived(0, 5, partition=1)]
    answers = [answer(10), ArchiveResult(error="the disk is full"), answer(10), answer(3)]
    found, problem = select_committable(ranges, answers)
    assert [(each.partition, each.start, each.end, each.rows) for each in found] == [(0, 0, 10, 10), (1, 0, 5, 3)]
    assert problem == "the disk is full"


def test_a_range_without_rows_counts_as_covered(ledger: Ledger) -> None:
    """Markers of transactions and compaction leave offsets without records."""
    found, problem = select_committable([archived(0, 10)], [answer(0)])
    assert (found, problem) == ([replace(archived(0, 10), epoch=2, seen=9)], "")
    ledger.commit(RANGES, "me", ranges=found)
    assert Ledger.load(ledger.lake).last(KEY) == found[0]
