"""Microseconds of CPU time per operation of one log: append as leader and follower, sequential and random reads.

python bench/storage.py [batch bytes] [batches]
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from uuid import UUID

from insync.sim.engine.disk import SimDisk
from insync.storage.config import LogConfig
from insync.storage.disk import Disk
from insync.storage.log import Log
from insync.storage.log_loader import open_log
from insync.storage.log_store import LogStore
from insync.storage.posix import PosixDisk
from insync.wire import batch as batches

TOPIC_ID = UUID(int=7)


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 16_384
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 4_000
    root = tempfile.mkdtemp(prefix="insync-bench-")
    try:
        for disk in (SimDisk(), PosixDisk(root)):
            bench(disk, size, count)
    finally:
        shutil.rmtree(root)


def bench(disk: Disk, size: int, count: int) -> None:
    label = type(disk).__name__
    template = batches.build([batches.NewRecord(None, b"v" * size)], timestamp_ms=1_000)
    header = batches.read_header(template)
    leader, follower = create_log(disk, "leader-0"), create_log(disk, "follower-0")

    def append_as_leader(_: int) -> None:
        leader.append_as_leader(template, header, 1, 0)

    def replicate(_: int) -> None:
        follower.append_as_follower(leader.read(follower.leo, size + 200, limit_offset=leader.leo))

    rng = random.Random(1)
    report(label, "append as leader", count, append_as_leader)
    report(label, "read one batch and append as follower", count, replicate)
    report(
        label, "random read of 64 KB", count, lambda _: leader.read(rng.randrange(count), 65_536, limit_offset=count)
    )
    report(label, "read of the last batch", count, lambda _: leader.read(count - 1, 1 << 20, limit_offset=count))
    store = LogStore(disk, "store")
    store.start()
    config = LogConfig()
    report(label, "create a log", 200, lambda n: store.create("t", n, TOPIC_ID, config))
    for log in store.logs.values():
        log.append_as_leader(template, header, 1, 0)
    store.close_cleanly(1)
    report(label, "open 200 logs after a clean stop", 1, lambda _: LogStore(disk, "store").start())


def create_log(disk: Disk, directory: str) -> Log:
    return open_log(disk, directory, topic_id=TOPIC_ID, config=LogConfig())


def report(label: str, what: str, count: int, operation: Callable[[int], object]) -> None:
    """The best of ten rounds, as the one that was disturbed least."""
    size = max(1, count // 10)
    rounds = [measure(operation, range(at, min(at + size, count))) for at in range(0, count, size)]
    print(f"{label:10} {what:40} {min(rounds) * 1e6:10.1f} us")


def measure(operation: Callable[[int], object], numbers: range) -> float:
    start = time.process_time()
    for n in numbers:
        operation(n)
    return (time.process_time() - start) / len(numbers)


if __name__ == "__main__":
    main()
