"""How far a replay is, according to the log itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from insync.client.errors import ErrorCode
from insync.pipeline.fenced_sender import SEQUENCES, Producer, Sender, Written, advance
from insync.wire import batch

OURS = Producer(7, 0)


def batches(*made: tuple[int, int, int, int]) -> bytes:
    """(offset, producer id, first sequence, records)"""
    records = [batch.NewRecord(None, b"x")] * 99
    return b"".join(
        bytes(
            batch.build(
                records[:count],
                base_offset=offset,
                timestamp_ms=0,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
            )
        )
        for offset, producer, sequence, count in made
    )


def test_the_replays_last_batch_tells_how_many_rows_are_written() -> None:
    data = batches((10, 7, 0, 5), (15, 3, 40, 9), (24, 7, 5, 2), (26, 3, 49, 1))
    assert advance(Written(0, 10), data, OURS) == (Written(7, 26), 27)


def test_batches_of_other_producers_are_ignored() -> None:
    assert advance(Written(4, 10), batches((10, 3, 0, 5)), OURS) == (Written(4, 10), 15)


def test_batches_before_the_known_offset_are_ignored() -> None:
    """A response begins with the whole batch that contains the requested offset."""
    assert advance(Written(5, 15), batches((10, 7, 0, 5), (15, 3, 0, 5)), OURS) == (Written(5, 15), 20)


def test_sequences_wrap_around() -> None:
    rows = SEQUENCES - 3
    assert advance(Written(rows, 10), batches((10, 7, rows, 5)), OURS) == (Written(SEQUENCES + 2, 15), 15)
    assert advance(Written(3 * SEQUENCES + 1, 10), batches((10, 7, 1, 5)), OURS) == (Written(3 * SEQUENCES + 6, 15), 15)


def test_a_batch_counted_before_its_offset_was_known_counts_once() -> None:
    assert advance(Written(9, 10), batches((10, 7, 0, 5)), OURS) == (Written(9, 15), 15)


class ForgetfulBroker:
    """A leader that does not know the producer: it accepts any first sequence. It refuses its first request."""

    timeout_s = 5.0

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self._requests = 0

    async def retry(self, attempt: Any) -> Any:
        return await attempt()

    async def call(self, api: object, values: Any) -> Any:
        self._requests += 1
        number = self._requests
        await asyncio.sleep(0)
        data = values["topic_data"][0]["partition_data"][0]["records"]
        sequence = batch.read_header(data).base_sequence
        last = batch.read_header(self.log[-1]).last_sequence if self.log else None
        error = ErrorCode.none
        if number == 1:
            error = ErrorCode.not_enough_replicas
        elif last is not None and sequence != last + 1:
            error = ErrorCode.out_of_order_sequence_number
        else:
            self.log.append(data)
        stored = SimpleNamespace(error_code=error, base_offset=sequence, error_message=None)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[stored])])


class SenderToBroker(Sender):
    """Finds the leader and what it has without a cluster."""

    async def _connect(self) -> Any:
        return self._client

    async def _find_written(self) -> Written:
        written = Written(0, 0)
        for data in self._client.log:  # type: ignore[attr-defined]
            written, _ = advance(written, data, OURS)
        return written


def test_no_batch_is_stored_where_the_first_was_refused() -> None:
    """P4: a broker without the producer's state cannot tell that a batch is missing before the one it gets."""
    broker = ForgetfulBroker()

    async def send() -> Written:
        sender = SenderToBroker(broker, ("t", 0), "", OURS, Written(0, 0))  # type: ignore[arg-type]
        for position in range(0, 50, 5):
            await sender.put(batches((position, 7, position, 5)), position, 5)
        await sender.drain()
        return sender.written

    assert asyncio.run(send()) == Written(50, 50)
    assert [batch.read_header(data).base_sequence for data in broker.log] == list(range(0, 50, 5))
