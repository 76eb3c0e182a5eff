"""Record batches, as producers, followers, compaction and consumers read them: MalformedBatchError, or an error code.

Most inputs get a valid CRC after the damage, so that the records are read too. A batch that a broker would accept from
a producer can be read by our decoder, by compaction, and by kafka-python.
"""

from __future__ import annotations

from random import Random

from kafka.record.default_records import DefaultRecordBatch

from fuzz import generate
from fuzz.mutate import mutate_bytes
from fuzz.target import Target
from fuzz.targets import common
from insync.wire import batch, batch_filter, control
from insync.wire.errors import MalformedBatchError, MalformedFrameError, Refusal
from insync.wire.record_check import DecompressionBudget, RecordRules, check_records


def run(data: bytes) -> None:
    header = batch.validate_produce(data, 1 << 20)
    for pos, stored in batch.iter_headers(data):
        batch.crc_ok(data, pos, stored)
        _read_records(data, pos)
        _compact(data, pos, stored)
    if isinstance(header, batch.BatchHeader):
        stamped = bytearray(data)
        batch.stamp(stamped, 7, 3)
        batch.set_log_append_time(stamped, 1_000)
        batch_filter.all_have_keys(data, 0, header)
        if not batch.crc_ok(stamped, 0, batch.read_header(stamped)):
            raise AssertionError("a stamped batch has a wrong CRC")
        _check_accepted(data, header)


def _check_accepted(data: bytes, header: batch.BatchHeader) -> None:
    """P5: no consumer gets stuck at a batch that was accepted."""
    if isinstance(check_records(data, header, RecordRules(), DecompressionBudget(len(data))), Refusal):
        return
    ours = [(r.offset, r.key, r.value, list(r.headers)) for r in batch.records(data)]
    theirs = [(r.offset, r.key, r.value, r.headers) for r in DefaultRecordBatch(data)]
    walked = [record.offset for record in batch_filter.raw_records(data, 0, header)]
    if ours != theirs or walked != list(range(header.count)):
        raise AssertionError("the readers of an accepted batch disagree")


def _read_records(data: bytes, pos: int) -> None:
    try:
        for record in batch.records(data, pos):
            control.control_message(record)
    except (MalformedBatchError, MalformedFrameError):
        return


def _compact(data: bytes, pos: int, header: batch.BatchHeader) -> None:
    try:
        kept = batch_filter.filter_batch(data, pos, header, lambda record: record.offset % 2 == 0, 1_000)
    except MalformedBatchError:
        return
    if kept is not None:
        list(batch_filter.raw_records(kept, 0, batch.read_header(kept)))
    batch.read_header(batch_filter.make_empty_batch(header))


def seeds() -> list[bytes]:
    made = [bytes(generate.random_batch(Random(at))) for at in range(40)]
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
        data = bytes(generate.random_batch(rng))
    out = bytearray(mutate_bytes(data, rng))
    if rng.random() < 0.8:
        common.write_crcs(out)
    return bytes(out)


TARGET = Target(name="batches", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=1_500)
