"""How a query is measured: warm first, then the fastest of some runs, and the CPU time that all processes below this
one have used for it. On a machine that others use too, the CPU time is the figure that stays."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    seconds: float
    cpu_seconds: float


def measure(work: Callable[[], object], *, warm: int, runs: int) -> Sample:
    """The fastest run, and the median CPU time."""
    for _ in range(warm):
        work()
    samples = [_once(work) for _ in range(runs)]
    return Sample(min(each.seconds for each in samples), statistics.median(each.cpu_seconds for each in samples))


def _once(work: Callable[[], object]) -> Sample:
    used, began = cpu_of_descendants(), time.perf_counter()
    work()
    return Sample(time.perf_counter() - began, cpu_of_descendants() - used)


def cpu_of_descendants() -> float:
    """Of this process and all below it, in seconds; what has ended since counts with its parent."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = sum(int(ticks) for ticks in fields[11:15]) / _TICKS
    return sum(cpu for pid, cpu in used.items() if _below(pid, parents))


def _below(pid: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = parents.get(pid, 0)
    return False


def emptied(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    return path
