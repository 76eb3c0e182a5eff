"""Bytes of a segment that changed on disk (D6): every change is found and repaired from an intact copy."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from insync.sim.engine.disk import SimDisk
from insync.storage import disk as disks
from insync.storage.damage import CorruptSegmentError, DamagedRange
from insync.storage.log import Log
from insync.storage.repair import Replacement, SegmentRepair
from insync.storage.verification import Verification, check_batches
from insync.wire import batch as batches
from tests.storage.compaction_harness import MortalDisk, ProcessDiedError, compact, put, records
from tests.storage.storage_harness import LogHarness, batch, content, shape


def make_log(disk: SimDisk | None = None, *, interval: int = 150) -> LogHarness:
    """Fourteen batches of one to three records in three segments and three leader epochs, all committed and flushed."""
    harness = LogHarness(disk, segment_bytes=600, index_interval_bytes=interval)
    for number in range(14):
        harness.append(1 + number % 3, epoch=1 + number // 5, value=b"v%02d" % number, timestamp=1_000 + number)
    harness.log.set_hwm(harness.log.leo)
    harness.log.flush()
    return harness


def find_damage(log: Log, budget: int = 0) -> list[DamagedRange]:
    """Verify the whole log."""
    ranges: list[DamagedRange] = []
    for segment in list(log.segments):
        work = Verification(log, segment, limit_offset=log.hwm, budget=budget)
        work.run()
        while not work.done:
            ranges += work.damaged
            work = Verification(
                log, segment, limit_offset=log.hwm, position=work.position, expected=work.expected, budget=budget
            )
            work.run()
        ranges += work.damaged
    return ranges


def repair(log: Log, intact: Log) -> None:
    """As a broker does: find the damage, read the range from another replica, and replace it."""
    for damaged in find_damage(log):
        log.damage.add(damaged)
    while log.damage:
        repair_one(log, intact, log.damage.ranges[0])


def repair_one(log: Log, intact: Log, damaged: DamagedRange) -> None:
    replacement = Replacement(log, damaged)
    while not replacement.is_complete:
        assert replacement.add(intact.read(replacement.fetch_offset, 200, limit_offset=intact.hwm)) is None
    work = SegmentRepair(log, replacement)
    work.run()
    assert work.finish()


def files(harness: LogHarness) -> list[tuple[str, int]]:
    names = [name for name in harness.disk.listdir("data/t-0") if name.endswith(".log")]
    return [(harness.path(name), harness.disk.size(harness.path(name))) for name in names]


@pytest.mark.parametrize("budget", [0, 1])
def test_an_intact_log_has_no_damage_in_it(budget: int) -> None:
    """D6"""
    harness = make_log()
    for log in (harness.log, harness.reopen_clean()):
        log.set_hwm(log.leo)
        assert find_damage(log, budget) == []


def test_an_intact_log_has_no_damage_in_it_wherever_it_starts() -> None:
    """D6: DeleteRecords moves the log start into a batch, and the epoch cache forgets the epochs below it."""
    for start in range(make_log().log.leo):
        harness = make_log()
        harness.log.delete_records(start)
        for log in (harness.log, harness.reopen_clean()):
            log.set_hwm(log.leo)
            assert find_damage(log) == [], start
            records = log.read(start, 10_000, limit_offset=log.hwm)
            assert check_batches(log, records, len(records)).size == len(records) > 0, start


def test_damage_at_the_log_start_is_found_and_repaired() -> None:
    """D6: another replica sends the batch that its log starts in, and none before it."""
    for start in range(make_log().log.leo):
        harness, intact = make_log(), make_log()
        for log in (harness.log, intact.log):
            log.delete_records(start)
        path, size = files(harness)[0]
        for position in range(60, size, 45):
            harness.disk.rot(path, position)
        for damaged in find_damage(harness.log):
            harness.log.damage.add(damaged)
        harness.log.damage.keep_within(harness.log.log_start, harness.log.leo)
        while harness.log.damage:
            repair_one(harness.log, intact.log, harness.log.damage.ranges[0])
        assert content(harness.log) == content(intact.log), start


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_any_byte_that_changed_is_found_and_repaired_from_an_intact_copy(mask: int) -> None:
    """D6: in the records and in the header, whose first fields no CRC protects."""
    intact = make_log().log
    expected, headers = content(intact), shape(intact)
    for index, (_, size) in enumerate(files(make_log())):
        for position in range(index, size, 10):  # batches differ in size, so all header fields are hit
            harness = make_log()
            harness.disk.rot(files(harness)[index][0], position, mask)
            assert find_damage(harness.log), (index, position)
            repair(harness.log, intact)
            assert (content(harness.log), shape(harness.log)) == (expected, headers), (index, position)
            assert find_damage(harness.log) == []
            assert shape(harness.reopen_clean()) == headers


def test_damage_in_many_places_of_one_segment_is_repaired_range_by_range() -> None:
    """D6: a range moves when one before it in the file changes its size."""
    intact = make_log().log
    rng = Random(3)
    for _ in range(150):
        harness = make_log()
        for path, size in files(harness):
            for _ in range(rng.randint(0, 4)):
                harness.disk.rot(path, rng.randrange(size), rng.randint(1, 255))
        repair(harness.log, intact)
        assert content(harness.log) == content(intact)


def test_damage_to_records_affects_only_their_batch() -> None:
    """D6: and the range says where it is."""
    harness = make_log()
    headers = list(harness.log.iter_headers(0, harness.log.leo))
    path = files(harness)[0][0]
    harness.disk.rot(path, headers[0].length + 70)
    (damaged,) = find_damage(harness.log)
    assert (damaged.start_offset, damaged.end_offset) == (headers[1].base_offset, headers[1].next_offset)
    assert (damaged.file, damaged.start, damaged.end) == (path, headers[0].length, sum(h.length for h in headers[:2]))
    assert "CRC" in str(damaged)


def test_after_a_damaged_length_verification_continues_at_the_next_index_entry() -> None:
    """D6: otherwise everything after it would count as damaged."""
    harness = make_log(interval=1)
    headers = list(harness.log.iter_headers(0, harness.log.leo))
    harness.disk.rot(files(harness)[0][0], headers[0].length + 9)
    (damaged,) = find_damage(harness.log)
    assert (damaged.start_offset, damaged.end_offset) == (headers[1].base_offset, headers[1].next_offset)


def test_a_repair_that_dies_anywhere_leaves_the_damaged_segment_or_the_repaired_one() -> None:
    """D6: at each change of the disk, by a process crash or a power loss."""
    intact = make_log().log
    for power_loss in (False, True):
        left = 0
        while True:
            disk = MortalDisk()
            harness = make_log(disk)
            path, size = files(harness)[1]
            disk.rot(path, size // 2)
            (damaged,) = find_damage(harness.log)
            damaged_bytes = content(harness.log)
            harness.log.damage.add(damaged)
            disk.left = left
            with suppress(ProcessDiedError):
                repair_one(harness.log, intact, damaged)
                break
            disk.left = -1
            disk.lossy_crash(Random(left)) if power_loss else disk.crash()
            log = harness.open(recovery_point=harness.log.leo)
            log.set_hwm(log.leo)
            assert content(log) in (damaged_bytes, content(intact)), left
            repair(log, intact)
            assert content(log) == content(intact)
            left += 1
        assert left >= 8


def test_a_range_in_the_active_segment_is_repaired_once_it_is_closed() -> None:
    """D6: and the log can be appended to."""
    harness, intact = make_log(), make_log()
    harness.disk.rot(files(harness)[-1][0], 80)
    segments = len(harness.log.segments)
    repair(harness.log, intact.log)
    assert len(harness.log.segments) == segments + 1
    harness.append(2, epoch=3)
    intact.append(2, epoch=3)
    assert content(harness.log) == content(intact.log)


def test_unreadable_sectors_are_repaired_too() -> None:
    """D6: they end neither the verification nor the node."""
    harness, intact = (LogHarness(segment_bytes=60_000, index_interval_bytes=4_096) for _ in range(2))
    for side in (harness, intact):
        for number in range(80):
            side.append(value=b"%03d" % number * 300)
        side.log.set_hwm(side.log.leo)
        side.log.flush()
    path = files(harness)[0][0]
    harness.disk.bad_sectors[path] = (20_480, 24_576)
    (damaged,) = find_damage(harness.log)
    assert damaged.start <= 20_480 < 24_576 <= damaged.end < 30_000
    repair_one_from(harness, intact, damaged)
    assert content(harness.log) == content(intact.log)


def repair_one_from(harness: LogHarness, intact: LogHarness, damaged: DamagedRange) -> None:
    harness.log.damage.add(damaged)
    replacement = Replacement(harness.log, damaged)
    while not replacement.is_complete:
        assert replacement.add(intact.log.read(replacement.next_offset, 5_000, limit_offset=intact.log.hwm)) is None
    work = SegmentRepair(harness.log, replacement)
    work.run()
    harness.disk.bad_sectors.clear()  # the new file is elsewhere on the disk
    assert work.finish()


def test_only_batches_that_fit_replace_damaged_ones() -> None:
    """D6: sound, of the same offsets, and of the leader epoch that the log has for them."""
    harness, intact = make_log(), make_log().log
    harness.disk.rot(files(harness)[0][0], 70)
    (damaged,) = find_damage(harness.log)
    good = bytearray(intact.read(0, 1, limit_offset=intact.hwm))
    for at, change in ((12, b"\0\0\0\x09"), (0, b"\0\0\0\0\0\0\0\x01"), (70, b"\xff")):
        wrong = bytearray(good)
        wrong[at : at + len(change)] = change
        assert Replacement(harness.log, damaged).add(wrong) is not None
    assert Replacement(harness.log, damaged).add(good) is None


def test_a_repair_replaces_nothing_if_the_log_was_truncated_meanwhile() -> None:
    """D6"""
    harness, intact = make_log(), make_log().log
    harness.disk.rot(files(harness)[1][0], 100)
    (damaged,) = find_damage(harness.log)
    replacement = Replacement(harness.log, damaged)
    while not replacement.is_complete:
        replacement.add(intact.read(replacement.next_offset, 200, limit_offset=intact.hwm))
    work = SegmentRepair(harness.log, replacement)
    harness.log.truncate_to(damaged.start_offset)
    work.run()
    assert not work.finish()
    assert content(harness.log) == content(intact)[: len(content(harness.log))]
    assert not [name for name in harness.disk.listdir("data/t-0") if name.endswith(".cleaned")]


def test_a_segment_repaired_from_a_compacted_replica_ends_where_the_next_starts() -> None:
    """D6: recovery takes a gap between two segments for lost records."""
    harness = LogHarness(segment_bytes=150, compacts=True, deletes=False)
    other = LogHarness(segment_bytes=150, compacts=True, deletes=False)
    for number in range(6):
        for side in (harness, other):
            put(side, (b"k", b"v%d" % number))
            side.log.roll()
    compact(other.log)
    log = harness.log
    log.flush()
    harness.disk.rot(files(harness)[1][0], 70)
    repair(log, other.log)
    assert find_damage(log) == []
    assert [record.value for record in records(log)][-1] == b"v5"
    expected = shape(log)
    assert shape(harness.open(recovery_point=log.leo)) == expected


def test_a_header_that_cannot_follow_the_previous_one_is_reported_and_not_skipped() -> None:
    """D6: a scan of garbage could end anywhere."""
    harness = make_log(interval=1 << 20)
    headers = list(harness.log.iter_headers(0, harness.log.leo))
    harness.reopen_clean()
    harness.disk.rot(files(harness)[0][0], headers[0].length + 10, 0x01)
    with pytest.raises(CorruptSegmentError):
        harness.log.read(headers[3].base_offset, 100, limit_offset=harness.log.leo)


def test_a_changed_index_entry_causes_no_wrong_read() -> None:
    """D6: a read starts with the batch that holds the offset, whatever is in the index."""
    intact = make_log(interval=1).log
    for position in range(8 * 3):
        for mask in (0x01, 0x40, 0xFF):
            harness = make_log(interval=1)
            harness.log.close()
            harness.disk.rot(harness.path("00000000000000000000.index"), position, mask)
            log = harness.open(recovery_point=harness.log.leo, clean=True)
            log.set_hwm(log.leo)
            work = Verification(log, log.segments[0], limit_offset=log.hwm)
            work.run()
            assert not work.damaged
            for offset in range(log.leo):
                assert log.read(offset, 1, limit_offset=log.leo) == intact.read(offset, 1, limit_offset=log.leo)


def test_verification_notices_a_wrong_index() -> None:
    """D6"""
    harness = make_log(interval=1)
    segment = harness.log.segments[0]
    segment.index.values[1] += 3
    work = Verification(harness.log, segment, limit_offset=harness.log.hwm)
    work.run()
    assert work.index_is_wrong
    segment.rebuild_index()
    work = Verification(harness.log, segment, limit_offset=harness.log.hwm)
    work.run()
    assert not work.index_is_wrong


def test_compaction_aborts_at_a_damaged_batch() -> None:
    """D6: rewriting it would give it a right CRC; to stop reading there would lose everything after it."""
    for at in (8, 70):  # a length, a value
        harness = LogHarness(compacts=True, deletes=False)
        for number in range(6):
            put(harness, (b"k%d" % (number % 2), b"v%d" % number))
        harness.log.roll()
        path = files(harness)[0][0]
        before = bytearray(disks.read_all(harness.disk, path))
        position = len(before) // 6 * 2 + at
        harness.disk.rot(path, position)
        before[position] ^= 0xFF
        work = compact(harness.log)
        assert (work.aborted, work.damaged_at) == (True, 2)
        assert disks.read_all(harness.disk, path) == before


def test_the_sound_part_of_a_read_ends_before_the_first_damaged_batch() -> None:
    """D6"""
    harness = make_log()
    data = bytearray(content(harness.log))
    first = batches.read_header(data).length
    assert check_batches(harness.log, bytes(data)).size == len(data)
    data[first + 65] ^= 1
    assert check_batches(harness.log, bytes(data)).size == first
    assert check_batches(harness.log, bytes(batch(1)[0])).size == 0  # of leader epoch -1


@pytest.mark.parametrize("interval", [150, 10_000])
def test_a_truncation_that_meets_damage_keeps_every_offset_below_it(interval: int) -> None:
    """D3, D6: the log ends at the requested offset. Damage below that is repaired and not truncated, since this replica
    may have acknowledged these records."""
    intact = make_log().log
    whole = content(intact)
    headers = list(intact.iter_headers(0, intact.leo))
    sizes = [size for _, size in files(make_log())]
    rng = Random(7)
    for _ in range(120):
        index = rng.randrange(len(sizes))
        harness = make_log(interval=interval)
        path = files(harness)[index][0]
        start = rng.randrange(sizes[index])
        for position in range(start, min(start + rng.choice((1, 1, 80, 400)), sizes[index])):
            harness.disk.rot(path, position, 0xFF)
        for segment in harness.log.segments:
            segment.hints.clear()
        header = rng.choice(headers)
        harness.log.truncate_to(header.base_offset)
        assert harness.log.leo == header.base_offset
        harness.append(1, epoch=9, value=b"new")
        assert harness.log.leo == header.base_offset + 1
        harness.log.set_hwm(header.base_offset)
        repair(harness.log, intact)
        below = harness.log.read(0, 1 << 20, limit_offset=header.base_offset) if header.base_offset else b""
        kept = sum(h.length for h in headers if h.next_offset <= header.base_offset)
        assert content(harness.log).startswith(whole[:kept]), (index, start, header.base_offset)
        assert whole.startswith(below)


def test_a_truncation_returns_the_damaged_batch_that_stays_in_the_log() -> None:
    """D6: so that it is repaired at once, and not by the next scrub."""
    harness = make_log()
    headers = list(harness.log.iter_headers(0, harness.log.leo))
    harness.disk.rot(files(harness)[0][0], 8)  # the length of the first batch
    for segment in harness.log.segments:
        segment.hints.clear()
    assert harness.log.truncate_to(headers[2].base_offset) == 0
    assert harness.log.truncate_to(headers[1].base_offset) == 0
    (damaged,) = find_damage(harness.log)
    assert (damaged.start_offset, damaged.end_offset) == (0, headers[1].base_offset)
