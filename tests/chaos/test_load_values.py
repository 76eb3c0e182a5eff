"""What a workload writes can be told from what others write, and its progress can be waited for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from insync.chaos.workload.load import Tally, origin_of, value_of
from insync.history.history_file import Event, HistoryWriter


@pytest.mark.parametrize("size", [0, 1, 8, 100, 4_000])
def test_a_value_tells_who_sent_it_whatever_its_size(size: int) -> None:
    value = value_of(12, 34_567, size)
    assert origin_of(value) == (12, 34_567)
    assert len(value) == max(size, len(b"12:34567:"))


@pytest.mark.parametrize("value", [b"", b"hello", b"1:2", b"a:1:", b"1:b:...", b":1:", b"-1:2:"])
def test_what_others_wrote_has_no_origin(value: bytes) -> None:
    assert origin_of(value) == (-1, -1)


def test_progress_is_what_comes_after_the_question_on_every_partition(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.jsonl") as writer:
        tally = Tally(writer)

        def ack(partition: int) -> None:
            tally.record(Event("ack", 1, "producer-0", "orders", partition, offset=1))

        ack(0)
        ack(1)
        assert not tally.wait_for_more("ack", range(2), 1, timeout_s=0.0)
        enough = threading.Event()

        def go_on() -> None:
            while not enough.is_set():
                ack(0)
                ack(1)

        others = threading.Thread(target=go_on)
        others.start()
        assert tally.wait_for_more("ack", range(2), 5, timeout_s=30.0)
        enough.set()
        others.join()
        assert tally.count("ack") >= 12
