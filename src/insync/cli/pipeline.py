"""`insync pipeline`: whole jobs on Spark. What they share: the option --master, and how a session is had."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from insync.cli.exits import usage_error
from insync.cli.lazy import LazyGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMANDS: dict[str, tuple[str, str]] = {
    "archive": ("pipeline_archive.archive", "Topics to a lake of Parquet files, every record exactly once."),
    "replay": ("pipeline_replay.replay", "A lake back to topics, with keys, headers, timestamps and partitions."),
    "audit": ("pipeline_audit.audit", "Check the replicas' logs and the clients' histories against the properties."),
    "health": ("pipeline_health.health", "The history of every ISR, from the metadata log."),
    "campaign": ("pipeline_campaign.campaign", "Simulator seeds on Spark."),
}


def _a_master(value: str | None) -> str | None:
    from insync.pipeline import session

    try:
        session.check_master(value)
    except session.NoSpark as error:
        raise usage_error(str(error)) from None
    return value


Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        callback=_a_master,
        help="Spark's master; without it, all cores of this machine.",
    ),
]


class _Pipelines(LazyGroup):
    table = COMMANDS

    def load(self, module: str) -> Any:
        try:
            return super().load(module)
        except ModuleNotFoundError as error:
            if error.name and error.name.partition(".")[0] in ("pyspark", "pyarrow", "numba", "pandas", "numpy"):
                raise usage_error(f"pipelines need {error.name}: pip install 'insync[spark]'") from None
            raise
        except KeyboardInterrupt:  # what a pipeline needs takes its time to load
            typer.echo("insync: stopped before it began", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Pipelines, help="Whole jobs on Spark: archive, replay, audit, health, campaign.", no_args_is_help=True
)


@app.callback()
def _main() -> None:
    """Whole jobs on Spark: archive, replay, audit, health, campaign."""


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event: what has begun is brought to an end. A second one ends the program.

    To be entered when Spark runs: a session that starts takes Ctrl-C for itself.
    """
    stop = threading.Event()

    def ask(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C at any time, also while Spark starts, ends with a sentence: nothing is lost by it."""
    try:
        yield
    except KeyboardInterrupt:
        raise stopped() from None


def stopped() -> typer.Exit:
    typer.echo("insync: stopped; the same command goes on from here", err=True)
    return typer.Exit(130)


@contextmanager
def checked() -> Iterator[None]:
    """A place for results that is not one of ours: a sentence and exit code 2."""
    from insync.pipeline.outputs import OutputError

    try:
        yield
    except OutputError as error:
        raise usage_error(str(error)) from None


def need_java() -> None:
    """Or a sentence and exit code 2: sooner than starting Spark would tell it."""
    from insync.pipeline import session

    try:
        session.need_java()
    except session.NoSpark as error:
        raise usage_error(str(error)) from None


def open_session(master: str | None, name: str, **conf: str) -> SparkSession:
    """A Spark session, or a sentence and exit code 2."""
    from insync.pipeline.session import NoSpark, quiet_session

    try:
        return quiet_session(master, f"insync {name}", **conf)
    except NoSpark as error:
        raise usage_error(str(error)) from None


@contextmanager
def spark_session(master: str | None, name: str, **conf: str) -> Iterator[SparkSession]:
    """The same, and it is stopped at the end unless it ran before."""
    from insync.pipeline.session import runs

    running = runs()
    spark = open_session(master, name, **conf)
    try:
        yield spark
    finally:
        if not running:
            spark.stop()
