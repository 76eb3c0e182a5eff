"""A replay reads the selected rows in the order of the log, across files and restarts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from insync.columnar.decode import DecodeOptions, decode
from insync.lake import directory
from insync.lake.ledger import RANGES, Ledger, Range
from insync.lake.reader import Selection, read_rows
from insync.lake.writer import RangeWriter
from insync.pipeline.fenced_sender import Producer
from insync.pipeline.replay import plan as replay_plan
from insync.pipeline.replay.plan import ReplayError, SourcePartition
from insync.pipeline.replay.task import Position, ReplayBatches, ReplayTask
from tests.lake.lake_rows import make_rows

DAY_MS = 86_400_000
FIRST_DAY = 20_000 * DAY_MS


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three ranges of 100 rows; in the second, two dates alternate."""
    directory.make_lake(tmp_path)
    ledger = Ledger.load(tmp_path)
    for n in range(3):
        start, end = 100 * n, 100 * n + 100
        writer = RangeWriter(tmp_path, topic="t", partition=0, start=start, end=end, attempt="ab-1", codec="lz4")
        days = [i % 2 if n == 1 else int(n > 1) for i in range(100)]
        writer.add(make_rows(start, [FIRST_DAY + day * DAY_MS + start + i for i, day in enumerate(days)]))
        files = tuple(writer.close())
        ledger.commit(
            RANGES,
            "me",
            ranges=[
                Range(topic="t", topic_id="A", partition=0, generation=0, start=start, end=end, rows=100, files=files)
            ],
        )
    return ledger


def source(ledger: Ledger, selection: Selection) -> SourcePartition:
    (planned,) = replay_plan.plan_sources(ledger, {"t": "t"}, selection)
    return planned


def read(ledger: Ledger, selection: Selection, start: int = 0) -> list[int]:
    planned = source(ledger, selection)
    tables = list(read_rows(ledger.lake, planned.remaining(start, 10**9), selection, start))
    return pa.concat_tables(tables).column("offset").to_pylist() if tables else []


def test_rows_of_several_dates_are_read_in_the_order_of_the_log(ledger: Ledger) -> None:
    assert [len(unit.files) for unit in source(ledger, Selection()).units] == [1, 2, 1]
    assert read(ledger, Selection()) == list(range(300))
    assert read(ledger, Selection(), start=137) == list(range(137, 300))


def test_offsets_and_times_select_rows(ledger: Ledger) -> None:
    assert read(ledger, Selection(from_offset=95, to_offset=205)) == list(range(95, 205))
    second = Selection(from_time=FIRST_DAY + DAY_MS)
    assert read(ledger, second) == [*range(101, 200, 2), *range(200, 300)]
    assert read(ledger, Selection(to_time=FIRST_DAY + 50)) == list(range(50))
    both = Selection(from_offset=110, from_time=FIRST_DAY + DAY_MS, to_time=FIRST_DAY + DAY_MS + 120)
    assert read(ledger, both) == [111, 113, 115, 117, 119]


def test_files_without_a_selected_row_are_not_opened(ledger: Ledger) -> None:
    for selection in (Selection(from_offset=200), Selection(from_time=FIRST_DAY + DAY_MS + 200)):
        units = source(ledger, selection).units
        assert [(unit.end, unit.rows) for unit in units] == [(300, 100)]
    assert [len(unit.files) for unit in source(ledger, Selection(to_time=FIRST_DAY + DAY_MS)).units] == [1, 1]


def test_topics_partitions_and_generations_that_the_lake_lacks_are_errors(ledger: Ledger) -> None:
    with pytest.raises(ReplayError, match=r"topic 'x' is not in .*, which has t"):
        replay_plan.plan_sources(ledger, {"x": "x"}, Selection())
    with pytest.raises(ReplayError, match="no partition 4 of t"):
        replay_plan.plan_sources(ledger, {"t": "t"}, Selection(), partitions=(4,))
    with pytest.raises(ReplayError, match="t-0 has no generation 3; its newest is 0"):
        replay_plan.plan_sources(ledger, {"t": "t"}, Selection(), generation=3)


def task(ledger: Ledger, position: Position, max_rows: int, selection: Selection) -> ReplayTask:
    planned = source(ledger, selection)
    return ReplayTask(
        lake=str(ledger.lake),
        bootstrap="",
        topic="t",
        topic_id="A",
        partition=0,
        producer=Producer(7, 0),
        units=tuple(planned.remaining(position.source, max_rows)),
        selection=selection,
        position=position,
        max_rows=max_rows,
        codec="none",
        batch_bytes=300,
        timeout_s=1.0,
    )


@pytest.mark.parametrize("max_rows", [1, 37, 100, 250, 1000])
@pytest.mark.parametrize("selection", [Selection(), Selection(from_offset=30, from_time=FIRST_DAY + 50)])
def test_rounds_of_any_size_give_the_same_records_the_same_positions(
    ledger: Ledger, max_rows: int, selection: Selection
) -> None:
    position, values, sequences = Position(), [], []
    while source(ledger, selection).remaining(position.source, 1):
        batches = ReplayBatches(task(ledger, position, max_rows, selection), skip=0)
        for data, at, count in batches.build():
            decoded = decode(data, DecodeOptions(("value", "sequence"))).batch
            assert decoded.num_rows == count
            assert decoded.column("sequence")[0].as_py() == at
            values += decoded.column("value").to_pylist()
            sequences += decoded.column("sequence").to_pylist()
        assert batches.source > position.source
        position = Position(rows=batches.position, source=batches.source)
    assert values == [b"v%d" % i for i in read(ledger, selection)]
    assert sequences == list(range(len(values)))


@pytest.mark.parametrize("skip", [0, 1, 99, 150, 299, 300])
def test_rows_that_are_written_are_skipped(ledger: Ledger, skip: int) -> None:
    batches = ReplayBatches(task(ledger, Position(), 1000, Selection()), skip)
    values = [
        v for data, _, _ in batches.build() for v in decode(data, DecodeOptions(("value",))).batch.column(0).to_pylist()
    ]
    assert values == [b"v%d" % i for i in range(skip, 300)]
    assert (batches.position, batches.source) == (300, 300)


def test_a_task_reports_only_the_rows_it_covers(ledger: Ledger) -> None:
    batches = ReplayBatches(task(ledger, Position(), 40, Selection()), skip=120)
    assert list(batches.build()) == []
    assert (batches.position, batches.source) == (40, 40)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(from_offset=50, to_offset=20), "--from-offset 50 is not before --to-offset 20"),
        (Selection(from_offset=20, to_offset=20), "--from-offset 20 is not before --to-offset 20"),
        (
            Selection(from_time=FIRST_DAY + DAY_MS, to_time=FIRST_DAY),
            "--from-time 2024-10-05T00:00:00.000Z is not before --to-time 2024-10-04T00:00:00.000Z",
        ),
    ],
)
def test_a_selection_that_ends_before_it_begins_is_refused(selection: Selection, message: str) -> None:
    replay_plan.check_selection(Selection())
    with pytest.raises(ReplayError) as refused:
        replay_plan.check_selection(selection)
    assert str(refused.value).startswith(message)


def test_a_target_has_a_name_that_a_topic_can_have() -> None:
    replay_plan.check_names({"x": "Orders.2_a-b"})
    for name in ("x y", "", "..", "a" * 250, "ä"):
        with pytest.raises(ReplayError, match="a name has 1 to 249"):
            replay_plan.check_names({"x": name})
