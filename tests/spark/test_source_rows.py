"""From fetched bytes to Arrow batches, without brokers and without Spark."""

from __future__ import annotations

import pytest

from insync.columnar.decode import Wanted, decode
from insync.spark import rows
from insync.wire import batch


def batches(count: int, *, codec: str, size: int) -> bytes:
    """Of one record each."""
    made = bytearray()
    for offset in range(count):
        record = batch.NewRecord(None, offset.to_bytes(4, "big") * (size // 4))
        made += batch.build([record], base_offset=offset, leader_epoch=3, timestamp_ms=0, compression=codec)
    return bytes(made)


@pytest.mark.parametrize("size", [100, 4_000])
def test_compressed_answers_are_unpacked_in_pieces_of_whole_batches(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PIECE_BYTES", 1_000)
    data = batches(50, codec="lz4", size=size)
    cut = data + data[:70]  # answers end where they end
    parts = list(rows.pieces(cut))
    assert len(parts) > 2
    assert b"".join(parts) == data
    found = [offset for part in parts for offset in decode(part, Wanted(("offset",))).batch.column(0).to_pylist()]
    assert found == list(range(50))


def test_plain_answers_stay_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PIECE_BYTES", 1_000)
    data = batches(50, codec="none", size=100)
    assert [bytes(part) for part in rows.pieces(data)] == [data]


def test_the_newest_epoch_counts_only_what_is_wanted() -> None:
    data = batches(2, codec="none", size=100) + bytes(
        batch.build([batch.NewRecord(None, b"new")], base_offset=2, leader_epoch=7, timestamp_ms=0)
    )
    assert rows.newest_epoch(data, 3) == 7
    assert rows.newest_epoch(data, 2) == 3
    assert rows.newest_epoch(b"", 2) == -1
