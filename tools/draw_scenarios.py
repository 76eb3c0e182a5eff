"""Draws the scenarios that the protocol's chapters explain, as SVG files in docs/images/scenarios.

    python tools/draw_scenarios.py            write the pictures
    python tools/draw_scenarios.py --check    fail if one differs from what its scenario does now

A scenario is divided by its comments: each comment and the steps below it become a frame, which shows every replica's
log after these steps. Records have the colour of their leader epoch; those above the high watermark are pale, and those
that the leader's log does not have are struck through. The log of a broker that is down is drawn as it was last seen.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from insync.sim.narration.narrator import newest_partition
from insync.sim.narration.views import PartitionView, RecordView, ReplicaView, snapshot_partition
from insync.sim.scenario.library import read_scenario
from insync.sim.scenario.player import Player

TARGET = Path(__file__).parents[1] / "docs" / "images" / "scenarios"
DRAWN = {
    "divergence_a": "04-fetching-and-divergence",
    "divergence_b": "04-fetching-and-divergence",
    "divergence_c": "04-fetching-and-divergence",
    "divergence_d": "04-fetching-and-divergence",
    "divergence_e": "04-fetching-and-divergence",
    "divergence_f": "04-fetching-and-divergence",
    "divergence_g": "04-fetching-and-divergence",
    "maximal_isr": "06-isr-and-alter-partition",
    "elr_recovery": "07-elections-elr-recovery",
    "balanced_recovery_after_power_loss": "07-elections-elr-recovery",
    "moving_one_replica": "08-reassignment",
    "cancel_reassignment": "08-reassignment",
}
"""Scenarios, and the chapter of docs/protocol that shows each."""
PARTITION = "t-0"
WIDTH = 760
CAPTION_CHARACTERS = 104
LINE, LANE, CELL = 18, 30, 34
LANE_LEFT = 340
EPOCHS = 6
STYLE = """
text { font: 13px ui-monospace, monospace; fill: #1f2328 }
.caption { font-family: system-ui, sans-serif; font-size: 14px }
.metadata { fill: #57606a }
.record { stroke: #57606a; stroke-width: 1 }
.hwm { stroke: #cf222e; stroke-width: 3 }
.strike { stroke: #cf222e; stroke-width: 2 }
.gone { opacity: 0.45 }
.pale { opacity: 0.6 }
.e0 { fill: #cfe2f3 } .e1 { fill: #d9ead3 } .e2 { fill: #fff2cc }
.e3 { fill: #f4cccc } .e4 { fill: #d9d2e9 } .e5 { fill: #fce5cd }
.value { fill: #1f2328 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .metadata { fill: #9198a1 } .value { fill: #1f2328 }
}
"""


@dataclass(frozen=True, slots=True)
class Frame:
    caption: str
    view: PartitionView | None
    """None: before the partition exists."""


def list_frames(text: str) -> list[Frame]:
    """The caption of each part of a scenario, and the partition after its last step."""
    frames: list[Frame] = []
    known: dict[int, ReplicaView] = {}
    player = Player()
    try:
        for caption, steps in divide(text):
            view = None
            for step in steps:
                player.play_line(step)
                view = _snapshot(player, known)
                if view is not None:
                    known |= {broker: replica for broker, replica in view.by_broker.items() if replica.role != "down"}
            frames.append(Frame(caption, view))
    finally:
        player.context.close()
    return frames


def divide(text: str) -> Iterator[tuple[str, list[str]]]:
    caption: list[str] = []
    steps: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            if steps:
                yield " ".join(caption), steps
                caption, steps = [], []
            caption.append(line.removeprefix("#").strip())
        elif line:
            steps.append(line)
    yield " ".join(caption), steps


def _snapshot(player: Player, known: dict[int, ReplicaView]) -> PartitionView | None:
    if not player.context.built:
        return None
    world = player.context.world
    partition = newest_partition(world.cluster, PARTITION)
    if partition is None:
        return None
    view = snapshot_partition(world.cluster, partition, 0)
    replicas = {
        broker: replace(replica, records=known[broker].records, hwm=known[broker].hwm)
        if replica.role == "down" and broker in known
        else replica
        for broker, replica in view.by_broker.items()
    }
    return replace(view, by_broker=replicas)


def draw(frames: Sequence[Frame], title: str) -> str:
    parts: list[str] = []
    top = 0
    for number, frame in enumerate(frames, 1):
        for line in textwrap.wrap(f"{number}. {frame.caption}", CAPTION_CHARACTERS):
            top += LINE
            parts.append(_text(8, top, line, "caption"))
        if frame.view is not None:
            top += LINE
            parts.append(_text(24, top, _describe(frame.view), "metadata"))
            top += 6
            for _, replica in sorted(frame.view.by_broker.items()):
                parts += _draw_lane(frame.view, replica, top)
                top += LANE
        top += LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        f'role="img"><title>{escape(title)}</title><style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _describe(view: PartitionView) -> str:
    sets = [("ISR", view.isr), ("ELR", view.elr), ("last-known ELR", view.last_known_elr)]
    sets += [("adding", view.adding), ("removing", view.removing)]
    shown = [f"{name} {list(brokers)}" for name, brokers in sets if brokers or name == "ISR"]
    leader = "none" if view.leader is None else view.leader
    return f"leader {leader}, leader epoch {view.leader_epoch}, {', '.join(shown)}"


def _draw_lane(view: PartitionView, replica: ReplicaView, top: int) -> Iterator[str]:
    leader_log = _leader_log(view)
    base = top + 20
    role = f"{replica.role}, paused" if replica.paused else replica.role
    waits = ""
    if replica.maximal_isr is not None and replica.maximal_isr != replica.isr:
        waits = f", waits for {list(replica.maximal_isr)}"
    yield '<g class="gone">' if replica.role == "down" else "<g>"
    yield _text(24, base, f"broker {replica.broker}: {role}{waits}")
    for record in replica.records:
        left = LANE_LEFT + record.offset * CELL
        yield from _draw_record(record, replica, leader_log, left, top)
    yield "</g>"


def _draw_record(
    record: RecordView, replica: ReplicaView, leader_log: dict[int, RecordView] | None, left: int, top: int
) -> Iterator[str]:
    is_committed = replica.hwm is not None and record.offset < replica.hwm
    style = f"record e{record.leader_epoch % EPOCHS}" + ("" if is_committed else " pale")
    yield f'<rect class="{style}" x="{left}" y="{top + 3}" width="{CELL - 2}" height="24"/>'
    yield _text(left + 12, top + 20, record.text, "value")
    if leader_log is not None and leader_log.get(record.offset) != record:
        yield _line("strike", left + 3, top + 15, left + CELL - 5, top + 15)
    if is_committed and replica.hwm == record.offset + 1:
        yield _line("hwm", left + CELL - 2, top + 1, left + CELL - 2, top + 29)


def _leader_log(view: PartitionView) -> dict[int, RecordView] | None:
    """By offset; None if there is no leader, or it is down."""
    if view.leader is None or view.replica(view.leader).role == "down":
        return None
    return {record.offset: record for record in view.replica(view.leader).records}


def _text(x: int, y: int, text: str, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{attribute}>{escape(text)}</text>'


def _line(style: str, x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line class="{style}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the scenarios of the protocol's chapters.")
    parser.add_argument("--check", action="store_true", help="fail if a picture differs from its scenario")
    check = parser.parse_args().check
    TARGET.mkdir(parents=True, exist_ok=True)
    differing = []
    for name in DRAWN:
        picture = draw(list_frames(read_scenario(name)), name.replace("_", " "))
        path = TARGET / f"{name}.svg"
        if not path.exists() or path.read_text(encoding="utf-8") != picture:
            differing.append(name)
            if not check:
                path.write_text(picture, encoding="utf-8")
    if check and differing:
        print(f"differ from their scenarios: {', '.join(differing)}; python tools/draw_scenarios.py draws them")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
