"""From fetched bytes to Arrow batches, without brokers or Spark."""

from __future__ import annotations

import pytest

from insync.columnar.decode import DecodeOptions, decode
from insync.spark import task_reader
from insync.wire import batch


def batches(count: int, *, codec: str, size: int) -> bytes:
    """Batches of one record each."""
    data = bytearray()
    for offset in range(count):
        record = batch.NewRecord(None, offset.to_bytes(4, "big") * (size // 4))
        data += batch.build([record], base_offset=offset, leader_epoch=3, timestamp_ms=0, compression=codec)
    return bytes(data)


@pytest.mark.parametrize("size", [100, 4_000])
def test_compressed_responses_are_decoded_in_pieces_of_whole_batches(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_reader, "PIECE_BYTES", 1_000)
    data = batches(50, codec="lz4", size=size)
    response = data + data[:70]  # a response may end within a batch
    parts = list(task_reader.pieces(response))
    assert len(parts) > 2
    assert b"".join(parts) == data
    offsets = [
        offset for part in parts for offset in decode(part, DecodeOptions(("offset",))).batch.column(0).to_pylist()
    ]
    assert offsets == list(range(50))


def test_uncompressed_responses_stay_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reader, "PIECE_BYTES", 1_000)
    data = batches(50, codec="none", size=100)
    assert [bytes(part) for part in task_reader.pieces(data)] == [data]


def test_newest_epoch_ignores_batches_after_the_range() -> None:
    data = batches(2, codec="none", size=100) + bytes(
        batch.build([batch.NewRecord(None, b"new")], base_offset=2, leader_epoch=7, timestamp_ms=0)
    )
    assert task_reader.newest_epoch(data, 3) == 7
    assert task_reader.newest_epoch(data, 2) == 3
    assert task_reader.newest_epoch(b"", 2) == -1
