"""Lanes of a report: however much happened, all of the time is told, and nothing bad is hidden."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from insync.pipeline.report.svg import PIECES, SEVERITY, Bar, Mark, merge_short, thin_out

KINDS = st.sampled_from(SEVERITY)
CUTS = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@st.composite
def lanes(draw: st.DrawFn) -> list[Bar]:
    """From 0 to 1 without holes; many of the pieces are much shorter than a pixel."""
    near = [cut + i / PIECES / 20 for cut in draw(CUTS) for i in range(draw(st.integers(1, 30)))]
    cuts = [0.0, *sorted({cut for cut in near if 0 < cut < 1}), 1.0]
    return [Bar(start, end, draw(KINDS), f"{start:g}") for start, end in pairwise(cuts)]


@given(lanes())
def test_a_folded_lane_covers_the_same_time_with_few_bars(bars: list[Bar]) -> None:
    found = merge_short(bars)
    assert (found[0].start, found[-1].end) == (0, 1)
    assert all(left.end == right.start for left, right in pairwise(found))
    assert len(found) <= 2 * PIECES + 1
    assert [bar for bar in found if bar.end - bar.start >= 1 / PIECES and bar in bars] == [
        bar for bar in bars if bar.end - bar.start >= 1 / PIECES
    ]


@given(lanes())
def test_what_is_bad_is_seen_where_it_was(bars: list[Bar]) -> None:
    found = merge_short(bars)
    for bar in bars:
        [over] = [each for each in found if each.start <= bar.start and bar.end <= each.end]
        assert SEVERITY.index(over.kind) <= SEVERITY.index(bar.kind)


def test_a_fold_says_how_much_is_in_it() -> None:
    [bar] = merge_short([Bar(0.5, 0.5005, "good", "well"), Bar(0.5005, 0.501, "bad", "no leader")])
    assert bar == Bar(0.5, 0.501, "bad", "2 changes, among them: no leader")


@given(st.lists(st.builds(Mark, st.floats(0, 1), KINDS, st.just("x"))))
def test_of_marks_at_one_place_the_worst_is_drawn(marks: list[Mark]) -> None:
    found = thin_out(marks)
    assert len(found) <= PIECES + 1
    assert {int(mark.at * PIECES) for mark in found} == {int(mark.at * PIECES) for mark in marks}
    assert any(mark.kind == "bad" for mark in found) == any(mark.kind == "bad" for mark in marks)
