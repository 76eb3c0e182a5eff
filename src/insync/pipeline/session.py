"""The Spark session of the pipelines, and how a pipeline's file becomes a program for `spark-submit`.

Without a master, a session uses all cores of this machine. Under `spark-submit`, its master and settings (`--conf`)
apply. Executors run the driver's interpreter, and know `format("insync")` and `format("insync-log")`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import insync.spark
from insync.pipeline.spark_errors import SparkStartError, explain_start_failure

LOCAL = "local[*]"
STDERR = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}
NO_JAVA = (
    "Spark needs Java 17 or newer, and none was found: install it (on Debian `apt-get install default-jre-headless`), "
    "or set JAVA_HOME"
)
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""For a local master: the machine's name need not resolve."""
MASTERS = "local, local[N], local[*], spark://HOST:PORT, yarn or k8s://URL"
_MASTER = re.compile(
    r"yarn|(?!spark:|https?:)[a-z][\w+.-]*://\S+|spark://\S+:\d+"
    r"|local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
)
_UNINFORMATIVE = ("GATEWAY_EXITED", "stopped SparkContext")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the program that it runs."""


def open_session(master: str | None = None, app: str = "insync", **conf: str) -> SparkSession:
    """The running session if there is one, otherwise a new one. `conf` has Spark's names, including dots."""
    check_master(master)
    if not has_session():
        check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.app.name": app} | _default_settings() | conf
    if master is not None or _SUBMITTED not in os.environ:
        chosen = master or LOCAL
        settings = (LOOPBACK if chosen.startswith("local") else {}) | settings | {"spark.master": chosen}
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        _launch(settings)
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise SparkStartError(f"Spark did not start: {explain_start_failure(str(error))}") from None
    spark.sparkContext.setLogLevel("ERROR")
    insync.spark.register(spark)
    return spark


def _launch(settings: Mapping[str, str]) -> None:
    """Start the JVM. Ctrl-C is deferred until it is up: it would wait forever for an interrupted Python process."""
    interrupts: list[int] = []
    if has_session() or threading.current_thread() is not threading.main_thread():
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


def open_quiet_session(master: str | None = None, app: str = "insync", **conf: str) -> SparkSession:
    """For commands: the JVM's standard error is hidden, and explains a failed start."""
    handle, path = tempfile.mkstemp(prefix="insync-spark-", suffix=".log")
    own = os.dup(STDERR)
    os.dup2(handle, STDERR)
    try:
        spark = open_session(master, app, **conf)
    except SparkStartError as error:
        output = Path(path).read_text(errors="replace")
        if output and any(text in str(error) for text in _UNINFORMATIVE):
            raise SparkStartError(f"Spark did not start: {explain_start_failure(output)}") from None
        raise
    finally:
        os.dup2(own, STDERR)
        os.close(own)
        os.close(handle)
        os.unlink(path)  # the JVM keeps writing to it
    return spark


def is_valid_master(master: str | None) -> bool:
    return master is None or _MASTER.fullmatch(master) is not None


def check_master(master: str | None) -> None:
    """Reject what is not a master URL early: Spark reports it late and at length."""
    if not is_valid_master(master):
        raise SparkStartError(f"--master {master}: Spark's masters are {MASTERS}")


def has_session() -> bool:
    """Whether this process has a session; Spark's own check covers one thread only."""
    return SparkContext._active_spark_context is not None


def run_command(name: str, argv: Sequence[str] | None = None) -> None:
    """The `main` of a pipeline: `spark-submit .../NAME/job.py ARGS` does the same as `insync pipeline NAME ARGS`."""
    app = import_module("insync.cli.main").app  # by name: pipelines must not import commands
    app(["pipeline", name, *(sys.argv[1:] if argv is None else argv)])


def _default_settings() -> dict[str, str]:
    """Our settings, without those that `spark-submit` was given."""
    if _SUBMITTED not in os.environ:
        return SETTINGS
    SparkContext._ensure_initialized()  # connects to the JVM that started this program
    given = SparkConf()
    return {name: value for name, value in SETTINGS.items() if not given.contains(name)}


def check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise SparkStartError(f"JAVA_HOME is {home}, which has no bin/java. {NO_JAVA}")
    if not home and shutil.which("java") is None:
        raise SparkStartError(NO_JAVA)
