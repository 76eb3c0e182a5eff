"""Ranges of positions that merge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insync.storage import extents
from insync.storage.extents import Extents

ranges = st.tuples(st.integers(0, 60), st.integers(1, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(ranges, max_size=extents.MAX_RANGES), st.integers(0, 70), ranges)
def test_what_was_added_and_not_truncated_is_covered(
    added: list[tuple[int, int]], end: int, probed: tuple[int, int]
) -> None:
    """D6: no byte counts as verified that was not."""
    known = Extents()
    for start, stop in added:
        known.add(start, stop)
    known.truncate(end)
    positions = {at for start, stop in added for at in range(start, min(stop, end))}
    assert known.covers(*probed) == all(at in positions for at in range(*probed))


def test_above_the_limit_the_smallest_range_is_forgotten() -> None:
    known = Extents()
    for number in range(extents.MAX_RANGES + 1):
        known.add(100 * number, 100 * number + (5 if number == 3 else 50))
    assert not known.covers(300, 305)
    assert all(known.covers(100 * number, 100 * number + 50) for number in range(extents.MAX_RANGES + 1) if number != 3)
