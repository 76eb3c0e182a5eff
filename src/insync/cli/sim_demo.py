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
from insync.sim.narration import picture
from insync.sim.scenario.client_steps import SentBatch
from insync.sim.scenario.player import Player
from insync.sim.scenario.stage import FIRST_CONTROLLER, ObservedEvent, Stage

PARTITION = "orders-0"
WIDTH = 100


def demo() -> None:
    """Watch a simulated cluster lose its leader, split in two, and come out whole."""
    console = Console(width=min(WIDTH, Console().width), highlight=False)
    player = Player()
    console.print("\n[bold]insync[/bold]: a replicated log on a bad day, in eight chapters")
    console.print("[dim]3 brokers (1-3) and 3 controllers (101-103), simulated; times are milliseconds[/dim]\n")
    player.step("cluster brokers=3 controllers=3")
    for number, chapter in enumerate(CHAPTERS, 1):
        _perform(console, player, number, chapter)
        if player.stage.failed:
            break
    player.finish()
    _summary(console, player.stage)
    if player.stage.failed:
        raise typer.Exit(1)


def _perform(console: Console, player: Player, number: int, chapter: Chapter) -> None:
    stage = player.stage
    before = len(stage.observed)
    for step in chapter.steps.splitlines():
        player.line(step.strip())
        if stage.failed:
            console.print("\n".join(stage.out[-10:]), style="red", markup=False)
            return
    console.print(Rule(f"[bold]{number}. {chapter.title}[/bold]", align="left", style="cyan"))
    console.print(Padding(Text(chapter.words), (0, 2)))
    for line in _events(stage.observed[before:]):
        console.print(line)
    console.print(Padding(_title(stage), (1, 0, 0, 2)))
    console.print(Padding(_table(stage), (0, 0, 1, 2)))


# --- what happened ---------------------------------------------------------------------------------------------------


def _events(happened: list[ObservedEvent]) -> list[Text]:
    lines = []
    for happening in happened:
        what = _plain_words(happening)
        if what:
            line = Text().append(f"  {happening.time_ms:>6}  ", style="dim")
            lines.append(line.append(f"{_who(happening):<16}", style="cyan").append(what))
    return lines


def _plain_words(happening: ObservedEvent) -> str:
    note = happening.note
    if note is None:
        return happening.what
    template = TOLD.get(note.kind, "")
    fields = {name: _value(value) for name, value in note.fields.items()}
    return template.format_map(fields)


def _who(happening: ObservedEvent) -> str:
    name, _, number = happening.who.partition(" ")
    if name != "node":
        return name
    return f"controller {number}" if int(number) >= FIRST_CONTROLLER else f"broker {number}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return picture.members(value) if isinstance(value, tuple) else str(value)


# --- where every replica stands --------------------------------------------------------------------------------------


def _table(stage: Stage) -> Table:
    partition = stage.partition(PARTITION)
    truth = dict(_log(stage, partition.leader))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("broker", "role", "in sync"):
        table.add_column(heading)
    for heading in ("epoch", "LEO", "HWM"):
        table.add_column(heading, justify="right")
    table.add_column("log")
    for replica in picture.replica_pictures(stage.world.cluster, partition):
        member = replica.broker in partition.isr
        table.add_row(
            str(replica.broker),
            _role(replica, partition.leader),
            Text("in ISR", style="green") if member else Text("out", style="red"),
            replica.epoch,
            replica.leo,
            replica.hwm,
            _drawn(stage, replica, truth),
        )
    return table


def _title(stage: Stage) -> Text:
    partition = stage.partition(PARTITION)
    title = Text(f"{PARTITION}  leader {picture.leader_name(partition)}, epoch {partition.leader_epoch}, ISR ")
    return title.append(picture.members(partition.isr), style="green")


def _role(replica: picture.ReplicaPicture, leader: int) -> Text:
    if replica.role == "leader":
        return Text("leader", style="bold") if replica.broker == leader else Text("zombie leader", style="bold red")
    return Text(replica.role, style="red" if replica.role == "down" else "")


def _drawn(stage: Stage, replica: picture.ReplicaPicture, truth: dict[int, str]) -> Text:
    """The records: committed ones plain, others dim; what differs from the leader's log stands out."""
    drawn = Text()
    for offset, value in _log(stage, replica.broker):
        style = "bold red" if truth.get(offset, value) != value else "" if offset < int(replica.hwm) else "dim"
        drawn.append(f"{value} ", style=style)
    return drawn


def _log(stage: Stage, broker: int) -> list[tuple[int, str]]:
    partition = stage.partition(PARTITION)
    records = picture.log_records(stage.world.cluster, partition, broker) or []
    return [(offset, value) for offset, value, _ in records]


# --- the end ---------------------------------------------------------------------------------------------------------


def _summary(console: Console, stage: Stage) -> None:
    acknowledged = _acknowledged(stage)
    logs = [[value for _, value in _log(stage, broker)] for broker in stage.partition(PARTITION).replicas]
    lost = [value for value in acknowledged if not all(value in log for log in logs)]
    console.print(Rule(style="cyan"))
    console.print(f"  {len(acknowledged)} records acknowledged, {len(lost)} lost", style="bold red" if lost else "bold")
    steps = f"{stage.world.trace.steps:,} steps"
    if stage.failed:
        console.print(f"  FAILED after {steps}", style="bold red")
    else:
        console.print(f"  properties {SAFETY[0].id}..{SAFETY[-1].id} held after each of {steps}", style="bold green")
    console.print(
        "\n  break it yourself:  insync sim scenario FILE    insync sim run    insync sim mutants\n", style="dim"
    )


def _acknowledged(stage: Stage) -> list[str]:
    batches: list[SentBatch] = list(stage.batches.values())
    return [value for sent in batches if stage.answers.get(sent.label) == "none" for value in sent.text.split()]
