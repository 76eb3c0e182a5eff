"""Lanes of a report: they cover all of the time, and nothing bad is hidden."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from insync.pipeline.report.svg import PIECES, SEVERITY, Bar, Mark, merge_short, thin_out

KINDS = st.sampled_from(SEVERITY)
CUTS = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@st.composite
def lanes(draw: st.DrawFn) -> list[Bar]:
    """Bars from 0 to 1 without gaps; many are much shorter than a pixel."""
    near = [cut + i / PIECES / 20 for cut in draw(CUTS) for i in range(draw(st.integers(1, 30)))]
    cuts = [0.0, *sorted({cut for cut in near if 0 < cut < 1}), 1.0]
    return [Bar(start, end, draw(KINDS), f"{start:g}") for start, end in pairwise(cuts)]


@given(lanes())
def test_a_merged_lane_covers_the_same_time_with_few_bars(bars: list[Bar]) -> None:
    drawn = merge_short(bars)
    assert (drawn[0].start, drawn[-1].end) == (0, 1)
    assert all(left.end == right.start for left, right in pairwise(drawn))
    assert len(drawn) <= 2 * PIECES + 1
    assert [bar for bar in drawn if bar.end - bar.start >= 1 / PIECES and bar in bars] == [
        bar for bar in bars if bar.end - bar.start >= 1 / PIECES
    ]


@given(lanes())
def test_the_worst_kind_is_shown_at_its_place(bars: list[Bar]) -> None:
    drawn = merge_short(bars)
    for bar in bars:
        [over] = [merged for merged in drawn if merged.start <= bar.start and bar.end <= merged.end]
        assert SEVERITY.index(over.kind) <= SEVERITY.index(bar.kind)


def test_a_merged_bar_says_how_many_it_covers() -> None:
    [bar] = merge_short([Bar(0.5, 0.5005, "good", "well"), Bar(0.5005, 0.501, "bad", "no leader")])
    assert bar == Bar(0.5, 0.501, "bad", "2 changes, among them: no leader")


@given(st.lists(st.builds(Mark, st.floats(0, 1), KINDS, st.just("x"))))
def test_the_worst_of_the_marks_at_one_place_is_drawn(marks: list[Mark]) -> None:
    drawn = thin_out(marks)
    assert len(drawn) <= PIECES + 1
    assert {int(mark.at * PIECES) for mark in drawn} == {int(mark.at * PIECES) for mark in marks}
    assert any(mark.kind == "bad" for mark in drawn) == any(mark.kind == "bad" for mark in marks)
