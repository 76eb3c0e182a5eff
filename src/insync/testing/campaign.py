"""A cluster, a load on it, one fault after the other, and the verdict.

Faults come in rounds, each round in an order of its own; the seed decides order and targets. What the processes make of
them depends on the machine's timing as well, so the same seed is the same plan, not the same run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from insync.client.errors import ClientError
from insync.testing import history
from insync.testing.chaos import Scene, strike
from insync.testing.cluster import Cluster, ClusterError
from insync.testing.load import Load
from insync.testing.verdict import Verdict, judge
from insync.testing.workload import NoProgress, NotReadInTime, Workload

TOPIC = "chaos"
HISTORY = "history.jsonl"
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

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.stuck and not self.defects


def run(plan: Plan, directory: Path, say: Callable[[Struck], None]) -> Report:
    """Everything that is written stays in `directory`."""
    report = Report(plan)
    path = directory / HISTORY
    topic = {"partitions": plan.partitions, "replication_factor": REPLICAS, "min_insync_replicas": MIN_ISR}
    with Cluster(plan.brokers, profile=plan.profile, topics={TOPIC: topic}, directory=directory / "nodes") as cluster:
        load = Load(bootstrap=cluster.bootstrap, topic=TOPIC, partitions=plan.partitions, seed=plan.seed, **plan.load)
        try:
            report.verdict = _break_under_load(report, cluster, load, path, say)
        except STUCK as error:
            report.stuck = report.stuck or _told(error)
            report.verdict = judge(history.read(path))
    report.defects = [str(node.log) for node in cluster.nodes.values() if DEFECT in node.log.read_text()]
    return report


def _break_under_load(
    report: Report, cluster: Cluster, load: Load, path: Path, say: Callable[[Struck], None]
) -> Verdict:
    """Also a cluster that got stuck is judged, as far as it can be mended."""
    with Workload(load, path) as workload:
        scene = Scene(cluster, workload, random.Random(report.plan.seed))
        try:
            scene.recovers()
            _strike_on(report, scene, say)
        except STUCK as error:
            report.stuck = _told(error)
            cluster.mend()
        return workload.finish()


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _strike_on(report: Report, scene: Scene, say: Callable[[Struck], None]) -> None:
    began = time.monotonic()
    for number, name in enumerate(_rounds(report.plan.faults, scene.rng)):
        at = time.monotonic()
        if number >= len(report.plan.faults) and at - began > report.plan.seconds:
            return
        told = strike(name, scene)
        struck = Struck(name, told, at - began, time.monotonic() - at)
        report.struck.append(struck)
        say(struck)


def _rounds(faults: Sequence[str], rng: random.Random) -> Iterator[str]:
    while True:
        order = list(faults)
        rng.shuffle(order)
        yield from order
