"""Helpers for tests of one log: batches of a given size, a log on a simulated disk, and its content."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from insync.sim.engine.disk import SimDisk
from insync.storage.config import LogConfig
from insync.storage.disk import Disk
from insync.storage.log import Log
from insync.storage.log_loader import open_log
from insync.wire import batch as batches

TOPIC_ID = UUID(int=7)
DIRECTORY = "data/t-0"


class LogHarness:
    """A log and the disk under it."""

    def __init__(self, disk: Disk | None = None, **config: Any) -> None:
        self.disk: Any = disk or SimDisk()
        self.config = LogConfig(**config)
        self.log = self.open()

    def open(self, **options: Any) -> Log:
        self.log = open_log(self.disk, DIRECTORY, topic_id=TOPIC_ID, config=self.config, **options)
        return self.log

    def reopen_clean(self) -> Log:
        self.log.close()
        return self.open(recovery_point=self.log.leo, clean=True, log_start=self.log.log_start)

    def append(
        self,
        count: int = 1,
        *,
        epoch: int = 1,
        timestamp: int = 1_000,
        value: bytes = b"v",
        now: int = 0,
        **fields: Any,
    ) -> int:
        data, header = batch(count, timestamp=timestamp, value=value, **fields)
        return self.log.append_as_leader(data, header, epoch, now)

    def bytes_read(self, suffix: str = ".log") -> int:
        reads: dict[str, int] = self.disk.bytes_read
        return sum(n for path, n in reads.items() if path.endswith(suffix))

    def path(self, name: str) -> str:
        return f"{DIRECTORY}/{name}"


def batch(count: int = 1, *, timestamp: int = 1_000, value: bytes = b"v", **fields: Any) -> Any:
    data = batches.build([batches.NewRecord(None, value)] * count, timestamp_ms=timestamp, **fields)
    return data, batches.read_header(data)


def shape(log: Log) -> list[tuple[int, int, int]]:
    """(first offset, last offset, epoch) of every batch."""
    return [(h.base_offset, h.last_offset, h.leader_epoch) for h in log.iter_headers(0, log.leo)]


def content(log: Log) -> bytes:
    """Every byte of the log, read as a follower reads it."""
    data, offset = b"", log.log_start
    while offset < log.leo:
        part = log.read(offset, 1 << 20, limit_offset=log.leo)
        data += part
        offset = [header for _, header in batches.iter_headers(part)][-1].next_offset
    return data
