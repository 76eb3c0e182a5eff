"""A campaign: a cluster under load, one fault after the other, and the verdict on what its clients saw.

Faults come in rounds, each in an order of its own; the seed decides the order and the targets. What the processes make
of them also depends on the timing of the machine, so the same seed is the same plan, not the same run.

A long run is divided into legs, so that neither its history nor its data grows without bound. Each leg has a topic and
a history of its own, which are checked at its end and removed if nothing was wrong. The cluster stays the same, and its
memory and file descriptors are sampled all the time.
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
from insync.chaos.faults import FaultContext, call_cluster, inject
from insync.chaos.resources import Growth, ResourceSampler
from insync.chaos.workload.consumer import ReadTimeoutError
from insync.chaos.workload.load import Load
from insync.chaos.workload.login import Login
from insync.chaos.workload.workload import NoProgressError, Workload
from insync.client import topics
from insync.client.errors import ClientError
from insync.cluster.cluster import Cluster, ClusterError
from insync.history import history_file
from insync.history.verdict import Verdict, check_history

TOPIC = "chaos"
HISTORY = "history.jsonl"
RESOURCES = "resources.csv"
LEG_S = 300.0
REPLICAS, MIN_ISR = 3, 2
USER = "user"
"""With which the clients log in to a secured cluster."""
STUCK_ERRORS = (ClusterError, ClientError, NoProgressError, ReadTimeoutError, TimeoutError)
"""The cluster did not recover in time."""
DEFECT = "Traceback"
"""No fault makes a node raise an unexpected exception: a node that cannot continue logs one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    faults: Sequence[str]
    seconds: float
    """No fault starts later than this, but the first round is always completed."""
    seed: int = 0
    brokers: int = 4
    partitions: int = 3
    profile: str = "fast"
    security: str | None = None
    """The protocol of clients; None: a cluster without security."""
    load: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `Load`."""
    leg_seconds: float = LEG_S
    """No leg starts another fault later than this."""
    keep_histories: bool = True
    """Whether to keep the histories of legs in which nothing was wrong."""


@dataclass(frozen=True, slots=True)
class InjectedFault:
    name: str
    description: str
    at: float
    """Seconds since the start of the campaign."""
    seconds: float


@dataclass(slots=True)
class Report:
    plan: Plan
    faults: list[InjectedFault] = field(default_factory=list)
    stuck: str = ""
    """What did not happen in time, if anything; no further fault was injected then."""
    defects: list[str] = field(default_factory=list)
    """The logs of nodes that raised an unexpected exception."""
    verdict: Verdict = field(default_factory=lambda: Verdict(()))
    """On all legs."""
    growth: list[Growth] = field(default_factory=list)
    """The growth of the nodes' memory and file descriptors; empty for a short run."""

    @property
    def growing(self) -> list[Growth]:
        return [growth for growth in self.growth if growth.judged and not growth.is_flat]

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.stuck and not self.defects and not self.growing


def run(plan: Plan, directory: Path, on_fault: Callable[[InjectedFault], None]) -> Report:
    """Everything written stays in `directory`, except the histories that `plan.keep_histories` excludes."""
    report = Report(plan)
    with Cluster(plan.brokers, profile=plan.profile, directory=directory / "nodes", security=plan.security) as cluster:
        login = Login(cluster.client_config(USER) if plan.security is not None else None)
        schedule = _Schedule(report, random.Random(plan.seed), on_fault, login)
        with ResourceSampler(cluster.nodes, directory / RESOURCES):
            for number in itertools.count(1):
                _run_leg(number, schedule, cluster, directory)
                if report.stuck or not report.verdict.ok or schedule.is_over():
                    break
    report.growth = resources.measure_growth(resources.read(directory / RESOURCES))
    report.defects = [str(node.log) for node in cluster.nodes.values() if DEFECT in node.log.read_text()]
    return report


def _run_leg(number: int, schedule: _Schedule, cluster: Cluster, directory: Path) -> None:
    report, plan = schedule.report, schedule.report.plan
    topic, path = _numbered(TOPIC, number), directory / HISTORY
    if number > 1:
        path = path.with_stem(_numbered(path.stem, number))
    load = Load(
        bootstrap=cluster.bootstrap,
        topic=topic,
        partitions=plan.partitions,
        seed=plan.seed,
        login=schedule.login,
        **plan.load,
    )
    try:
        cluster.create_topic(topic, plan.partitions, REPLICAS, min_insync_replicas=MIN_ISR)
        verdict = _inject_under_load(schedule, cluster, load, path)
    except STUCK_ERRORS as error:
        report.stuck = report.stuck or _describe_error(error)
        verdict = check_history(history_file.read(path)) if path.exists() else Verdict(())
    report.verdict = Verdict((*report.verdict.partitions, *verdict.partitions))
    if verdict.ok and not report.stuck and not schedule.is_over():
        _delete_topic(cluster, topic)
        if not plan.keep_histories:
            path.unlink()


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _delete_topic(cluster: Cluster, topic: str) -> None:
    call_cluster(cluster, lambda client: topics.delete(client, topic))


def _inject_under_load(schedule: _Schedule, cluster: Cluster, load: Load, path: Path) -> Verdict:
    """A cluster that got stuck is checked too, if it can be mended."""
    with Workload(load, path) as workload:
        context = FaultContext(cluster, workload, schedule.rng)
        try:
            context.wait_for_recovery()
            schedule.run_leg(context)
        except STUCK_ERRORS as error:
            schedule.report.stuck = _describe_error(error)
            cluster.mend()
        return workload.finish()


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class _Schedule:
    """Which faults are injected when, over all legs."""

    def __init__(
        self, report: Report, rng: random.Random, on_fault: Callable[[InjectedFault], None], login: Login
    ) -> None:
        self.report = report
        self.rng = rng
        self.login = login
        """Of the clients of all legs."""
        self._on_fault = on_fault
        self._started = time.monotonic()
        self._names = _shuffled_rounds(report.plan.faults, rng)

    def is_over(self) -> bool:
        """Every fault was injected at least once, and the time is up."""
        plan = self.report.plan
        return len(self.report.faults) >= len(plan.faults) and time.monotonic() - self._started > plan.seconds

    def run_leg(self, context: FaultContext) -> None:
        """Inject faults until the leg, or the campaign, is over."""
        started = time.monotonic()
        while not self.is_over() and time.monotonic() - started <= self.report.plan.leg_seconds:
            name, at = next(self._names), time.monotonic()
            description = inject(name, context)
            fault = InjectedFault(name, description, at - self._started, time.monotonic() - at)
            self.report.faults.append(fault)
            self._on_fault(fault)


def _shuffled_rounds(faults: Sequence[str], rng: random.Random) -> Iterator[str]:
    while True:
        order = list(faults)
        rng.shuffle(order)
        yield from order
