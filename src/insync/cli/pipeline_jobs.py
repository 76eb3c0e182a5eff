"""Jobs that can be stopped and continued: how the commands run them, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.progress import Progress, TaskID

from insync.cli.exits import usage_error
from insync.cli.output import console, print_json
from insync.cli.pipeline import interruptible, spark_session, stopped
from insync.cli.pipeline_progress import make_bar
from insync.pipeline.rounds import JobSummary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = TypeVar("S", bound=JobSummary)


@dataclass(frozen=True, slots=True)
class RunningJob:
    spark: SparkSession
    stop: threading.Event
    """Set by Ctrl-C."""
    _bar: Progress
    _task: TaskID

    def show(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def add(self, done: int, backlog: int, unit: str) -> None:
        """A round is done, and this much is left."""
        completed = self._bar.tasks[self._task].completed + done
        self._bar.update(self._task, completed=completed, total=completed + backlog, unit=unit)


@contextmanager
def running_job(name: str, master: str | None, unit: str, *, quiet: bool) -> Iterator[RunningJob]:
    """A Spark session, and a progress bar that counts in `unit`."""
    with spark_session(master, name) as spark, interruptible() as stop, make_bar(quiet=quiet) as bar:
        yield RunningJob(spark, stop, bar, bar.add_task(name, total=None, unit=unit))


def report_job(
    summary: S,
    to_dict: Callable[[S], dict[str, Any]],
    show: Callable[[S], None],
    *,
    as_json: bool,
    failed: bool = False,
) -> None:
    """Print what was done; exit code 1 if part of it failed, 130 if the job was stopped before its end."""
    if as_json:
        print_json(to_dict(summary))
    else:
        show(summary)
    if failed:
        raise typer.Exit(1)
    if not summary.finished:
        raise stopped()


def print_notes(notes: list[str]) -> None:
    for note in notes:
        console().print(note, style="yellow", markup=False)


def parse_targets(topics: list[str]) -> dict[str, str]:
    """Names of topics, each with the name that it gets."""
    targets = {}
    for text in topics:
        name, equals, target = text.partition("=")
        if not name or (equals and not target):
            raise usage_error(f"'{text}' is not a topic: use TOPIC, or TOPIC=TARGET to give it another name")
        targets[name] = target or name
    return targets
