"""`insync demo`: a real cluster on a bad day.

Three node processes; a stock client (confluent-kafka) writes and reads all the time, and everything that it sees is
written down, while Spark archives the topic (`demo_lake`). A leader dies by kill -9, a partition leaves a broker and
comes back; at the end one more reader reads everything again, and the whole history is judged by the protocol's
properties, the lake against the history, the replicas' logs against each other. Nothing is simulated or canned.
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

from insync.chaos.workload.workload import Load, Workload
from insync.cli.common import console, empty_directory, table
from insync.cli.exits import failure
from insync.cli.pipeline import checked, need_java, open_session
from insync.client import admin, topics
from insync.client.client import Client
from insync.client.errors import raise_for_error
from insync.cluster.cluster import Cluster
from insync.history import history_file
from insync.history.verdict import Verdict

if TYPE_CHECKING:
    from insync.cli.demo_lake import Aftermath

TOPIC = "orders"
PARTITIONS = 3
BROKERS = (1, 2, 3)
ENOUGH = 500
"""Acknowledged records on every partition before the next thing happens."""
PATIENCE_S = 60.0
WIDTH = 100
REPORT = Path("insync-demo.html")


class Demo:
    def __init__(self, cluster: Cluster, workload: Workload, after: Aftermath | None, began: float) -> None:
        self.cluster = cluster
        self.workload = workload
        self.after = after
        self.began = began
        self.console = console()
        self.console.width = min(self.console.width, WIDTH)

    def chapter(self, title: str) -> None:
        self.console.print()
        self.console.print(Rule(f"[bold]{title}[/bold]", align="left", style="cyan"))

    def say(self, text: str) -> None:
        self.console.print(f"  [dim]{time.monotonic() - self.began:5.1f} s[/dim]  {text}", soft_wrap=True)

    def progress(self) -> None:
        archived = f", {self.after.rows:,} archived" if self.after else ""
        self.say(f"{self.workload.acked:,} records acknowledged, {self.workload.read:,} read{archived}")

    def load_goes_on(self) -> None:
        self.workload.wait_for_acks(ENOUGH)
        self.progress()


def demo(
    keep: Annotated[
        Path | None, typer.Option(help="Keep logs, data, lake and the clients' history here, an empty directory.")
    ] = None,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the report page goes.")] = REPORT,
    without_spark: Annotated[
        bool, typer.Option("--without-spark", help="Only the cluster: no archive, no audit, no report.")
    ] = False,
) -> None:
    """Watch a real cluster, and an archive on Spark, survive a bad day.

    A leader dies by kill -9, a partition moves; at the end every record is accounted for.
    """
    kept = None if keep is None else empty_directory(keep)
    _need_client()
    if not without_spark:
        _need_spark()
        _check_report(report)
    if kept is not None:
        _perform(kept, None if without_spark else report)
        return
    with tempfile.TemporaryDirectory(prefix="insync-demo-") as directory:
        _perform(Path(directory), None if without_spark else report)


def _perform(directory: Path, report: Path | None) -> None:
    """Without a report, without Spark."""
    began = time.monotonic()
    directory.mkdir(parents=True, exist_ok=True)
    record = directory / "history.jsonl"
    console().print("\n[bold]insync[/bold]: three nodes, one stock client, one bad day")
    after = _aftermath(directory, report) if report else None
    with Cluster(brokers=3, topics={TOPIC: PARTITIONS}, directory=directory / "cluster") as cluster:
        load = Load(bootstrap=cluster.bootstrap, topic=TOPIC, partitions=PARTITIONS, rate=1_000, in_flight=2_000)
        with Workload(load, record) as workload:
            demo = Demo(cluster, workload, after, began)
            _up(demo)
            killed = _kill_the_leader(demo)
            _move(demo)
            demo.chapter("The account")
            verdict = workload.finish()
        demo.say("the clients have finished, and one more reader has read everything again")
        if after is not None:
            after.while_up(demo.say)
    if after is not None:
        after.when_stopped(demo.say)
    ok = verdict.ok and (after is None or after.ok)
    _summary(demo, verdict, _longest_pause(record, *killed), ok)
    if not ok:
        raise typer.Exit(1)


def _aftermath(directory: Path, report: Path) -> Aftermath:
    from insync.cli.demo_lake import Aftermath

    console().print("[dim]Spark comes up ...[/dim]")
    return Aftermath(open_session(None, "demo"), directory, TOPIC, report)


# --- the chapters ----------------------------------------------------------------------------------------------------


def _up(demo: Demo) -> None:
    demo.chapter("A cluster comes up")
    for node in demo.cluster.nodes.values():
        demo.say(f"node {node.id}: {' and '.join(node.roles)}, pid {node.pid}, port {node.port}")
    demo.say(f"topic {TOPIC}: {PARTITIONS} partitions, 3 replicas each, writes need 2 in sync")
    demo.workload.wait_for_acks(1)
    demo.say("[green]first write acknowledged on every partition[/green]")
    if demo.after is not None:
        demo.after.start(demo.cluster.bootstrap)
        demo.after.wait_for_rows()
        demo.say("[green]Spark archives the topic from now on[/green]")
    demo.load_goes_on()
    _show_partitions(demo)


def _kill_the_leader(demo: Demo) -> tuple[int, int]:
    """(partition that lost its leader, when)."""
    demo.chapter("kill -9 of a leader")
    victim = demo.cluster.leader_of(TOPIC)
    when = history_file.now()
    demo.cluster.kill(victim)
    demo.say(f"[red]node {victim}, leader of {TOPIC}-0, is dead[/red]")
    successor = demo.cluster.wait_for_leader(TOPIC, other_than=victim)
    demo.say(f"node {successor} leads {TOPIC}-0 now: it was in sync, so it has every acknowledged record")
    demo.load_goes_on()
    _show_partitions(demo)
    demo.cluster.start(victim)
    demo.say(f"node {victim} is started again, cuts off what nobody acknowledged, and catches up")
    for partition in range(PARTITIONS):
        demo.cluster.wait_for_isr(TOPIC, partition)
    demo.say("[green]all replicas are in sync[/green]")
    return 0, when


def _move(demo: Demo) -> None:
    demo.chapter("A partition moves")
    leaver = demo.cluster.leader_of(TOPIC, 1)
    rest = tuple(broker for broker in BROKERS if broker != leaver)
    _reassign(demo, rest)
    demo.cluster.wait_for_isr(TOPIC, 1, len(rest))
    demo.say(f"{TOPIC}-1 has left node {leaver}, its leader: node {demo.cluster.wait_for_leader(TOPIC, 1)} took over")
    demo.load_goes_on()
    _reassign(demo, (*rest, leaver))
    demo.cluster.wait_for_isr(TOPIC, 1, len(BROKERS))
    demo.say(f"and is back: node {leaver} copied all of it while writes went on")
    demo.load_goes_on()
    _show_partitions(demo)


def _reassign(demo: Demo, replicas: tuple[int, ...]) -> None:
    async def moved() -> None:
        async with Client.connect(demo.cluster.bootstrap, timeout_s=PATIENCE_S) as client:
            for code, message in (await admin.reassign(client, {(TOPIC, 1): replicas})).values():
                raise_for_error(code, f"moving {TOPIC}-1", message)
            while await admin.list_reassignments(client):
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(moved(), PATIENCE_S))


# --- what is shown ---------------------------------------------------------------------------------------------------


def _show_partitions(demo: Demo) -> None:
    async def described() -> list[tuple[object, ...]]:
        async with Client.connect(demo.cluster.bootstrap, timeout_s=PATIENCE_S) as client:
            (topic,) = await topics.describe(client, [TOPIC])
            return [(f"{TOPIC}-{p.index}", p.leader, p.leader_epoch, p.replicas, p.isr) for p in topic.partitions]

    rows = asyncio.run(described())
    _show(demo, ("partition", "leader", "epoch", "replicas", "in sync"), rows)


def _show(demo: Demo, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    demo.console.print(Padding(table(columns, rows), (1, 0, 1, 11)))


def _longest_pause(path: Path, partition: int, killed: int) -> float:
    """Seconds without an acknowledgement on the partition, from the kill on."""
    acks = [
        event.time
        for event in history_file.read(path)
        if event.kind == history_file.ACK and event.partition == partition and event.time >= killed
    ]
    times = [killed, *sorted(acks)]
    return max((after - before for before, after in itertools.pairwise(times)), default=0) / 1e9


def _summary(demo: Demo, verdict: Verdict, pause: float, ok: bool) -> None:
    count, after = verdict.count, demo.after
    rows: list[tuple[str, str]] = [
        ("records sent", f"{count(history_file.SEND):,}"),
        ("acknowledged", f"{count(history_file.ACK):,}"),
        ("refused", f"{count(history_file.FAIL):,}"),
        ("read by consumers", f"{count(history_file.READ):,}"),
        ("in the log at the end", f"{count(history_file.LOG):,}"),
        *(after.figures() if after else ()),
        ("longest pause of writes after kill -9", f"{pause * 1_000:,.0f} ms"),
        ("lost", f"{count('lost') + (after.missing if after else 0):,}"),
        ("duplicated", f"{count('duplicated') + (after.twice if after else 0):,}"),
        ("reordered", f"{count('reordered'):,}"),
        ("read and then gone or changed", f"{count('inconsistent') + count('stale'):,}"),
    ]
    _show(demo, ("the day in figures", ""), rows)
    for line in (*verdict.lines(), *(after.problems if after else ())):
        demo.console.print(f"  [red]{line}[/red]", soft_wrap=True)
    demo.say(f"{'[bold green]Nothing was lost' if ok else '[bold red]The cluster did not keep its word'}[/]")
    if after is not None:
        demo.say(f"what happened to whom, on a page: {after.report}")
    demo.console.print(
        "\n  your own cluster:  insync up    break one:  insync chaos    simulate one:  insync sim demo\n"
    )


def _need_client() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise failure("the demo writes with a stock client: pip install confluent-kafka") from None


def _check_report(report: Path) -> None:
    from insync.pipeline import outputs

    if report.exists():
        with checked():
            outputs.check_page("--report", report)


def _need_spark() -> None:
    try:
        import numba  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError:
        raise failure("the demo archives on Spark: pip install 'insync[spark]', or add --without-spark") from None
    need_java()
