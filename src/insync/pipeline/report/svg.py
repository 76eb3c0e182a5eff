"""Plots as inline SVG: shapes only, stretched to the width of the page. Text stays in HTML, so that it never shrinks.

Every plot is WIDTH units wide. Times are given as fractions of the width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

WIDTH = 1_000
PIECES = 400
"""That can be told apart in a lane: on a phone, a plot has no more pixels."""
SEVERITY = ("bad", "warn", "main", "good", "idle")
"""Kinds, most important first."""


class Bar(NamedTuple):
    """A part of a lane, in fractions of its width. `kind` is a class of the style sheet."""

    start: float
    end: float
    kind: str
    title: str


class Mark(NamedTuple):
    at: float
    kind: str
    title: str


def merge_short(bars: Iterable[Bar]) -> list[Bar]:
    """Merge neighbours that are too short to be seen into one bar, of the worst kind among them."""
    merged: list[Bar] = []
    short: list[Bar] = []
    for bar in sorted(bars):
        if bar.end - bar.start >= 1 / PIECES:
            merged += [*_merge(short), bar]
            short = []
            continue
        short.append(bar)
        if bar.end - short[0].start >= 1 / PIECES:
            merged += _merge(short)
            short = []
    return merged + _merge(short)


def _merge(bars: Sequence[Bar]) -> list[Bar]:
    if len(bars) < 2:
        return list(bars)
    worst = min(bars, key=lambda bar: SEVERITY.index(bar.kind))
    return [Bar(bars[0].start, bars[-1].end, worst.kind, f"{len(bars)} changes, among them: {worst.title}")]


def thin_out(marks: Iterable[Mark]) -> list[Mark]:
    """The worst of the marks at each place."""
    places: dict[int, list[Mark]] = {}
    for mark in marks:
        places.setdefault(int(mark.at * PIECES), []).append(mark)
    return [_worst(same) for same in places.values()]


def _worst(marks: Sequence[Mark]) -> Mark:
    worst = min(marks, key=lambda mark: SEVERITY.index(mark.kind))
    return worst if len(marks) == 1 else worst._replace(title=f"{len(marks)} at once, among them: {worst.title}")


def area(values: Sequence[float], kind: str, *, height: int = 60, limit: float | None = None) -> str:
    """A filled step curve over equal buckets, and a line at `limit`."""
    most = max([*values, 1, limit or 0])
    step = WIDTH / max(len(values), 1)
    points = []
    for i, value in enumerate(values):
        y = height - value / most * (height - 2)
        points += [f"{i * step:.1f},{y:.1f}", f"{(i + 1) * step:.1f},{y:.1f}"]
    path = f"M0,{height} L{' '.join(points)} L{WIDTH},{height} Z"
    line = ""
    if limit is not None:
        y = height - limit / most * (height - 2)
        line = f'<line class="mark bad" x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return _svg(f'<path class="{kind}" d="{path}"/>{line}', height)


def mirrored(above: Sequence[float], below: Sequence[float], *, kinds: tuple[str, str], height: int = 90) -> str:
    """Bars up and down from a line in the middle, on one scale."""
    most = max([*above, *below, 1])
    step = WIDTH / max(len(above), 1)
    middle = height / 2
    shapes = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{middle}" y2="{middle}"/>']
    for i, (up, down) in enumerate(zip(above, below, strict=True)):
        for value, kind, direction in ((up, kinds[0], -1), (down, kinds[1], 1)):
            if value:
                tall = max(value / most * (middle - 2), 1.5)
                top = middle - tall if direction < 0 else middle
                shapes.append(
                    f'<rect class="{kind}" x="{i * step:.1f}" y="{top:.1f}" width="{max(step * 0.9, 1.5):.1f}"'
                    f' height="{tall:.1f}"><title>{value:.0f}</title></rect>'
                )
    return _svg("".join(shapes), height)


def lane(bars: Iterable[Bar], marks: Iterable[Mark] = (), *, height: int = 22) -> str:
    shapes = []
    for bar in merge_short(bars):
        left, wide = bar.start * WIDTH, max((bar.end - bar.start) * WIDTH, 0.8)
        shapes.append(
            f'<rect class="{bar.kind}" x="{left:.1f}" y="3" width="{wide:.1f}" height="{height - 6}">'
            f"<title>{escape(bar.title)}</title></rect>"
        )
    for mark in thin_out(marks):
        x = min(max(mark.at * WIDTH, 1), WIDTH - 1)
        shapes.append(
            f'<line class="mark {mark.kind}" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}">'
            f"<title>{escape(mark.title)}</title></line>"
        )
    return _svg("".join(shapes), height)


def _svg(inside: str, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none" style="height:{height}px" role="img">'
        f"{inside}</svg>"
    )
