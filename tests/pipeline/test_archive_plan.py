"""What to archive next, from the ledger and the brokers; and which results of a round can be committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from insync.client.errors import UnknownTopicError
from insync.lake import directory
from insync.lake.ledger import RANGES, File, Ledger, Range
from insync.pipeline.archive import plan as archive_plan
from insync.pipeline.archive.job import select_committable
from insync.pipeline.archive.plan import Plan, UnarchivedLossError
from insync.pipeline.archive.task import ArchiveResult
from tests.pipeline.fake_view import KEY, A, B, FakeView


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    directory.make_lake(tmp_path)
    return Ledger.load(tmp_path)


def make_range(start: int, end: int, **fields: Any) -> Range:
    partition: dict[str, Any] = {"topic": "t", "topic_id": str(A), "partition": 0, "generation": 0}
    return Range(start=start, end=end, **{**partition, **fields})


def make_plan(view: FakeView, ledger: Ledger, *, allow_loss: bool = False) -> Plan:
    return archive_plan.make_plan(view, ledger, ("t",), allow_loss=allow_loss)  # type: ignore[arg-type]


def test_a_plan_starts_where_the_ledger_ends(ledger: Ledger) -> None:
    assert make_plan(FakeView(earliest=3, latest=9), ledger).starts[KEY] == make_range(3, 3)
    ledger.commit(RANGES, "me", ranges=[make_range(3, 7, epoch=0, seen=7)])
    plan = make_plan(FakeView(earliest=5, latest=9), ledger)
    assert (plan.starts[KEY], plan.ends[KEY], plan.backlog) == (make_range(7, 7), 9, 2)


def test_a_truncated_log_is_an_error_or_a_new_generation_if_allowed(ledger: Ledger) -> None:
    """Even if the log has grown past the offset again: the leader epochs reveal it."""
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10, epoch=3, seen=10)])
    view = FakeView(latest=50, epoch=5, ends={3: (3, 8)})
    with pytest.raises(UnarchivedLossError, match=r"offsets 8 to 9 missing .truncation."):
        make_plan(view, ledger)
    plan = make_plan(view, ledger, allow_loss=True)
    start = plan.starts[KEY]
    assert (start.generation, start.start, plan.lost) == (1, 8, [])
    assert "cut them off" in start.why
    ranges = plan.split(max_offsets=10**6, tasks=1, rows_per_file=20)
    assert [(part.start, part.end, bool(part.why)) for part in ranges] == [
        (8, 22, True),
        (22, 36, False),
        (36, 50, False),
    ]
    ledger.commit(RANGES, "me", ranges=ranges)  # the ledger accepts them


def test_offsets_after_the_last_batch_of_an_epoch_are_not_truncated(ledger: Ledger) -> None:
    """The range ends at 10, but its last batch ended at 6: compaction removed the rest, and epoch 3 did end at 6."""
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10, epoch=3, seen=6)])
    assert make_plan(FakeView(latest=50, epoch=5, ends={3: (3, 6)}), ledger).starts[KEY] == make_range(10, 10)


def test_offsets_removed_by_retention_are_an_error_or_a_lost_range_if_allowed(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10, epoch=0, seen=10)])
    with pytest.raises(UnarchivedLossError, match=r"offsets 10 to 29 missing .retention."):
        make_plan(FakeView(earliest=30, latest=30), ledger)
    plan = make_plan(FakeView(earliest=30, latest=40), ledger, allow_loss=True)
    assert [(part.start, part.end, "retention" in part.lost) for part in plan.lost] == [(10, 30, True)]
    assert plan.starts[KEY] == make_range(30, 30)
    ledger.commit(RANGES, "me", ranges=plan.lost)
    assert make_plan(FakeView(earliest=30, latest=40), ledger).lost == []


def test_a_recreated_topic_begins_a_new_generation(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10, epoch=0, seen=10)])
    plan = make_plan(FakeView(earliest=2, latest=4, topic_id=B), ledger)
    start = plan.starts[KEY]
    assert (start.topic_id, start.generation, start.start) == (str(B), 1, 2)
    assert str(A) in start.why
    assert str(B) in plan.notes[0]


def test_a_missing_topic_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(UnknownTopicError, match="'u'"):
        archive_plan.find_topics(FakeView(latest=0), ("t", "u"))  # type: ignore[arg-type]


def test_small_ranges_are_not_split_for_more_cores() -> None:
    plan = Plan(starts={KEY: make_range(0, 0)}, ends={KEY: 90_000})
    assert len(plan.split(max_offsets=10**9, tasks=8, rows_per_file=10**6)) == 1
    plan.ends[KEY] = 400_000
    assert len(plan.split(max_offsets=10**9, tasks=8, rows_per_file=10**6)) == 8
    assert [part.end for part in plan.split(max_offsets=50_000, tasks=1, rows_per_file=10**6)] == [50_000]


# --- committing ------------------------------------------------------------------------------------------------------


def make_result(rows: int) -> ArchiveResult:
    file = File(path="p", rows=rows, bytes=1, crc=1, first=0, last=1, oldest=0, newest=0)
    return ArchiveResult((file,) if rows else (), epoch=2, seen=9)


def test_the_ranges_before_a_partitions_first_failure_are_committed() -> None:
    ranges = [make_range(0, 10), make_range(10, 20), make_range(20, 30), make_range(0, 5, partition=1)]
    results = [make_result(10), ArchiveResult(error="the disk is full"), make_result(10), make_result(3)]
    done, error = select_committable(ranges, results)
    assert [(part.partition, part.start, part.end, part.rows) for part in done] == [(0, 0, 10, 10), (1, 0, 5, 3)]
    assert error == "the disk is full"


def test_a_range_without_rows_counts_as_covered(ledger: Ledger) -> None:
    """Transaction markers and compaction leave offsets without records."""
    done, error = select_committable([make_range(0, 10)], [make_result(0)])
    assert (done, error) == ([replace(make_range(0, 10), epoch=2, seen=9)], "")
    ledger.commit(RANGES, "me", ranges=done)
    assert Ledger.load(ledger.lake).last(KEY) == done[0]
