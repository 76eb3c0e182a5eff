"""What `insync top` shows: order, keys, brokers that do not answer, and how old the state is."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace

import pytest
from rich.console import Console

from insync.cli import top
from insync.cli.top import Choices, Frame, Line, render
from insync.client import offsets
from insync.client.errors import ClientError
from insync.client.model import Broker, ClusterInfo, Offset, Partition, Topic

HEALTHY = Line("orders", 0, 1, 0, (1, 2), (1, 2), (), 5, 10.0, 0, 0, "")
LAGGING = replace(HEALTHY, topic="logs", partition=1, rate=2.0, lag=7, state="under-replicated")
SILENT = replace(HEALTHY, partition=2, leader=2, hwm=None, rate=None, lag=None, state="no answer")
BROKERS = tuple(Broker(id=number, host="h", port=number, fenced=number == 3) for number in (1, 2, 3))
FRAME = Frame(
    ClusterInfo(cluster_id="id", controller=1, brokers=BROKERS, includes_fenced=True), (HEALTHY, LAGGING, SILENT), (2,)
)


def draw(frame: Frame, choices: Choices, *, height: int = 40, **state: object) -> str:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, height=height, color_system=None)
    screen.print(render(frame, screen, choices, **state))  # type: ignore[arg-type]
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def partitions(choices: Choices) -> list[str]:
    return [f"{line.topic}-{line.partition}" for line in choices.select(FRAME.lines)]


def test_the_worst_partitions_come_first() -> None:
    assert partitions(Choices()) == ["orders-2", "logs-1", "orders-0"]


def test_s_changes_the_order_and_p_hides_what_is_healthy() -> None:
    choices, orders = Choices(), []
    for _ in range(5):
        orders.append(partitions(choices))
        choices.press("s")
    assert orders[1:4] == [
        ["logs-1", "orders-0", "orders-2"],
        ["orders-0", "logs-1", "orders-2"],
        ["logs-1", "orders-0", "orders-2"],
    ]
    assert orders[4] == orders[0]
    choices = Choices()
    choices.press("p")
    assert partitions(choices) == ["orders-2", "logs-1"]


def test_scrolling_ends_at_both_ends() -> None:
    many = replace(FRAME, lines=tuple(replace(HEALTHY, partition=number) for number in range(50)))
    choices = Choices()
    choices.press("\x1b[A")
    assert "orders-0 " in draw(many, choices, height=20)
    for _ in range(5):
        choices.press(" ")
    drawn = draw(many, choices, height=20)
    assert "orders-49 " in drawn
    assert "and 39 more" in drawn
    choices.press("x")
    assert not choices.is_done
    choices.press("q")
    assert choices.is_done


def test_brokers_that_do_not_answer_are_named_and_an_old_state_is_marked() -> None:
    drawn = draw(FRAME, Choices(), age_s=4.4, trouble="no broker answers")
    assert "brokers 1  fenced 3  no answer from 2  cluster id" in drawn
    assert "the cluster has not answered for 4 s" in drawn
    assert "no broker answers" in drawn
    assert "has not answered" not in draw(FRAME, Choices(), age_s=1.0)


def test_the_screen_goes_on_while_the_cluster_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second frame takes long, the third fails, and the fourth is the last."""
    monkeypatch.setattr(top, "REFRESH_S", 0.01)
    drawn: list[tuple[float, str]] = []

    def note(frame: Frame, _: Console, choices: Choices, *, age_s: float, trouble: str) -> str:
        drawn.append((age_s, trouble))
        return ""

    class View:
        taken = 0

        async def next(self) -> Frame:
            self.taken += 1
            if self.taken == 2:
                await asyncio.sleep(0.1)
            if self.taken == 3:
                raise ClientError("gone")
            return FRAME

    monkeypatch.setattr(top, "render", note)
    screen = Console(file=io.StringIO(), force_terminal=True)
    asyncio.run(top._watch(View(), screen, 0.0, 3))  # type: ignore[arg-type]
    assert len(drawn) > 5
    assert max(age for age, _ in drawn) >= 0.09
    assert {trouble for _, trouble in drawn} == {"", "gone"}
    assert drawn[-1][1] == ""


def test_a_broker_that_does_not_answer_in_time_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_log_ends(_: object, broker: int, keys: list[tuple[str, int]]) -> dict[tuple[str, int], Offset]:
        if broker == 2:
            await asyncio.sleep(60)
        return {key: Offset(7) for key in keys}

    monkeypatch.setattr(top, "ANSWER_S", 0.02)
    monkeypatch.setattr(offsets, "list_log_ends", list_log_ends)
    members = {"leader_epoch": 0, "replicas": (1, 2), "isr": (1, 2)}
    led_by = [Partition(index=number, leader=number + 1, **members) for number in (0, 1)]  # type: ignore[arg-type]
    topic = Topic(name="t", partitions=tuple(led_by))
    ends = asyncio.run(top._ends(None, [topic], [1, 2]))  # type: ignore[arg-type]
    assert ends == {1: {("t", 0): 7, ("t", 1): 7}, 2: None}
    lines = top._lines([topic], {("t", 0): 7}, {}, {1: {("t", 0): 7, ("t", 1): 7}}, (2,))
    assert [line.state for line in lines] == ["", "no answer"]
    assert top._without_leaders(topic, (2,)).partitions == (led_by[0],)
