"""A source offset becomes the target's offset of the same record, or a lower one, never a higher one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.pipeline.mirror import offset_map
from insync.pipeline.mirror.offset_map import Anchor, OffsetMap, Translation


def no_count(start: int, end: int) -> int | None:
    raise AssertionError(f"records from {start} to {end} were counted")


def test_a_source_without_gaps_needs_two_anchors() -> None:
    offsets = OffsetMap([Anchor(40, 0, 0)])
    for rows in range(100, 1_100, 100):
        offsets.add(Anchor(40 + rows, rows, rows))
    assert offsets.anchors == [Anchor(40, 0, 0), Anchor(1_040, 1_000, 1_000)]
    assert offsets.translate(740, no_count) == Translation(700, True)


def test_offsets_outside_the_map_become_its_ends() -> None:
    offsets = OffsetMap([Anchor(40, 0, 5), Anchor(50, 10, 15)])
    assert offsets.translate(3, no_count) == Translation(5, True)
    assert offsets.translate(50, no_count) == Translation(15, True)
    assert offsets.translate(51, no_count) == Translation(15, False)
    assert OffsetMap().translate(0, no_count) is None


def test_where_the_source_has_gaps_its_records_are_counted() -> None:
    offsets = OffsetMap([Anchor(0, 0, 0), Anchor(100, 10, 10)])
    assert offsets.translate(55, lambda start, end: (end - start) // 10) == Translation(5, True)
    assert offsets.translate(55, lambda start, end: None) == Translation(0, False)


def test_other_producers_in_the_target_make_a_translation_lower() -> None:
    offsets = OffsetMap([Anchor(0, 0, 0), Anchor(10, 10, 25), Anchor(20, 20, 35)])
    assert offsets.translate(7, no_count) == Translation(0, False)
    assert offsets.translate(17, no_count) == Translation(32, True)


def test_a_lost_range_has_the_offset_of_what_follows() -> None:
    offsets = OffsetMap([Anchor(0, 0, 0), Anchor(10, 10, 10)])
    offsets.continue_at(30)
    offsets.add(Anchor(40, 20, 20))
    expected = [Translation(offset, True) for offset in (9, 10, 10, 10, 15)]
    assert [offsets.translate(at, no_count) for at in (9, 10, 25, 30, 35)] == expected


def test_after_a_truncation_offsets_are_those_of_the_new_records() -> None:
    """Offsets 6 to 9 were mirrored, then cut off in the source and written anew with other records."""
    offsets = OffsetMap([Anchor(0, 0, 0), Anchor(10, 10, 10)])
    offsets.continue_at(6)
    offsets.add(Anchor(9, 13, 13))
    assert [offsets.translate(at, no_count) for at in (5, 6, 8)] == [
        Translation(5, True), Translation(10, True), Translation(12, True),
    ]  # fmt: skip


def test_anchors_of_a_source_with_gaps_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_map, "ANCHOR_ROWS", 100)
    offsets = OffsetMap([Anchor(0, 0, 0)])
    for rows in range(10, 1_010, 10):
        offsets.add(Anchor(3 * rows, rows, rows))
    assert len(offsets.anchors) <= 1_000 // 100 * 2 + 2
    assert offsets.translate(1_500, lambda start, end: (end - start) // 3) == Translation(500, True)


@given(st.data())
def test_a_translation_skips_no_record(data: st.DataObject) -> None:
    """Sources with gaps, batches of any size, other producers in the target: the exact offset, or a lower one."""
    gaps = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=40))
    sources = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    offsets, targets, target, row = OffsetMap([Anchor(0, 0, 0)]), list[int](), 0, 0
    while row < len(sources):
        target += data.draw(st.sampled_from([0, 0, 0, 2]))
        count = data.draw(st.integers(1, min(9, len(sources) - row)))
        offsets.add(Anchor(sources[row], row, target))
        targets += range(target, target + count)
        target, row = target + count, row + count
    end = sources[-1] + 1
    offsets.add(Anchor(end, row, target))
    for offset in range(end + 1):
        expected = next((t for s, t in zip(sources, targets, strict=True) if s >= offset), target)
        before = max((t for s, t in zip(sources, targets, strict=True) if s < offset), default=-1)
        translation = offsets.translate(offset, lambda start, end: sum(start <= s < end for s in sources))
        assert translation is not None
        assert translation.offset <= expected
        assert not translation.is_exact or before < translation.offset
