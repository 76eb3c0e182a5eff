"""Record batches, as producers, followers, compaction and consumers read them: MalformedBatchError, or an error code.

Half of the inputs get a right CRC after the damage, so that what is behind it is seen too. Whatever a broker would
accept from a producer can be read: by our decoder, by compaction, and by kafka-python.
"""

from __future__ import annotations

from random import Random

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch

from fuzz import generate
from fuzz.mutate import mutated
from fuzz.target import Target
from insync.wire import batch, batch_filter, control
from insync.wire.errors import MalformedBatchError, MalformedFrameError, Refusal
from insync.wire.record_check import DecompressionBudget, RecordRules, check_records

_CRC_AT, _CRC_FROM = 17, 21


def run(data: bytes) -> None:
    header = batch.validate_produce(data, 1 << 20)
    for pos, found in batch.iter_headers(data):
        batch.crc_ok(data, pos, found)
        _records(data, pos)
        _compaction(data, pos, found)
    if isinstance(header, batch.BatchHeader):
        stamped = bytearray(data)
        batch.stamp(stamped, 7, 3)
        batch.set_log_append_time(stamped, 1_000)
        batch_filter.all_have_keys(data, 0, header)
        if not batch.crc_ok(stamped, 0, batch.read_header(stamped)):
            raise AssertionError("a stamped batch has a wrong CRC")
        _accepted(data, header)


def _accepted(data: bytes, header: batch.BatchHeader) -> None:
    """P5: no consumer gets stuck at a batch that was accepted."""
    if isinstance(check_records(data, header, RecordRules(), DecompressionBudget(len(data))), Refusal):
        return
    ours = [(r.offset, r.key, r.value, list(r.headers)) for r in batch.records(data)]
    theirs = [(r.offset, r.key, r.value, r.headers) for r in DefaultRecordBatch(data)]
    walked = [record.offset for record in batch_filter.raw_records(data, 0, header)]
    if ours != theirs or walked != list(range(header.count)):
        raise AssertionError("an accepted batch is not read alike by all")


def _records(data: bytes, pos: int) -> None:
    try:
        for record in batch.records(data, pos):
            control.control_message(record)
    except (MalformedBatchError, MalformedFrameError):
        return


def _compaction(data: bytes, pos: int, header: batch.BatchHeader) -> None:
    try:
        kept = batch_filter.filter_batch(data, pos, header, lambda record: record.offset % 2 == 0, 1_000)
    except MalformedBatchError:
        return
    if kept is not None:
        list(batch_filter.raw_records(kept, 0, batch.read_header(kept)))
    batch.read_header(batch_filter.make_empty_batch(header))


def seeds() -> list[bytes]:
    made = [bytes(generate.batches(Random(at))) for at in range(40)]
    made += [
        bytes(control.snapshot_footer_batch(base_offset=0, leader_epoch=1, timestamp_ms=1)),
        bytes(
            control.leader_change_batch(
                leader_id=1, voters=(1, 2), granting_voters=(1,), base_offset=0, leader_epoch=1, timestamp_ms=1
            )
        ),
    ]
    return [*made, b"".join(made[:3])]


def mutate(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.2:
        data = bytes(generate.batches(rng))
    out = bytearray(mutated(data, rng))
    if rng.random() < 0.8:
        for pos, header in batch.iter_headers(out):
            crc = crc32c(memoryview(out)[pos + _CRC_FROM : pos + header.length])
            out[pos + _CRC_AT : pos + _CRC_FROM] = crc.to_bytes(4, "big")
    return bytes(out)


TARGET = Target(name="batches", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=1_500)
