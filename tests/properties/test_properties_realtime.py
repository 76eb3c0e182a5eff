"""Properties about what clients see, and in which order."""

from __future__ import annotations

from insync.properties import hwm_monotonicity
from insync.properties.history import ListedOffset, Read
from insync.properties.linearizable import PartitionHistory
from insync.properties.realtime import Floor
from tests.properties.property_harness import KEY


def listed(offset: int, *, started: int, time: int, epoch: int = 1) -> ListedOffset:
    return ListedOffset(started, time, KEY, offset, leader_epoch=epoch)


def test_a_leaders_high_watermark_does_not_go_down_in_its_term() -> None:
    """S6: H2."""
    assert hwm_monotonicity.check_term(1, 4, 10, 10) is None
    assert hwm_monotonicity.check_term(1, 4, 10, 9)


def test_the_current_leader_lists_the_true_end() -> None:
    """S6: H4."""
    assert hwm_monotonicity.check_listed(1, 10, 10) is None
    assert hwm_monotonicity.check_listed(1, 9, 10)


def test_listed_offsets_do_not_go_down_for_later_requests() -> None:
    """S6: overlapping requests may be answered in any order."""
    offsets = hwm_monotonicity.ListedOffsets()
    assert offsets.observe(listed(10, started=1, time=5)) is None
    assert offsets.observe(listed(8, started=3, time=6)) is None
    assert offsets.observe(listed(10, started=7, time=8)) is None
    assert offsets.observe(listed(9, started=9, time=10))


def test_a_replaced_leader_may_be_behind_but_its_successor_may_not() -> None:
    """S6: a response bounds its own and higher epochs."""
    offsets = hwm_monotonicity.ListedOffsets()
    offsets.observe(listed(10, started=1, time=2, epoch=2))
    assert offsets.observe(listed(8, started=3, time=4, epoch=1)) is None
    assert offsets.observe(listed(9, started=5, time=6, epoch=3))


def test_an_unclean_election_undoes_what_was_listed() -> None:
    """S6: only what earlier epochs listed."""
    offsets = hwm_monotonicity.ListedOffsets()
    offsets.observe(listed(10, started=1, time=2, epoch=2))
    offsets.forgive(3)
    assert offsets.observe(listed(7, started=3, time=4, epoch=3)) is None
    assert offsets.observe(listed(6, started=5, time=6, epoch=3))


def test_a_write_sent_after_an_acknowledgement_has_a_higher_offset() -> None:
    """S11: real-time order of writes."""
    writes = PartitionHistory()
    writes.sent(1)
    writes.sent(2)
    assert writes.acked(1, 4, 1, time=5, epoch=1) is None
    writes.sent(3)
    assert writes.acked(2, 3, 1, time=6, epoch=1) is None
    assert writes.acked(3, 4, 1, time=7, epoch=1)


def test_an_acknowledged_write_is_in_the_end_offset_listed_later() -> None:
    """S11: H4, in the epoch of the commit and in later ones."""
    writes = PartitionHistory()
    writes.sent(1)
    writes.acked(1, 4, 2, time=5, epoch=2)
    assert writes.listed(listed(6, started=6, time=7, epoch=2)) is None
    assert writes.listed(listed(5, started=5, time=7, epoch=2)) is None
    assert writes.listed(listed(5, started=6, time=7, epoch=1)) is None
    assert writes.listed(listed(5, started=6, time=7, epoch=3))


def test_an_acknowledged_write_is_visible_to_a_fetch_in_the_same_epoch() -> None:
    """S11: a later leader's high watermark may lag, its predecessor's may not."""
    writes = PartitionHistory()
    writes.sent(1)
    writes.acked(1, 4, 1, time=5, epoch=2)
    assert writes.read(Read(6, 7, KEY, 0, hwm=5, leader_epoch=2)) is None
    assert writes.read(Read(6, 7, KEY, 0, hwm=4, leader_epoch=3)) is None
    assert writes.read(Read(6, 7, KEY, 0, hwm=4, leader_epoch=2))


def test_after_an_unclean_election_offsets_may_be_reused() -> None:
    """S11: acknowledged writes from the kept offset on no longer count."""
    writes = PartitionHistory()
    writes.sent(1)
    writes.acked(1, 9, 1, time=5, epoch=1)
    writes.sent(2)
    writes.forgive(4, 2)
    assert writes.acked(2, 4, 1, time=7, epoch=2) is None
    assert writes.listed(listed(5, started=8, time=9, epoch=2)) is None


def test_a_floor_returns_the_highest_value_before_a_time() -> None:
    """S6, S11: strictly before; only the oldest values are dropped."""
    floor = Floor()
    for time in range(2000):
        floor.raise_to(time, time=time, epoch=1)
    assert floor.before(time=1900, epoch=1) == 1899
    assert floor.before(time=2000, epoch=5) == 1999
    assert floor.before(time=1500, epoch=0) == -1
