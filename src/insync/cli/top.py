"""`insync top`: a live view of partitions, leaders, ISR, high watermarks and lag."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from insync.cli.completion import complete_topics
from insync.cli.options import Interval
from insync.cli.output import console, print_json, table, text
from insync.cli.session import Session
from insync.client import offsets, topics
from insync.client.client import Client
from insync.client.errors import ErrorCode
from insync.client.model import NO_NODE, ClusterInfo, Topic, TopicPartition

COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "elr", "hwm", "rec/s", "open", "lag", "")


@dataclass(frozen=True, slots=True)
class Line:
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    hwm: int | None
    rate: float | None
    uncommitted: int | None
    """Records above the high watermark."""
    lag: int | None
    """Records that the slowest replica is behind the leader."""
    state: str


@dataclass(frozen=True, slots=True)
class Frame:
    info: ClusterInfo
    lines: tuple[Line, ...]


def top(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; default: all.", autocompletion=complete_topics)
    ] = None,
    interval: Interval = 1.0,
    frames: Annotated[int, typer.Option("--frames", min=0, metavar="N", help="Stop after N frames; 0: on Ctrl-C.")] = 0,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    *,
    session: Session,
) -> None:
    """Watch a cluster. Partitions with problems come first. With --json, prints one object per frame."""
    screen = console()

    async def work(client: Client) -> None:
        view = _View(client, names or None, internal or bool(names))
        with Live(console=screen, auto_refresh=False, screen=False, transient=False) as live:
            shown = 0
            while not frames or shown < frames:
                if shown:
                    await asyncio.sleep(interval)
                frame = await view.next()
                shown += 1
                if session.as_json:
                    print_json([asdict(line) for line in frame.lines])
                elif screen.is_terminal:
                    live.update(render(frame, screen), refresh=True)
                else:
                    screen.print(render(frame, screen))

    session.run(work)


class _View:
    """Takes frames; remembers the last high watermarks to compute rates."""

    def __init__(self, client: Client, names: list[str] | None, internal: bool) -> None:
        self._client = client
        self.names = names
        self.internal = internal
        self._before: dict[TopicPartition, int] = {}
        self._at = 0.0

    async def next(self) -> Frame:
        """Retries during a failover: a view outlives the brokers it asks."""
        return await self._client.retry(self._take_frame)

    async def _take_frame(self) -> Frame:
        described = await topics.describe(self._client, self.names)
        shown = [topic for topic in described if self.internal or not topic.internal]
        info = await self._client.describe_cluster()
        marks = await offsets.list_leader_offsets(self._client, shown)
        ends = await _ends(self._client, shown, [b.id for b in info.brokers if not b.fenced])
        now = asyncio.get_running_loop().time()
        seconds, self._at = now - self._at, now
        hwms = {key: mark.offset for key, mark in marks.items() if mark.error is ErrorCode.none}
        rates = {key: (hwm - self._before[key]) / seconds for key, hwm in hwms.items() if key in self._before}
        self._before = hwms
        return Frame(info, tuple(sorted(_lines(shown, hwms, rates, ends), key=_order)))


async def _ends(client: Client, shown: list[Topic], brokers: list[int]) -> dict[int, dict[TopicPartition, int]]:
    """Log end offsets of leaders and followers, by broker."""
    hosted = {b: [(t.name, p.index) for t in shown for p in t.partitions if b in p.replicas] for b in brokers}
    answers = await asyncio.gather(*(offsets.list_log_ends(client, b, hosted[b]) for b in brokers))
    return {
        broker: {key: end.offset for key, end in answer.items() if end.error is ErrorCode.none}
        for broker, answer in zip(brokers, answers, strict=True)
    }


def _lines(
    shown: list[Topic],
    hwms: dict[TopicPartition, int],
    rates: dict[TopicPartition, float],
    ends: dict[int, dict[TopicPartition, int]],
) -> list[Line]:
    lines = []
    for topic in shown:
        for p in topic.partitions:
            key = (topic.name, p.index)
            end, hwm = ends.get(p.leader, {}).get(key), hwms.get(key)
            known = [ends[b][key] for b in p.replicas if key in ends.get(b, {})]
            state = "no leader" if p.leader == NO_NODE else "under-replicated" if len(p.isr) < len(p.replicas) else ""
            lines.append(
                Line(
                    topic.name, p.index, p.leader, p.leader_epoch, p.replicas, p.isr, p.elr or (), hwm, rates.get(key),
                    None if end is None or hwm is None else max(0, end - hwm),
                    None if end is None else max(0, end - min(known)), state,
                )
            )  # fmt: skip
    return lines


def _order(line: Line) -> tuple[int, str, int]:
    return ("no leader", "under-replicated", "").index(line.state), line.topic, line.partition


def render(frame: Frame, screen: Console) -> RenderableType:
    """As many lines as fit on the screen, and a count of the rest."""
    info = frame.info
    live = [b.id for b in info.brokers if not b.fenced]
    fenced = [b.id for b in info.brokers if b.fenced]
    head = f"brokers {text(live)}" + (f"  fenced {text(fenced)}" if fenced else "") + f"  cluster {info.cluster_id}"
    room = max(5, screen.height - 7) if screen.is_terminal else len(frame.lines)
    rows = [_row(line) for line in frame.lines[:room]]
    hidden = len(frame.lines) - len(rows)
    return Group(Text(head), table(COLUMNS, rows), Text(f"and {hidden} more" if hidden else ""))


def _row(line: Line) -> list[object]:
    rate = None if line.rate is None else f"{line.rate:.0f}"
    leader = None if line.leader == NO_NODE else line.leader
    return [
        f"{line.topic}-{line.partition}", leader, line.leader_epoch, line.replicas, line.isr, line.elr, line.hwm, rate,
        line.uncommitted, line.lag, line.state or " ",
    ]  # fmt: skip
