"""`insync top`: a live view of partitions, leaders, ISR, high watermarks and lag.

In a terminal the clock goes on while brokers are asked, and a broker that does not answer in time is named, so that the
view of a cluster that stands still does not look like a healthy one.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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
from insync.client.errors import ClientError, ErrorCode
from insync.client.model import NO_NODE, ClusterInfo, Topic, TopicPartition

ANSWER_S = 2.0
"""How long a frame waits for each broker."""
REFRESH_S = 0.25
"""How often the screen is drawn while nothing arrives."""
STALE_S = 3.0
"""A state this old is marked."""
STATES = ("no leader", "no answer", "under-replicated", "")
"""Worst first."""
HELP = "q quit  s sort  p problems only  up, down, space scroll"
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
    silent: tuple[int, ...] = ()
    """Brokers that are not fenced and did not answer in time."""


@dataclass(slots=True)
class Choices:
    """What the keys have chosen."""

    order: int = 0
    problems_only: bool = False
    skipped: int = 0
    """Lines scrolled past."""
    is_done: bool = False

    def press(self, key: str) -> None:
        if key == "q":
            self.is_done = True
        elif key == "s":
            self.order = (self.order + 1) % len(ORDERS)
        elif key == "p":
            self.problems_only, self.skipped = not self.problems_only, 0
        elif key in _SCROLL:
            self.skipped = max(0, self.skipped + _SCROLL[key])

    def select(self, lines: tuple[Line, ...]) -> list[Line]:
        chosen = sorted(lines, key=list(ORDERS.values())[self.order])
        return [line for line in chosen if line.state or not self.problems_only]


_SCROLL = {"\x1b[A": -1, "k": -1, "\x1b[B": 1, "j": 1, " ": 20, "\x1b[6~": 20, "b": -20, "\x1b[5~": -20}
ORDERS: dict[str, Callable[[Line], tuple[float, str, int]]] = {
    "problems": lambda line: (STATES.index(line.state), line.topic, line.partition),
    "name": lambda line: (0, line.topic, line.partition),
    "rate": lambda line: (-(line.rate or 0), line.topic, line.partition),
    "lag": lambda line: (-(line.lag or 0), line.topic, line.partition),
}


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
        if screen.is_terminal and not session.as_json:
            await _watch(view, screen, interval, frames)
            return
        shown = 0
        while not frames or shown < frames:
            if shown:
                await asyncio.sleep(interval)
            frame = await view.next()
            shown += 1
            if session.as_json:
                print_json([asdict(line) for line in frame.lines])
            else:
                screen.print(render(frame, screen, Choices()))

    session.run(work)


async def _watch(view: _View, screen: Console, interval: float, frames: int) -> None:
    """Draw frames as they arrive, and the last one with its age while the next is awaited."""
    loop = asyncio.get_running_loop()
    choices = Choices()
    frame = await view.next()
    taken, shown, trouble = loop.time(), 1, ""
    due = taken + interval
    taking: asyncio.Future[Frame] | None = None
    with _pressed_keys(choices.press), Live(console=screen, auto_refresh=False, transient=False) as live:
        while True:
            live.update(render(frame, screen, choices, age_s=loop.time() - taken, trouble=trouble), refresh=True)
            if choices.is_done or (frames and shown >= frames):
                break
            if taking is None and loop.time() >= due:
                taking = asyncio.ensure_future(view.next())
            await (asyncio.wait({taking}, timeout=REFRESH_S) if taking else asyncio.sleep(min(interval, REFRESH_S)))
            if taking is not None and taking.done():
                try:
                    frame, taken, shown, trouble = taking.result(), loop.time(), shown + 1, ""
                except ClientError as error:
                    trouble = str(error)
                taking, due = None, loop.time() + interval
        if taking is not None:
            taking.cancel()


@contextmanager
def _pressed_keys(press: Callable[[str], None]) -> Iterator[None]:
    """Call `press` for each key, without waiting for Enter; does nothing if the input is not a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    loop.add_reader(fd, lambda: press(os.read(fd, 16).decode(errors="replace")))
    try:
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


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
        ends = await _ends(self._client, shown, [b.id for b in info.brokers if not b.fenced])
        silent = tuple(broker for broker, answer in ends.items() if answer is None)
        answering = [_without_leaders(topic, silent) for topic in shown]
        marks = await offsets.list_leader_offsets(self._client, answering)
        now = asyncio.get_running_loop().time()
        seconds, self._at = now - self._at, now
        hwms = {key: mark.offset for key, mark in marks.items() if mark.error is ErrorCode.none}
        rates = {key: (hwm - self._before[key]) / seconds for key, hwm in hwms.items() if key in self._before}
        self._before = hwms
        known = {broker: answer for broker, answer in ends.items() if answer is not None}
        lines = _lines(shown, hwms, rates, known, silent)
        return Frame(info, tuple(sorted(lines, key=ORDERS["problems"])), silent)


