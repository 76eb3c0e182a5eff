"""Whether nodes grow: samples of memory and descriptors, and what is made of them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from insync.chaos import resources
from insync.chaos.resources import ResourceSampler, Sample, measure_growth

HOUR = 3_600


def _samples(
    memory: Any, descriptors: Any = lambda _seconds: 40, *, seconds: int = HOUR, life: int = HOUR
) -> list[Sample]:
    """One node, a sample every 10 s; its process is replaced every `life` seconds."""
    return [Sample(at, 1, 100 + at // life, at % life, memory(at), descriptors(at)) for at in range(0, seconds + 1, 10)]


def test_a_node_that_stays_as_it_is_is_flat() -> None:
    (growth,) = measure_growth(_samples(lambda at: 42.0 + (at // 10) % 3))
    assert (growth.is_flat, growth.judged, growth.first_descriptors, growth.mb_per_hour) == (True, True, 40, 0.0)


def test_a_slow_leak_of_memory_shows() -> None:
    (growth,) = measure_growth(_samples(lambda at: 42.0 + 20 * at / HOUR))
    assert not growth.is_flat
    assert 19.0 < growth.mb_per_hour < 21.0


def test_a_leak_of_descriptors_shows() -> None:
    (growth,) = measure_growth(_samples(lambda _at: 42.0, lambda at: 40 + at // 100))
    assert not growth.is_flat
    assert 34 < growth.descriptors_per_hour < 38


def test_a_process_that_has_just_started_does_not_count() -> None:
    """Else a node that is killed more often in the end would look as if it shrank."""
    young = _samples(lambda at: 20.0 if at % 60 < 20 else 42.0, life=60)
    (growth,) = measure_growth(young)
    assert (growth.first_mb, growth.last_mb) == (42.0, 42.0)


def test_a_short_run_is_measured_and_not_judged() -> None:
    (growth,) = measure_growth(_samples(lambda at: 42.0 + at, seconds=600))
    assert (growth.judged, growth.is_flat) == (False, False)
    assert measure_growth(_samples(lambda _at: 42.0, seconds=60)) == []


def test_the_sampler_writes_what_it_sees_of_running_nodes(tmp_path: Path) -> None:
    path = tmp_path / "resources.csv"
    nodes: Any = {
        1: SimpleNamespace(id=1, pid=os.getpid(), is_running=True),
        2: SimpleNamespace(id=2, pid=-1, is_running=False),
    }
    with ResourceSampler(nodes, path, interval_s=60.0):
        pass  # it takes one sample before it looks whether to stop
    (sample,) = resources.read(path)
    assert (sample.node, sample.pid) == (1, os.getpid())
    assert sample.rss_mb > 5
    assert sample.descriptors > 2
