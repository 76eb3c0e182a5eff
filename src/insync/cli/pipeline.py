"""`insync pipeline`: whole jobs on Spark. What they share: the option --master, and how a session is had."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from insync.cli.exits import failure, usage_error
from insync.cli.lazy import LazyGroup
from insync.cli.missing_extras import list_missing, require, stand_ins
from insync.cli.session import reason
from insync.client.errors import AddressError, ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMANDS: dict[str, tuple[str, str]] = {
    "archive": ("pipeline_archive.archive", "Archive topics into a lake of Parquet files, every record exactly once."),
    "compact": ("pipeline_compact.compact", "Merge small files of a lake into large ones, and remove old ones."),
    "replay": ("pipeline_replay.replay", "Write a lake back to topics, with keys, headers, timestamps and partitions."),
    "mirror": ("pipeline_mirror.mirror", "Mirror topics to another cluster, every record exactly once."),
    "audit": ("pipeline_audit.audit", "Check replicas' logs and clients' histories against the protocol's properties."),
    "health": ("pipeline_health.health", "Reconstruct the history of every ISR from the metadata log."),
    "capacity": (
        "pipeline_capacity.capacity",
        "Show skew, growth and the cost of retention, and propose a reassignment.",
    ),
    "campaign": ("pipeline_campaign.campaign", "Run simulator seeds on Spark."),
}


COLUMNS = ("pyarrow", "numba", "numpy")
"""What all pipelines need. Those that need no Spark, such as `archive --verify`, run without the others."""
SPARK = ("pyspark", "py4j", "pandas")


def _check_master(value: str | None) -> str | None:
    if value is None:
        return None
    require((*COLUMNS, *SPARK), "spark", "--master")
    from insync.pipeline.session import check_master

    with spark_errors_reported():
        check_master(value)
    return value


Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        callback=_check_master,
        help="Spark master; by default all cores of this machine.",
    ),
]


class _Pipelines(LazyGroup):
    table = COMMANDS

    def load(self, module: str) -> Any:
        try:
            with stand_ins(list_missing((*COLUMNS, *SPARK))):
                return super().load(module)
        except KeyboardInterrupt:  # loading takes a second or two
            typer.echo("insync: interrupted before it started", err=True)
            raise typer.Exit(130) from None

    def adapt(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """Without its packages, a command shows its help and does not run."""

        @functools.wraps(command)
        def run(**values: Any) -> Any:
            require(COLUMNS, "spark", "this pipeline")
            return command(**values)

        return run


app = typer.Typer(
    cls=_Pipelines,
    help="Jobs on Spark: archive, compact, replay, mirror, audit, health, capacity, campaign.",
    no_args_is_help=True,
)


@app.callback()
def _main() -> None:
    """Jobs on Spark: archive, compact, replay, mirror, audit, health, capacity, campaign."""


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event, so that the current round is finished. A second one ends the program.

    Enter it once Spark runs: a session that starts installs a handler of its own.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def resumable() -> Iterator[None]:
    """Turn Ctrl-C, even while Spark starts, into a message: the command can be repeated without loss."""
    try:
        yield
    except KeyboardInterrupt:
        raise stopped() from None


def stopped() -> typer.Exit:
    typer.echo("insync: stopped; the same command continues from here", err=True)
    return typer.Exit(130)


@contextmanager
def _as_usage_error(error_type: type[Exception]) -> Iterator[None]:
    try:
        yield
    except error_type as error:
        raise usage_error(str(error)) from None


def output_errors_reported() -> AbstractContextManager[None]:
    """Exit code 2 for a place that results cannot be written to."""
    from insync.pipeline.outputs import OutputError

    return _as_usage_error(OutputError)


def spark_errors_reported() -> AbstractContextManager[None]:
    """Exit code 2 if Spark cannot be started."""
    from insync.pipeline.spark_errors import SparkStartError

    return _as_usage_error(SparkStartError)


@contextmanager
def job_errors_reported(*errors: type[Exception]) -> Iterator[None]:
    """Exit code 2 for an invalid address; 1 for errors of the cluster, the lake and the job (`errors`)."""
    from insync.lake.journal import JournalError
    from insync.lake.store import LakeError

    try:
        yield
    except AddressError as error:
        raise usage_error(str(error)) from None
    except Exception as error:
        if not isinstance(error, (ClientError, LakeError, JournalError, *errors)):
            raise
        raise failure(reason(error)) from None


def check_java() -> None:
    """Exit code 2 without PySpark or Java, before anything else is done."""
    require(SPARK, "spark", "this pipeline")
    from insync.pipeline import session

    with spark_errors_reported():
        session.check_java()


def open_session(master: str | None, name: str, **conf: str) -> SparkSession:
    """A Spark session; exit code 2 if it cannot be started."""
    require(SPARK, "spark", "this pipeline")
    from insync.pipeline.session import open_quiet_session

    with spark_errors_reported():
        return open_quiet_session(master, f"insync {name}", **conf)


@contextmanager
def spark_session(master: str | None, name: str, **conf: str) -> Iterator[SparkSession]:
    """As `open_session`; stopped at the end unless it ran before."""
    from insync.pipeline.session import has_session

    running = has_session()
    spark = open_session(master, name, **conf)
    try:
        yield spark
    finally:
        if not running:
            spark.stop()
