"""The Spark session of the pipelines, and how a pipeline's file becomes a program for `spark-submit`.

Without a master it is all cores of this machine; under `spark-submit` it is whatever that was told, and so are settings
(`--conf`). Executors run the interpreter that runs the driver, and know `format("insync")` and `format("insync-log")`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import insync.spark

LOCAL = "local[*]"
STDERR = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
NO_JAVA = (
    "Spark needs Java 17 or newer and none was found: install Debian's package default-jre-headless "
    "(`apt-get install default-jre-headless`), or set JAVA_HOME"
)
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Where everything is on one machine, its name need not resolve to anything."""
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the program that it runs."""


class NoSpark(Exception):  # noqa: N818  says what happened
    """Spark cannot be started; the text says what to do."""


def session(master: str | None = None, app: str = "insync", **conf: str) -> SparkSession:
    """The running session if there is one, else a new one. Names in `conf` are Spark's, dots and all."""
    if not runs():
        need_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    settings = _not_told() | conf
    if master is not None or _SUBMITTED not in os.environ:
        builder = builder.master(master or LOCAL)
        settings = (LOOPBACK if (master or LOCAL).startswith("local") else {}) | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        raise NoSpark(f"Spark did not start: {error}") from None
    spark.sparkContext.setLogLevel("ERROR")
    insync.spark.register(spark)
    return spark


def quiet_session(master: str | None = None, app: str = "insync", **conf: str) -> SparkSession:
    """The same for commands: what the JVM says on its standard error is kept out of theirs, and told if it fails."""
    handle, path = tempfile.mkstemp(prefix="insync-spark-", suffix=".log")
    own = os.dup(STDERR)
    os.dup2(handle, STDERR)
    try:
        spark = session(master, app, **conf)
    except NoSpark as error:
        words = Path(path).read_text(errors="replace").strip()
        raise NoSpark(f"{error}\n{words}" if words else str(error)) from None
    finally:
        os.dup2(own, STDERR)
        os.close(own)
        os.close(handle)
        os.unlink(path)  # the JVM goes on writing to it, and nobody reads that
    return spark


def runs() -> bool:
    """Whether this process has a session. Spark's own question is about one thread."""
    return SparkContext._active_spark_context is not None


def submitted(name: str, argv: Sequence[str] | None = None) -> None:
    """`main` of a pipeline: the same as `insync pipeline NAME ARGS`, for `spark-submit .../NAME.py ARGS`."""
    app = import_module("insync.cli.main").app  # by name: the layers below the commands do not depend on them
    app(["pipeline", name, *(sys.argv[1:] if argv is None else argv)])


def _not_told() -> dict[str, str]:
    """Our settings, without those of which `spark-submit` was told something."""
    if _SUBMITTED not in os.environ:
        return SETTINGS
    SparkContext._ensure_initialized()  # connects to the JVM that started this program: it knows
    told = SparkConf()
    return {name: value for name, value in SETTINGS.items() if not told.contains(name)}


def need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise NoSpark(f"JAVA_HOME is {home}, where there is no bin/java. {NO_JAVA}")
    if not home and shutil.which("java") is None:
        raise NoSpark(NO_JAVA)
