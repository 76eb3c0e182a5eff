"""Any keyed log, compacted any number of times and killed at any point, compared with a table of its keys."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from insync.storage import compaction
from insync.storage.log import Log
from insync.wire.batch import Record
from tests.storage.compaction_harness import (
    MortalDisk,
    Pair,
    ProcessDiedError,
    compact,
    drop_snapshots,
    put,
    records,
    table,
)
from tests.storage.storage_harness import LogHarness, content, shape

KEYS = [b"a", b"b", b"c", b"a key of more than sixteen bytes"]
RETENTION = 50

pairs = st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=40))
writes = st.lists(st.lists(pairs, min_size=1, max_size=4), min_size=1, max_size=25)
History = list[list[Pair]]
relaxed = settings(max_examples=150, suppress_health_check=list(HealthCheck))


def make_log(history: History, disk: MortalDisk | None = None, segment_bytes: int = 200) -> LogHarness:
    harness = LogHarness(
        disk,
        segment_bytes=segment_bytes,
        index_interval_bytes=60,
        compacts=True,
        deletes=False,
        delete_retention_ms=RETENTION,
    )
    for number, batch in enumerate(history):
        codec = ("none", "zstd")[number % 2]
        idempotent = {"producer_id": 5, "producer_epoch": 0, "base_sequence": harness.log.leo} if number % 3 else {}
        put(harness, *batch, epoch=1 + number // 4, timestamp=1_000 + number, compression=codec, **idempotent)
    harness.log.flush()
    return harness


def check_reads(log: Log, before: list[Record]) -> None:
    """A read at any offset continues with the next record that is left, unchanged."""
    known = {record.offset: record for record in before}
    held = records(log)
    assert [record for record in held if known[record.offset] != record] == []
    for offset in range(log.log_start, log.leo):
        assert records(log, offset) == [record for record in held if record.offset >= offset]


@relaxed
@given(writes, st.integers(0, 100), st.integers(1, 5), st.integers(1, 400), st.data())
def test_the_last_value_of_each_key_survives_at_its_offset(
    history: History, hwm_back: int, max_keys: int, budget: int, data: st.DataObject
) -> None:
    """H1: below the high watermark; P4, D1: producers and epochs stay the same."""
    harness = make_log(history, segment_bytes=data.draw(st.sampled_from([1, 200, 500])))
    log = harness.log
    log.hwm = max(0, log.leo - hwm_back)
    before, last, hwm = records(log), table(log, log.hwm), log.hwm
    epochs, tail = log.epochs.entries, [record for record in before if record.offset >= log.active.base]
    clean_to = compact(log, budget=budget, max_keys=max_keys).clean_to
    while (further := compact(log, first_dirty=clean_to, max_keys=max_keys).clean_to) > clean_to:
        clean_to = further
    check_reads(log, before)
    assert table(log, hwm) == last
    assert [record for record in records(log) if record.offset >= log.active.base] == tail
    assert log.epochs.entries == epochs
    below = [record.key for record in records(log) if record.offset < clean_to]
    assert len(below) == len(dict.fromkeys(below)), "no key occurs twice in the clean part"
    assert clean_to == compaction.cleanable_end(log, 0)


@relaxed
@given(writes)
def test_tombstones_expire_and_nothing_they_deleted_comes_back(history: History) -> None:
    log = make_log(history).log
    last, end = table(log), compaction.cleanable_end(log, 0)
    compact(log, now=1_000)
    compact(log, now=1_000 + RETENTION - 1)
    assert table(log) == last
    compact(log, now=1_000 + RETENTION)
    held = table(log)
    assert held == {key: row for key, row in last.items() if row[1] is not None or row[0] >= end}


@pytest.mark.slow
@relaxed
@given(writes, st.integers(0, 60), st.integers(0, 1 << 30), st.booleans())
def test_a_crash_anywhere_leaves_each_segment_as_it_was_or_compact(
    history: History, dies_after: int, seed: int, lossy: bool
) -> None:
    """D1, P4: the log can be opened and read, holds the last value of each key, and can be compacted again."""
    disk = MortalDisk()
    harness = make_log(history, disk)
    log = harness.log
    before, last, leo = records(log), table(log), log.leo
    epochs, producers = log.epochs.entries, log.producers.encode()
    disk.left = dies_after
    with suppress(ProcessDiedError):
        compact(log)
    disk.left = -1
    if lossy:
        disk.lossy_crash(Random(seed))
    else:
        disk.crash()
    if seed % 3 == 0:
        drop_snapshots(harness)
    log = harness.open(recovery_point=leo if seed % 2 else 0)
    assert (log.leo, log.epochs.entries[-1][0]) == (leo, epochs[-1][0])
    assert log.producers.encode() == producers
    log.set_hwm(leo)
    check_reads(log, before)
    assert table(log) == last
    assert not [name for name in disk.listdir("data/t-0") if name.endswith((".cleaned", ".swap"))]
    compact(log)
    check_reads(log, before)
    assert table(log) == last


@relaxed
@given(writes)
def test_a_compacted_log_is_the_same_after_a_clean_stop(history: History) -> None:
    harness = make_log(history)
    compact(harness.log)
    was, rows, epochs = content(harness.log), shape(harness.log), harness.log.epochs.entries
    harness.reopen_clean()
    assert content(harness.log) == was
    assert shape(harness.log) == rows
    assert harness.log.epochs.entries == epochs
