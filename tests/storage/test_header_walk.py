"""Reading headers from an offset on. Checkers do it after every append, so it must not read a whole segment."""

from __future__ import annotations

import pytest

from tests.storage.storage_harness import LogHarness


def test_headers_at_the_end_of_a_long_segment_are_found_without_reading_all_of_it() -> None:
    harness = LogHarness(index_interval_bytes=1_000)
    for _ in range(500):
        harness.append(2)
    log = harness.log
    before = harness.bytes_read()
    assert [h.base_offset for h in log.iter_headers(log.leo - 2, log.leo)] == [998]
    assert harness.bytes_read() - before < log.active.size // 10


@pytest.mark.parametrize("start", [0, 1, 7, 500, 501, 998, 999])
def test_the_first_header_is_that_of_the_batch_that_holds_the_offset(start: int) -> None:
    harness = LogHarness(index_interval_bytes=1_000)
    for _ in range(500):
        harness.append(2)
    bases = [h.base_offset for h in harness.log.iter_headers(start, harness.log.leo)]
    assert bases == list(range(start - start % 2, 1_000, 2))


def test_an_index_that_points_into_a_batch_is_not_followed() -> None:
    harness = LogHarness(index_interval_bytes=1_000)
    for _ in range(100):
        harness.append(2)
    segment = harness.log.active
    segment.hints.clear()
    for at in range(len(segment.index.values)):
        segment.index.values[at] += 13
    assert [h.base_offset for h in harness.log.iter_headers(150, 200)] == list(range(150, 200, 2))
