"""`insync sim demo`: a cluster lives through a bad day, told in chapters.

Three brokers and three controllers run in the simulator, with the very code that runs in production, and every safety
property is checked after each of their steps. The chapters are scenario steps; what is printed is what happened.
"""

from __future__ import annotations

import typer
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from insync.cli.sim_demo_chapters import CHAPTERS, TOLD, Chapter
from insync.properties import SAFETY
from insync.sim.driver import FIRST_CONTROLLER, ObservedEvent
from insync.sim.narration import picture
from insync.sim.scenario.context import ScenarioContext
from insync.sim.scenario.player import Player

PARTITION = "orders-0"
WIDTH = 100


def demo() -> None:
    """Watch a simulated cluster lose its leader, split in two, and come out whole."""
    console = Console(width=min(WIDTH, Console().width), highlight=False)
    player = Player()
    console.print("\n[bold]insync[/bold]: a replicated log on a bad day, in eight chapters")
    console.print("[dim]3 brokers (1-3) and 3 controllers (101-103), simulated; times are milliseconds[/dim]\n")
    player.play_line("cluster brokers=3 controllers=3")
    for number, chapter in enumerate(CHAPTERS, 1):
        _perform(console, player, number, chapter)
        if player.context.failed:
            break
    player.finish()
    _summary(console, player.context)
    if player.context.failed:
        raise typer.Exit(1)


def _perform(console: Console, player: Player, number: int, chapter: Chapter) -> None:
    context = player.context
    before = len(context.driver.observed)
    for step in chapter.steps.splitlines():
        player.play_line(step.strip())
        if context.failed:
            console.print("\n".join(context.out[-10:]), style="red", markup=False)
            return
    console.print(Rule(f"[bold]{number}. {chapter.title}[/bold]", align="left", style="cyan"))
    console.print(Padding(Text(chapter.words), (0, 2)))
    for line in _events(context.driver.observed[before:]):
        console.print(line)
    console.print(Padding(_title(context), (1, 0, 0, 2)))
    console.print(Padding(_table(context), (0, 0, 1, 2)))


# --- what happened ---------------------------------------------------------------------------------------------------


def _events(happened: list[ObservedEvent]) -> list[Text]:
    lines = []
    for event in happened:
        what = _plain_words(event)
        if what:
            line = Text().append(f"  {event.time_ms:>6}  ", style="dim")
            lines.append(line.append(f"{_who(event):<16}", style="cyan").append(what))
    return lines


def _plain_words(event: ObservedEvent) -> str:
    note = event.note
    if note is None:
        return event.text
    template = TOLD.get(note.kind, "")
    fields = {name: _value(value) for name, value in note.fields.items()}
    return template.format_map(fields)


def _who(event: ObservedEvent) -> str:
    name, _, number = event.source.partition(" ")
    if name != "node":
        return name
    return f"controller {number}" if int(number) >= FIRST_CONTROLLER else f"broker {number}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return picture.members(value) if isinstance(value, tuple) else str(value)


# --- where every replica stands --------------------------------------------------------------------------------------


def _table(context: ScenarioContext) -> Table:
    partition = context.partition(PARTITION)
    truth = dict(_log(context, partition.leader))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("broker", "role", "in sync"):
        table.add_column(heading)
    for heading in ("epoch", "LEO", "HWM"):
        table.add_column(heading, justify="right")
    table.add_column("log")
    for replica in picture.replica_pictures(context.world.cluster, partition):
        member = replica.broker in partition.isr
        table.add_row(
            str(replica.broker),
            _role(replica, partition.leader),
            Text("in ISR", style="green") if member else Text("out", style="red"),
            replica.epoch,
            replica.leo,
            replica.hwm,
            _drawn(context, replica, truth),
        )
    return table


def _title(context: ScenarioContext) -> Text:
    partition = context.partition(PARTITION)
    title = Text(f"{PARTITION}  leader {picture.leader_name(partition)}, epoch {partition.leader_epoch}, ISR ")
    return title.append(picture.members(partition.isr), style="green")


def _role(replica: picture.ReplicaPicture, leader: int) -> Text:
    if replica.role == "leader":
        return Text("leader", style="bold") if replica.broker == leader else Text("zombie leader", style="bold red")
    return Text(replica.role, style="red" if replica.role == "down" else "")


def _drawn(context: ScenarioContext, replica: picture.ReplicaPicture, truth: dict[int, str]) -> Text:
    """The records: committed ones plain, others dim; what differs from the leader's log stands out."""
    drawn = Text()
    for offset, value in _log(context, replica.broker):
        style = "bold red" if truth.get(offset, value) != value else "" if offset < int(replica.hwm) else "dim"
        drawn.append(f"{value} ", style=style)
    return drawn


def _log(context: ScenarioContext, broker: int) -> list[tuple[int, str]]:
    partition = context.partition(PARTITION)
    records = picture.log_records(context.world.cluster, partition, broker) or []
    return [(offset, value) for offset, value, _ in records]


# --- the end ---------------------------------------------------------------------------------------------------------


def _summary(console: Console, context: ScenarioContext) -> None:
    acknowledged = _acknowledged(context)
    logs = [[value for _, value in _log(context, broker)] for broker in context.partition(PARTITION).replicas]
    lost = [value for value in acknowledged if not all(value in log for log in logs)]
    console.print(Rule(style="cyan"))
    console.print(f"  {len(acknowledged)} records acknowledged, {len(lost)} lost", style="bold red" if lost else "bold")
    steps = f"{context.world.trace.steps:,} steps"
    if context.failed:
        console.print(f"  FAILED after {steps}", style="bold red")
    else:
        console.print(f"  properties {SAFETY[0].id}..{SAFETY[-1].id} held after each of {steps}", style="bold green")
    console.print(
        "\n  break it yourself:  insync sim scenario FILE    insync sim run    insync sim mutants\n", style="dim"
    )


def _acknowledged(context: ScenarioContext) -> list[str]:
    return [
        value.decode()
        for label, sent in context.batches.items()
        if context.answers.get(label) == "none"
        for value in sent.values
    ]
