"""A load on a running cluster, by an unmodified client (confluent-kafka), with everything that it sees written down.

    with Workload(Load(bootstrap=..., topic="orders", partitions=3), path) as workload:
        workload.wait_for_acks(50)      # 50 more, on every partition
        ...                             # break something
        workload.wait_for_acks(50)
        verdict = workload.finish()     # everybody stops, one last reader reads it all again

The topic has to exist. `verdict.judge(history_file.read(path))` says the same of the file, at any time later.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from insync.chaos.workload import watcher as load_watcher
from insync.chaos.workload.consumer import LoadConsumer, NotReadInTime, read_again
from insync.chaos.workload.load import Load, LoadThread, Tally
from insync.chaos.workload.producer import GRACE_S, LoadProducer
from insync.chaos.workload.watcher import LoadWatcher
from insync.history import history_file
from insync.history.history_file import ACK, FAIL, READ, HistoryWriter
from insync.history.verdict import Verdict, judge

PATIENCE_S = 60.0


class NoProgress(Exception):  # noqa: N818  says what happened
    """A client waited in vain."""


class Workload:
    def __init__(self, load: Load, path: Path) -> None:
        self.load = load
        self.path = path
        self._history = HistoryWriter(path)
        self._tally = Tally(self._history)
        numbers = itertools.count().__next__
        self._producers = [LoadProducer(i, load, self._tally, numbers) for i in range(load.producers)]
        self._readers: list[LoadThread] = [
            *(LoadConsumer(f"consumer-{i}", load, self._tally) for i in range(load.consumers)),
            LoadWatcher(load, self._tally),
        ]

    def __enter__(self) -> Workload:
        for thread in (*self._producers, *self._readers):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._history.close()

    @property
    def acked(self) -> int:
        return self._tally.count(ACK)

    @property
    def failed(self) -> int:
        return self._tally.count(FAIL)

    @property
    def read(self) -> int:
        return self._tally.count(READ)

    def wait_for_acks(self, more: int, timeout_s: float = PATIENCE_S) -> None:
        """Until so many more records are acknowledged, on every partition."""
        self._wait(ACK, more, timeout_s)

    def wait_for_reads(self, more: int, timeout_s: float = PATIENCE_S) -> None:
        self._wait(READ, more, timeout_s)

    def finish(self, timeout_s: float = PATIENCE_S) -> Verdict:
        """The cluster has to be whole again."""
        self._stop()
        self._check_threads()
        ends = load_watcher.ends(self.load, timeout_s)
        try:
            read_again(self.load, self._tally, ends, timeout_s)
        finally:
            self._history.close()
        return judge(history_file.read(self.path))

    def _check_failures(self) -> None:
        for thread in (*self._producers, *self._readers):
            if thread.failure is not None:
                raise RuntimeError(f"{thread.name} failed; see {self.path}") from thread.failure

    def _check_threads(self) -> None:
        self._check_failures()
        for thread in (*self._producers, *self._readers):
            if thread.is_alive():
                raise NoProgress(f"{thread.name} does not end; see {self.path}")

    def _wait(self, kind: str, more: int, timeout_s: float) -> None:
        if not self._tally.wait_for_more(kind, range(self.load.partitions), more, timeout_s):
            self._check_failures()
            raise NoProgress(f"no {more} more '{kind}' on every partition in {timeout_s:g} s; see {self.path}")

    def _stop(self) -> None:
        """Producers first: the others shall see the answers to their last writes."""
        for producer in self._producers:
            producer.stop()
        deadline = time.monotonic() + self.load.delivery_timeout_ms / 1_000 + 2 * GRACE_S
        for producer in self._producers:
            producer.join(max(0.0, deadline - time.monotonic()))
        for reader in self._readers:
            reader.stop()
        for reader in self._readers:
            reader.join(GRACE_S)


__all__ = ["Load", "NoProgress", "NotReadInTime", "Workload"]
