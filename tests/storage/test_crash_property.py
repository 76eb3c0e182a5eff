"""Any history of appends, truncations, rolls, flushes and crashes, compared with a list of batches as the model.

After a power loss the log is a prefix of what was written and holds at least what was flushed. A truncation may be
undone if nothing was written after it. Epochs and producers are those of the remaining batches.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from insync.sim.engine.disk import SimDisk
from insync.storage.config import LogConfig
from insync.storage.log import Log, LogFlush
from insync.storage.log_store import LogStore
from tests.storage.storage_harness import batch, content, shape

TOPIC_ID = UUID(int=7)
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
Row = tuple[int, int, int]
Step = tuple[str, int]


class Model:
    def __init__(self) -> None:
        self.disk = SimDisk()
        self.rows: list[Row] = []
        self.undone: list[list[Row]] = []
        """Logs that may come back: those before truncations after which nothing was written."""
        self.bytes_at: dict[int, bytes] = {}
        self.epoch = 1
        self.job: LogFlush | None = None
        self.start()

    def start(self) -> None:
        self.store = LogStore(self.disk, "data", lambda _: CONFIG)
        self.store.start()
        self.log: Log = self.store.create("t", 0, TOPIC_ID, CONFIG)
        self.job = None

    def do(self, step: Step) -> None:
        name, n = step
        getattr(self, name)(n)
        assert self.log.leo == self.end
        assert self.log.log_start <= self.log.hwm <= self.log.leo
        assert self.log.recovery_point <= self.log.leo

    @property
    def end(self) -> int:
        return self.rows[-1][1] + 1 if self.rows else self.log.segments[0].base

    def append(self, n: int) -> None:
        base = self.log.leo
        data, header = batch(
            1 + n % 3, value=bytes([n % 256]) * (n % 150), producer_id=9, producer_epoch=0, base_sequence=base
        )
        self.log.append_as_leader(data, header, self.epoch, 0)
        self.rows.append((base, self.log.leo - 1, self.epoch))
        self.bytes_at[base] = bytes(data)
        self.undone.clear()

    def lead(self, n: int) -> None:
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.log.leo)

    def truncate(self, n: int) -> None:
        offset = max(self.log.log_start, self.log.leo - n % 12)
        self.undone.append(list(self.rows))
        self.log.truncate_to(offset)
        self.rows = [row for row in self.rows if row[1] < offset] if self.log.size_bytes else []
        self.epoch += 1

    def prune(self, n: int) -> None:
        self.log.set_hwm(self.log.leo)
        self.log.raise_log_start(self.log.leo - n % 8)

    def roll(self, n: int) -> None:
        self.log.roll()

    def flush(self, n: int) -> None:
        self.log.flush()

    def begin_flush(self, n: int) -> None:
        self.job = self.job or self.log.begin_flush()

    def run_flush(self, n: int) -> None:
        if self.job is not None:
            self.job.run()

    def finish_flush(self, n: int) -> None:
        if self.job is not None:
            self.job.run()
            self.log.finish_flush(self.job)
            self.job = None

    def checkpoint(self, n: int) -> None:
        self.store.checkpoint_recovery_points()
        self.store.checkpoint_log_starts()

    def stop_cleanly(self, n: int) -> None:
        self.store.close_cleanly(5)
        start = self.log.log_start
        self.undone.clear()
        self.start()
        assert self.log.recovery is None
        assert self.log.log_start == start
        self.check()

    def process_crash(self, n: int) -> None:
        self.disk.crash()
        self.start()
        self.check()

    def power_loss(self, n: int) -> None:
        flushed, possible = self.log.recovery_point, [self.rows, *self.undone]
        self.disk.lossy_crash(Random(n), corrupt=n % 2 == 1)
        self.start()
        first = self.log.segments[0].base
        recovered = shape(self.log)
        assert self.log.leo >= flushed
        prefixes = [[row for row in rows if row[0] >= first][: len(recovered)] for rows in possible]
        assert recovered in prefixes
        self.rows = recovered
        self.undone.clear()
        self.check()

    def check(self) -> None:
        log, first = self.log, self.log.segments[0].base
        rows = [row for row in self.rows if row[0] >= first]
        assert shape(log) == rows
        stamped = b"".join(self.bytes_at[base] for base, last, _ in rows if last >= log.log_start)
        assert content(log) == stamped
        starts: list[tuple[int, int]] = []
        for base, _, epoch in rows:
            if not starts or epoch != starts[-1][0]:
                starts.append((epoch, base))
        kept = [(epoch, max(start, log.log_start)) for epoch, start in starts]
        kept = [entry for at, entry in enumerate(kept) if at + 1 == len(kept) or kept[at + 1][1] > entry[1]]
        if rows and rows[-1][1] >= log.log_start:
            assert log.epochs.entries == kept
            assert log.producers.producers[9].last_offset == log.leo - 1
        for base, last, _ in rows:
            if last >= log.log_start:
                assert log.read(last, 1, limit_offset=log.leo) == self.bytes_at[base]


NAMES = {
    "append": 8,
    "lead": 1,
    "truncate": 2,
    "prune": 1,
    "roll": 1,
    "flush": 1,
    "begin_flush": 1,
    "run_flush": 1,
    "finish_flush": 1,
    "checkpoint": 1,
    "stop_cleanly": 1,
    "process_crash": 1,
    "power_loss": 2,
}
WEIGHTED = [name for name, weight in NAMES.items() for _ in range(weight)]
STEPS = st.tuples(st.sampled_from(WEIGHTED), st.integers(0, 9_999))


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
@example([("append", 1), ("flush", 0), ("checkpoint", 0), ("truncate", 1), ("append", 2), ("power_loss", 0)])
@example([("append", 8385), ("prune", 4880), ("stop_cleanly", 285)])
@example([("append", 4179), ("append", 4342), ("stop_cleanly", 9745), ("truncate", 2134), ("power_loss", 73)])
@example(
    [("append", 5498), ("append", 5843), ("stop_cleanly", 0), ("prune", 548), ("append", 5470), ("power_loss", 346)]
)
@example(
    [("append", 7313), ("prune", 6081), ("checkpoint", 0), ("truncate", 4217), ("append", 9162), ("process_crash", 0)]
)
@example(
    [
        ("append", 8071),
        ("stop_cleanly", 0),
        ("truncate", 1067),
        ("process_crash", 0),
        ("append", 4822),
        ("power_loss", 6919),
    ]
)
def test_after_a_crash_the_log_is_a_prefix_that_holds_everything_flushed(steps: list[Step]) -> None:
    """D4, P4, B5"""
    model = Model()
    for step in steps:
        model.do(step)
    model.do(("power_loss", len(steps)))
