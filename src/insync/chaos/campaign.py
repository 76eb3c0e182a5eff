"""A cluster, a load on it, one fault after the other, and the verdict.

Faults come in rounds, each round in an order of its own; the seed decides order and targets. What the processes make of
them depends on the machine's timing as well, so the same seed is the same plan, not the same run.

A long run is divided into legs, so that neither its history nor its data grows without bound. Each leg has a topic and
a history of its own. They are judged when the leg ends, and removed if nothing was wrong. The cluster stays the same,
and its memory and file descriptors are sampled all the time.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from insync.chaos import resources
from insync.chaos.faults import Scene, ask, strike
from insync.chaos.resources import Growth, ResourceSampler
from insync.chaos.workload.load import Load
from insync.chaos.workload.workload import NoProgress, NotReadInTime, Workload
from insync.client import topics
from insync.client.errors import ClientError
from insync.cluster.cluster import Cluster, ClusterError
from insync.history import history_file
from insync.history.verdict import Verdict, judge

TOPIC = "chaos"
HISTORY = "history.jsonl"
RESOURCES = "resources.csv"
LEG_S = 300.0
REPLICAS, MIN_ISR = 3, 2
STUCK = (ClusterError, ClientError, NoProgress, NotReadInTime, TimeoutError)
DEFECT = "Traceback"
"""No fault makes a node's code fail; what it cannot do, it says in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    faults: Sequence[str]
    seconds: float
    """No fault begins later than this; the first round is played to its end."""
    seed: int = 0
    brokers: int = 4
    partitions: int = 3
    profile: str = "fast"
    load: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `Load`."""
    leg_seconds: float = LEG_S
    """No leg begins another round of faults later than this."""
    keep_histories: bool = True
    """Also of legs in which nothing was wrong."""


@dataclass(frozen=True, slots=True)
class Struck:
    name: str
    told: str
    at: float
    seconds: float


@dataclass(slots=True)
class Report:
    plan: Plan
    struck: list[Struck] = field(default_factory=list)
    stuck: str = ""
    """What did not come to pass in time, if anything: then no further fault was tried."""
    defects: list[str] = field(default_factory=list)
    """The logs of nodes whose code failed."""
    verdict: Verdict = field(default_factory=lambda: Verdict(()))
    """Of all legs."""
    growth: list[Growth] = field(default_factory=list)
    """Of the nodes' memory and file descriptors; of a short run there is none."""

    @property
    def growing(self) -> list[Growth]:
        return [growth for growth in self.growth if growth.judged and not growth.is_flat]

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.stuck and not self.defects and not self.growing


def run(plan: Plan, directory: Path, say: Callable[[Struck], None]) -> Report:
    """Everything that is written stays in `directory`, except what `plan.keep_histories` says."""
    report = Report(plan)
    with Cluster(plan.brokers, profile=plan.profile, directory=directory / "nodes") as cluster:
        course = _Course(report, random.Random(plan.seed), say)
        with ResourceSampler(cluster.nodes, directory / RESOURCES):
            for number in itertools.count(1):
                _run_leg(number, course, cluster, directory)
                if report.stuck or not report.verdict.ok or course.is_over():
                    break
    report.growth = resources.measure_growth(resources.read(directory / RESOURCES))
    report.defects = [str(node.log) for node in cluster.nodes.values() if DEFECT in node.log.read_text()]
    return report


def _run_leg(number: int, course: _Course, cluster: Cluster, directory: Path) -> None:
    report, plan = course.report, course.report.plan
    topic, path = _numbered(TOPIC, number), directory / HISTORY
    if number > 1:
        path = path.with_stem(_numbered(path.stem, number))
    load = Load(bootstrap=cluster.bootstrap, topic=topic, partitions=plan.partitions, seed=plan.seed, **plan.load)
    try:
        cluster.create_topic(topic, plan.partitions, REPLICAS, min_insync_replicas=MIN_ISR)
        verdict = _break_under_load(course, cluster, load, path)
    except STUCK as error:
        report.stuck = report.stuck or _told(error)
        verdict = judge(history_file.read(path)) if path.exists() else Verdict(())
    report.verdict = Verdict((*report.verdict.partitions, *verdict.partitions))
    if verdict.ok and not report.stuck and not course.is_over():
        _free(cluster, topic)
        if not plan.keep_histories:
            path.unlink()


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _free(cluster: Cluster, topic: str) -> None:
    ask(cluster.bootstrap, lambda client: topics.delete(client, topic))


def _break_under_load(course: _Course, cluster: Cluster, load: Load, path: Path) -> Verdict:
    """Also a cluster that got stuck is judged, as far as it can be mended."""
    with Workload(load, path) as workload:
        scene = Scene(cluster, workload, course.rng)
        try:
            scene.recovers()
            course.strike_on(scene)
        except STUCK as error:
            course.report.stuck = _told(error)
            cluster.mend()
        return workload.finish()


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class _Course:
    """Which faults come when, over all legs."""

    def __init__(self, report: Report, rng: random.Random, say: Callable[[Struck], None]) -> None:
        self.report = report
        self.rng = rng
        self._say = say
        self._began = time.monotonic()
        self._faults = _rounds(report.plan.faults, rng)

    def is_over(self) -> bool:
        """Every fault was used once, and the time has passed."""
        plan = self.report.plan
        return len(self.report.struck) >= len(plan.faults) and time.monotonic() - self._began > plan.seconds

    def strike_on(self, scene: Scene) -> None:
        """Until the leg is over, or all of it."""
        began = time.monotonic()
        while not self.is_over() and time.monotonic() - began <= self.report.plan.leg_seconds:
            name, at = next(self._faults), time.monotonic()
            told = strike(name, scene)
            struck = Struck(name, told, at - self._began, time.monotonic() - at)
            self.report.struck.append(struck)
            self._say(struck)


def _rounds(faults: Sequence[str], rng: random.Random) -> Iterator[str]:
    while True:
        order = list(faults)
        rng.shuffle(order)
        yield from order
