"""What a lake has of a partition as it is now, from generations, losses and removed ranges."""

from __future__ import annotations

import pytest

from insync.lake import directory
from insync.lake.coverage import find_offset_by_time, list_pieces, select_pieces
from insync.lake.ledger import RANGES, Ledger, Range
from insync.lake.writer import RangeWriter
from tests.lake.lake_rows import make_rows

KEY = ("t", 0)


def make_range(start: int, end: int, generation: int = 0, topic_id: str = "A", lost: str = "") -> Range:
    return Range(topic="t", topic_id=topic_id, partition=0, generation=generation, start=start, end=end, lost=lost)


@pytest.fixture
def ledger(place: str) -> Ledger:
    directory.make_lake(place)
    return Ledger.load(place)


def pieces(ledger: Ledger, topic_id: str = "A") -> list[tuple[int, int, int]]:
    return [(piece.start, piece.end, piece.archived.generation) for piece in list_pieces(ledger, KEY, topic_id)]


def test_a_truncated_generation_ends_where_the_next_one_begins(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10), make_range(10, 20), make_range(20, 30)])
    ledger.commit(RANGES, "me", ranges=[make_range(15, 40, generation=1)])
    assert pieces(ledger) == [(0, 10, 0), (10, 15, 0), (15, 40, 1)]
    ledger.commit(RANGES, "me", ranges=[make_range(10, 12, generation=2)])
    assert pieces(ledger) == [(0, 10, 0), (10, 12, 2)]


def test_generations_of_another_topic_id_do_not_count(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    ledger.commit(RANGES, "me", ranges=[make_range(0, 5, generation=1, topic_id="B")])
    assert (pieces(ledger), pieces(ledger, "B"), pieces(ledger, "C")) == ([(0, 10, 0)], [(0, 5, 1)], [])


def test_lost_offsets_are_not_selected(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10), make_range(10, 20, lost="retention"), make_range(20, 30)])
    selected = select_pieces(list_pieces(ledger, KEY, "A"), 5, 25)
    assert [(piece.start, piece.end) for piece in selected] == [(5, 10), (20, 25)]


def test_the_first_record_that_is_not_older_is_found(ledger: Ledger) -> None:
    """Times need not grow: offset 12 is the first at or after 1,050 ms."""
    times = {0: [1_000 + i for i in range(10)], 10: [900, 901, 2_000, *(903 + i for i in range(7))]}
    for start, own in times.items():
        writer = RangeWriter(
            ledger.lake, topic="t", partition=0, start=start, end=start + 10, attempt="ab-1", codec="lz4"
        )
        writer.add(make_rows(start, own))
        (file,) = writer.close()
        archived = Range(
            topic="t", topic_id="A", partition=0, generation=0, start=start, end=start + 10, rows=10, files=(file,)
        )
        ledger.commit(RANGES, "me", ranges=[archived])
    known = list_pieces(ledger, KEY, "A")
    offsets = [find_offset_by_time(ledger.lake, known, time) for time in (0, 1_005, 1_050, 2_001)]
    assert offsets == [0, 5, 12, -1]
    assert find_offset_by_time(ledger.lake, select_pieces(known, 3, 12), 0) == 3
    assert find_offset_by_time(ledger.lake, select_pieces(known, 3, 12), 1_050) == -1
