"""What a pipeline tells of its progress, as a bar per thing that is being done: on stderr, so that stdout has the
results alone."""

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

Tell = Callable[[str, int, int], None]


def bar(*, quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet,
    )


@contextmanager
def progress(*, quiet: bool) -> Iterator[Tell]:
    """Gives a function that is told (what, done, total). Who is told nothing shows nothing, not even an empty line."""
    tasks: dict[str, TaskID] = {}
    shown = bar(quiet=quiet)

    def tell(what: str, done: int, total: int) -> None:
        shown.start()
        if what not in tasks:
            tasks[what] = shown.add_task(what, total=total or None, told="")
        shown.update(tasks[what], completed=done, total=total or None)

    try:
        yield tell
    finally:
        if shown.live.is_started:
            shown.stop()
