"""Progress bars of the pipelines, on stderr: stdout carries the results only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

OnProgress = Callable[[str, int, int], None]


def make_bar(*, quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet,
    )


@contextmanager
def progress_bars(*, quiet: bool) -> Iterator[OnProgress]:
    """Yields a callback for (what, done, total): a bar for each `what`. Prints nothing until it is called."""
    tasks: dict[str, TaskID] = {}
    bars = make_bar(quiet=quiet)

    def on_progress(what: str, done: int, total: int) -> None:
        bars.start()
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total or None, unit="")
        bars.update(tasks[what], completed=done, total=total or None)

    try:
        yield on_progress
    finally:
        if bars.live.is_started:
            bars.stop()
