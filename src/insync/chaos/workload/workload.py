"""A load on a running cluster by an unmodified client (confluent-kafka) that records everything it sees.

    with Workload(Load(bootstrap=..., topic="orders", partitions=3), path) as workload:
        workload.wait_for_acks(50)      # 50 more, on every partition
        ...                             # break something
        workload.wait_for_acks(50)
        verdict = workload.finish()     # all clients stop, and a last reader reads the whole log

The topic has to exist. `verdict.check_history(history_file.read(path))` gives the same verdict at any later time.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from insync.chaos.workload.consumer import LoadConsumer, read_whole_log
from insync.chaos.workload.load import Load, LoadThread, Tally
from insync.chaos.workload.producer import GRACE_S, LoadProducer
from insync.chaos.workload.watcher import LoadWatcher, list_end_offsets
from insync.history import history_file
from insync.history.history_file import ACK, FAIL, READ, HistoryWriter
from insync.history.verdict import Verdict, check_history

TIMEOUT_S = 60.0


class NoProgressError(Exception):
    """The clients of a workload did not make the expected progress in time."""


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

    def wait_for_acks(self, more: int, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until `more` records are acknowledged on every partition."""
        self._wait(ACK, more, timeout_s)

    def wait_for_reads(self, more: int, timeout_s: float = TIMEOUT_S) -> None:
        self._wait(READ, more, timeout_s)

    def finish(self, timeout_s: float = TIMEOUT_S) -> Verdict:
        """Stop all clients, read the log to its end, and check the history. The cluster has to be intact."""
        self._stop()
        self._check_threads()
        ends = list_end_offsets(self.load, timeout_s)
        try:
            read_whole_log(self.load, self._tally, ends, timeout_s)
        finally:
            self._history.close()
        return check_history(history_file.read(self.path))

    def _check_failures(self) -> None:
        for thread in (*self._producers, *self._readers):
            if thread.failure is not None:
                raise RuntimeError(f"{thread.name} failed; see {self.path}") from thread.failure

    def _check_threads(self) -> None:
        self._check_failures()
        for thread in (*self._producers, *self._readers):
            if thread.is_alive():
                raise NoProgressError(f"{thread.name} did not stop in time; see {self.path}")

    def _wait(self, kind: str, more: int, timeout_s: float) -> None:
        if not self._tally.wait_for_more(kind, range(self.load.partitions), more, timeout_s):
            self._check_failures()
            raise NoProgressError(
                f"fewer than {more} more '{kind}' events on some partition in {timeout_s:g} s; see {self.path}"
            )

    def _stop(self) -> None:
        """Producers first, so that the readers see their last writes."""
        for producer in self._producers:
            producer.stop()
        deadline = time.monotonic() + self.load.delivery_timeout_ms / 1_000 + 2 * GRACE_S
        for producer in self._producers:
            producer.join(max(0.0, deadline - time.monotonic()))
        for reader in self._readers:
            reader.stop()
        for reader in self._readers:
            reader.join(GRACE_S)
