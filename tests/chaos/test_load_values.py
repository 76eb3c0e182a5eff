"""Values of a workload are distinguishable from all others, and its progress can be waited for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from insync.chaos.workload.load import Tally, make_value, parse_value
from insync.history.history_file import Event, HistoryWriter


@pytest.mark.parametrize("size", [0, 1, 8, 100, 4_000])
def test_a_value_of_any_size_names_its_producer_and_sequence(size: int) -> None:
    value = make_value(12, 34_567, size)
    assert parse_value(value) == (12, 34_567)
    assert len(value) == max(size, len(b"12:34567:"))


@pytest.mark.parametrize("value", [b"", b"hello", b"1:2", b"a:1:", b"1:b:...", b":1:", b"-1:2:"])
def test_other_values_have_no_producer(value: bytes) -> None:
    assert parse_value(value) == (-1, -1)


def test_only_later_events_on_every_partition_count_as_progress(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.jsonl") as writer:
        tally = Tally(writer)

        def ack(partition: int) -> None:
            tally.record(Event("ack", 1, "producer-0", "orders", partition, offset=1))

        ack(0)
        ack(1)
        assert not tally.wait_for_more("ack", range(2), 1, timeout_s=0.0)
        enough = threading.Event()

        def keep_acking() -> None:
            while not enough.is_set():
                ack(0)
                ack(1)

        others = threading.Thread(target=keep_acking)
        others.start()
        assert tally.wait_for_more("ack", range(2), 5, timeout_s=30.0)
        enough.set()
        others.join()
        assert tally.count("ack") >= 12