async def _ends(client: Client, shown: list[Topic], brokers: list[int]) -> dict[int, dict[TopicPartition, int] | None]:
    """Log end offsets of leaders and followers, by broker; None if a broker does not answer in time."""
    hosted = {b: [(t.name, p.index) for t in shown for p in t.partitions if b in p.replicas] for b in brokers}

    async def ask(broker: int) -> dict[TopicPartition, int] | None:
        try:
            answer = await asyncio.wait_for(offsets.list_log_ends(client, broker, hosted[broker]), ANSWER_S)
        except TimeoutError:
            return None
        return {key: end.offset for key, end in answer.items() if end.error is ErrorCode.none}

    return dict(zip(brokers, await asyncio.gather(*map(ask, brokers)), strict=True))


def _without_leaders(topic: Topic, brokers: tuple[int, ...]) -> Topic:
    """Without the partitions that these brokers lead."""
    return replace(topic, partitions=tuple(p for p in topic.partitions if p.leader not in brokers))


def _lines(
    shown: list[Topic],
    hwms: dict[TopicPartition, int],
    rates: dict[TopicPartition, float],
    ends: dict[int, dict[TopicPartition, int]],
    silent: tuple[int, ...],
) -> list[Line]:
    lines = []
    for topic in shown:
        for p in topic.partitions:
            key = (topic.name, p.index)
            end, hwm = ends.get(p.leader, {}).get(key), hwms.get(key)
            known = [ends[b][key] for b in p.replicas if key in ends.get(b, {})]
            is_short = len(p.isr) < len(p.replicas)
            state = "no leader" if p.leader == NO_NODE else "no answer" if p.leader in silent else ""
            state = state or ("under-replicated" if is_short else "")
            lines.append(
                Line(
                    topic.name, p.index, p.leader, p.leader_epoch, p.replicas, p.isr, p.elr or (), hwm, rates.get(key),
                    None if end is None or hwm is None else max(0, end - hwm),
                    None if end is None else max(0, end - min(known)), state,
                )
            )  # fmt: skip
    return lines


def render(frame: Frame, screen: Console, choices: Choices, *, age_s: float = 0.0, trouble: str = "") -> RenderableType:
    """As many lines as fit on the screen, and a count of the rest."""
    lines = choices.select(frame.lines)
    room = max(5, screen.height - 9) if screen.is_terminal else len(lines)
    skipped = min(choices.skipped, max(0, len(lines) - room))
    rows = [_row(line) for line in lines[skipped : skipped + room]]
    hidden = len(lines) - len(rows)
    parts: list[RenderableType] = [_head(frame, age_s, trouble), table(COLUMNS, rows)]
    if hidden:
        parts.append(Text(f"and {hidden} more"))
    if screen.is_terminal:
        parts.append(Text(f"by {list(ORDERS)[choices.order]}   {HELP}", style="dim"))
    return Group(*parts)


def _head(frame: Frame, age_s: float, trouble: str) -> Text:
    info = frame.info
    fenced = [broker.id for broker in info.brokers if broker.fenced]
    live = [broker.id for broker in info.brokers if not broker.fenced and broker.id not in frame.silent]
    head = Text(f"{time.strftime('%H:%M:%S')}  brokers {text(live)}")
    head.append(f"  fenced {text(fenced)}" if fenced else "", style="yellow")
    head.append(f"  no answer from {text(list(frame.silent))}" if frame.silent else "", style="bold red")
    head.append(f"  cluster {info.cluster_id}")
    if age_s > STALE_S:
        head.append(f"\nthe cluster has not answered for {age_s:.0f} s", style="bold red")
    if trouble:
        head.append(f"\n{trouble}", style="bold red")
    return head


def _row(line: Line) -> list[object]:
    rate = None if line.rate is None else f"{line.rate:.0f}"
    leader = None if line.leader == NO_NODE else line.leader
    return [
        f"{line.topic}-{line.partition}", leader, line.leader_epoch, line.replicas, line.isr, line.elr, line.hwm, rate,
        line.uncommitted, line.lag, line.state or " ",
    ]  # fmt: skip
