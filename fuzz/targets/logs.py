"""The damaged directory of a log: opening it recovers what is sound, and then it can be used like any other.

Bytes below the recovery point were synced and are not checked, so a damaged log may turn out to be unreadable there
(CorruptSegmentError). With recovery point 0 this must not happen.
"""

from __future__ import annotations

import struct
from random import Random
from struct import pack, unpack
from uuid import UUID

from fuzz.archive import Files, disk_of, mutate_files, pack_files, read_tree, unpack_files
from fuzz.mutate import number
from fuzz.target import Target
from insync.sim.engine.disk import SimDisk
from insync.storage.checkpoints import MAX_OFFSET
from insync.storage.config import LogConfig
from insync.storage.damage import CorruptSegmentError
from insync.storage.log import Log
from insync.storage.log_loader import open_log
from insync.wire import batch
from insync.wire.batch import NewRecord, build, read_header

_ID = UUID(int=7)
_CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100, retention_ms=1_000_000, retention_bytes=1_200)
_OPTIONS = "options"
"""A pseudo file: whether the last stop was clean, the recovery point, and the log start."""
_FORMAT = ">?qq"


class UnreadableError(Exception):
    """A reader makes no progress."""


def run(data: bytes) -> None:
    files = unpack_files(data)
    clean, recovery_point, log_start = _read_options(files)
    disk = disk_of({f"data/t-0/{name}": content for name, content in files.items() if name != _OPTIONS})
    try:
        log = _open(disk, clean, recovery_point, log_start)
        _use(log)
        end = log.leo
        log.close()
        again = _open(disk, True, end, log.log_start)
        if again.leo != end:
            raise AssertionError(f"closed at {end}, opened at {again.leo}")
        _use(again)
    except (CorruptSegmentError, UnreadableError):
        if not clean and recovery_point <= 0:
            raise


def _open(disk: SimDisk, clean: bool, recovery_point: int, log_start: int) -> Log:
    return open_log(
        disk,
        "data/t-0",
        topic_id=_ID,
        config=_CONFIG,
        recovery_point=recovery_point,
        clean=clean,
        log_start=log_start,
    )


def _use(log: Log) -> None:
    """What a broker does with a log."""
    log.set_hwm(log.leo)
    _read_all(log)
    log.offset_for_timestamp(5, log.leo)
    log.offset_of_max_timestamp(log.leo)
    log.epochs.end_offset_for(3, log.leo)
    _append(log, log.epochs.last_epoch + 1)
    log.truncate_to(max(log.log_start, log.leo - 5))
    _append(log, log.epochs.last_epoch + 1)
    log.set_hwm(log.leo)
    log.apply_retention(2_000)
    log.flush()
    _read_all(log)


def _read_all(log: Log) -> None:
    offset = log.log_start
    while offset < log.leo:
        data = log.read(offset, 500, limit_offset=log.leo)
        headers = [header for _, header in batch.iter_headers(data)]
        if not headers:
            raise UnreadableError(f"nothing to read at {offset}, though the log ends at {log.leo}")
        if headers[-1].next_offset <= offset:
            raise UnreadableError(f"reading at {offset} goes back to {headers[-1].next_offset}")
        offset = headers[-1].next_offset
    for _ in log.iter_headers(log.log_start, log.leo):
        pass


def _append(log: Log, epoch: int) -> None:
    data = build([NewRecord(b"k", b"v" * 50)] * 2, timestamp_ms=2_000, producer_id=9, producer_epoch=1, base_sequence=0)
    log.append_as_leader(data, read_header(data), epoch, 1_500)


def _read_options(files: Files) -> tuple[bool, int, int]:
    try:
        clean, recovery_point, log_start = unpack(_FORMAT, files.get(_OPTIONS, b""))
    except struct.error:
        return False, 0, 0
    return clean, recovery_point % MAX_OFFSET, log_start % MAX_OFFSET


def seeds() -> list[bytes]:
    """A log of several segments, epochs and producers, closed and after a crash."""
    made = []
    for clean in (False, True):
        disk = SimDisk()
        disk.mkdir("data")
        log = _open(disk, False, 0, 0)
        for at in range(16):
            codec = ("none", "gzip", "lz4")[at % 3]
            data = build(
                [NewRecord(b"k%d" % at, b"v" * 30)] * (1 + at % 3),
                timestamp_ms=1_000 + at,
                producer_id=at % 4 - 1,
                producer_epoch=0,
                base_sequence=at if at % 4 else -1,
                compression=codec,
            )
            log.append_as_leader(data, read_header(data), 1 + at // 5, 1_000)
        if clean:
            log.close()
        for point, start in ((0, 0), (log.leo, 0), (log.leo, 5), (10, 3)):
            files = {_OPTIONS: pack(_FORMAT, clean, point, start), **read_tree(disk, "data/t-0")}
            made.append(pack_files(files))
    return made


def mutate(data: bytes, rng: Random) -> bytes:
    files = unpack_files(mutate_files(data, rng))
    if rng.random() < 0.2:
        point = rng.choice((0, 0, 10, 30, number(rng, 64)))
        files[_OPTIONS] = pack(_FORMAT, rng.random() < 0.3, point, rng.choice((0, 0, 3, 40, number(rng, 64))))
    return pack_files(files)


TARGET = Target(name="logs", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=250)
