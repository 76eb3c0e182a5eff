"""`insync demo`: a real cluster on a bad day.

Three node processes run while a stock client (confluent-kafka) writes, reads and records everything it sees, and Spark
archives the topic (`demo_lake`). A leader is killed with kill -9; a partition is moved away from a broker and back. At
the end a last reader reads the whole log. Then the history is checked by the protocol's properties, the lake against
the history, and the replicas' logs against each other. Nothing is simulated or canned.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.rule import Rule

from insync.chaos.workload.load import Load
from insync.chaos.workload.workload import Workload
from insync.cli.exits import failure
from insync.cli.output import console, table
from insync.cli.parsing import empty_directory
from insync.cli.pipeline import check_java, open_session, output_errors_reported
from insync.client import admin, topics
from insync.client.client import Client
from insync.client.errors import raise_for_error
from insync.cluster.cluster import Cluster
from insync.history import history_file
from insync.history.verdict import Verdict

if TYPE_CHECKING:
    from insync.cli.demo_lake import DemoLake

TOPIC = "orders"
PARTITIONS = 3
BROKERS = (1, 2, 3)
STEP_RECORDS = 500
"""Acknowledged records on every partition before the next step."""
TIMEOUT_S = 60.0
WIDTH = 100
REPORT = Path("insync-demo.html")


class Demo:
    def __init__(self, cluster: Cluster, workload: Workload, lake: DemoLake | None, started: float) -> None:
        self.cluster = cluster
        self.workload = workload
        self.lake = lake
        self.started = started
        self.console = console()
        self.console.width = min(self.console.width, WIDTH)

    def chapter(self, title: str) -> None:
        self.console.print()
        self.console.print(Rule(f"[bold]{title}[/bold]", align="left", style="cyan"))

    def say(self, text: str) -> None:
        self.console.print(f"  [dim]{time.monotonic() - self.started:5.1f} s[/dim]  {text}", soft_wrap=True)

    def wait_for_progress(self) -> None:
        self.workload.wait_for_acks(STEP_RECORDS)
        archived = f", {self.lake.rows:,} archived" if self.lake else ""
        self.say(f"{self.workload.acked:,} records acknowledged, {self.workload.read:,} read{archived}")


def demo(
    keep: Annotated[
        Path | None, typer.Option(help="Keep logs, data, lake and history in this empty directory.")
    ] = None,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the report page.")] = REPORT,
    without_spark: Annotated[
        bool, typer.Option("--without-spark", help="Run the cluster only: no archive, no audit, no report.")
    ] = False,
) -> None:
    """Watch a real cluster, and an archive on Spark, survive a bad day.

    A leader is killed with kill -9 and a partition is moved; at the end every record is accounted for.
    """
    kept = None if keep is None else empty_directory(keep)
    _need_client()
    if not without_spark:
        _need_spark()
        _check_report(report)
    if kept is not None:
        _run_demo(kept, None if without_spark else report)
        return
    with tempfile.TemporaryDirectory(prefix="insync-demo-") as directory:
        _run_demo(Path(directory), None if without_spark else report)


def _run_demo(directory: Path, report: Path | None) -> None:
    """Without a report, Spark is not used."""
    started = time.monotonic()
    directory.mkdir(parents=True, exist_ok=True)
    record = directory / "history.jsonl"
    console().print("\n[bold]insync[/bold]: three nodes, one stock client, one bad day")
    lake = _open_lake(directory, report) if report else None
    with Cluster(brokers=3, topics={TOPIC: PARTITIONS}, directory=directory / "cluster") as cluster:
        load = Load(bootstrap=cluster.bootstrap, topic=TOPIC, partitions=PARTITIONS, rate=1_000, in_flight=2_000)
        with Workload(load, record) as workload:
            demo = Demo(cluster, workload, lake, started)
            _start_load(demo)
            killed = _kill_leader(demo)
            _move_partition(demo)
            demo.chapter("The account")
            verdict = workload.finish()
        demo.say("the clients have stopped, and a last reader has read the whole log")
        if lake is not None:
            lake.finish(demo.say)
    if lake is not None:
        lake.check(demo.say)
    ok = verdict.ok and (lake is None or lake.ok)
    _show_summary(demo, verdict, _longest_pause(record, *killed), ok)
    if not ok:
        raise typer.Exit(1)


def _open_lake(directory: Path, report: Path) -> DemoLake:
    from insync.cli.demo_lake import DemoLake

    console().print("[dim]Spark is starting ...[/dim]")
    return DemoLake(open_session(None, "demo"), directory, TOPIC, report)


# --- the chapters ----------------------------------------------------------------------------------------------------


def _start_load(demo: Demo) -> None:
    demo.chapter("A cluster starts")
    for node in demo.cluster.nodes.values():
        demo.say(f"node {node.id}: {' and '.join(node.roles)}, pid {node.pid}, port {node.port}")
    demo.say(f"topic {TOPIC}: {PARTITIONS} partitions, 3 replicas each, writes need 2 in sync")
    demo.workload.wait_for_acks(1)
    demo.say("[green]first write acknowledged on every partition[/green]")
    if demo.lake is not None:
        demo.lake.start(demo.cluster.bootstrap)
        demo.lake.wait_for_rows()
        demo.say("[green]Spark archives the topic from now on[/green]")
    demo.wait_for_progress()
    _show_partitions(demo)


def _kill_leader(demo: Demo) -> tuple[int, int]:
    """Returns the partition that lost its leader, and when."""
    demo.chapter("kill -9 of a leader")
    victim = demo.cluster.leader_of(TOPIC)
    when = history_file.now()
    demo.cluster.kill(victim)
    demo.say(f"[red]node {victim}, leader of {TOPIC}-0, is dead[/red]")
    successor = demo.cluster.wait_for_leader(TOPIC, other_than=victim)
    demo.say(f"node {successor} leads {TOPIC}-0 now: it was in sync, so it has every acknowledged record")
    demo.wait_for_progress()
    _show_partitions(demo)
    demo.cluster.start(victim)
    demo.say(f"node {victim} restarts, truncates what was never committed, and catches up")
    for partition in range(PARTITIONS):
        demo.cluster.wait_for_isr(TOPIC, partition)
    demo.say("[green]all replicas are in sync[/green]")
    return 0, when


def _move_partition(demo: Demo) -> None:
    demo.chapter("A partition moves")
    removed = demo.cluster.leader_of(TOPIC, 1)
    rest = tuple(broker for broker in BROKERS if broker != removed)
    _reassign(demo, rest)
    demo.cluster.wait_for_isr(TOPIC, 1, len(rest))
    demo.say(f"{TOPIC}-1 has left node {removed}, its leader: node {demo.cluster.wait_for_leader(TOPIC, 1)} took over")
    demo.wait_for_progress()
    _reassign(demo, (*rest, removed))
    demo.cluster.wait_for_isr(TOPIC, 1, len(BROKERS))
    demo.say(f"and is back: node {removed} copied all of it while writes continued")
    demo.wait_for_progress()
    _show_partitions(demo)


def _reassign(demo: Demo, replicas: tuple[int, ...]) -> None:
    async def move() -> None:
        async with Client.connect(demo.cluster.bootstrap, timeout_s=TIMEOUT_S) as client:
            for code, message in (await admin.reassign(client, {(TOPIC, 1): replicas})).values():
                raise_for_error(code, f"moving {TOPIC}-1", message)
            while await admin.list_reassignments(client):
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(move(), TIMEOUT_S))


# --- output ----------------------------------------------------------------------------------------------------------


def _show_partitions(demo: Demo) -> None:
    async def describe() -> list[tuple[object, ...]]:
        async with Client.connect(demo.cluster.bootstrap, timeout_s=TIMEOUT_S) as client:
            (topic,) = await topics.describe(client, [TOPIC])
            return [(f"{TOPIC}-{p.index}", p.leader, p.leader_epoch, p.replicas, p.isr) for p in topic.partitions]

    rows = asyncio.run(describe())
    _show(demo, ("partition", "leader", "epoch", "replicas", "in sync"), rows)


def _show(demo: Demo, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    demo.console.print(Padding(table(columns, rows), (1, 0, 1, 11)))


def _longest_pause(path: Path, partition: int, killed: int) -> float:
    """The longest time without an acknowledgement on the partition after the kill, in seconds."""
    acks = [
        event.time
        for event in history_file.read(path)
        if event.kind == history_file.ACK and event.partition == partition and event.time >= killed
    ]
    times = [killed, *sorted(acks)]
    return max((after - before for before, after in itertools.pairwise(times)), default=0) / 1e9


def _show_summary(demo: Demo, verdict: Verdict, pause: float, ok: bool) -> None:
    count, lake = verdict.count, demo.lake
    rows: list[tuple[str, str]] = [
        ("records sent", f"{count(history_file.SEND):,}"),
        ("acknowledged", f"{count(history_file.ACK):,}"),
        ("refused", f"{count(history_file.FAIL):,}"),
        ("read by consumers", f"{count(history_file.READ):,}"),
        ("in the log at the end", f"{count(history_file.LOG):,}"),
        *([("archived by Spark", f"{lake.rows:,}")] if lake else ()),
        ("longest pause of writes after kill -9", f"{pause * 1_000:,.0f} ms"),
        ("lost", f"{count('lost') + (lake.missing if lake else 0):,}"),
        ("duplicated", f"{count('duplicated') + (lake.duplicated if lake else 0):,}"),
        ("reordered", f"{count('reordered'):,}"),
        ("read and then gone or changed", f"{count('inconsistent') + count('stale'):,}"),
    ]
    _show(demo, ("the day in figures", ""), rows)
    for line in (*verdict.lines(), *(lake.problems if lake else ())):
        demo.console.print(f"  [red]{line}[/red]", soft_wrap=True)
    demo.say(f"{'[bold green]Nothing was lost' if ok else '[bold red]The cluster did not keep its promises'}[/]")
    if lake is not None:
        demo.say(f"a report of what happened to each node and partition: {lake.report}")
    demo.console.print(
        "\n  your own cluster:  insync up    break one:  insync chaos    simulate one:  insync sim demo\n"
    )


def _need_client() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise failure("insync demo needs confluent-kafka as its client: pip install confluent-kafka") from None


def _check_report(report: Path) -> None:
    from insync.pipeline import outputs

    if report.exists():
        with output_errors_reported():
            outputs.check_page("--report", report)


def _need_spark() -> None:
    try:
        import numba  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError:
        raise failure(
            "insync demo needs Spark for its archive: pip install 'insync[spark]', or add --without-spark"
        ) from None
    check_java()
