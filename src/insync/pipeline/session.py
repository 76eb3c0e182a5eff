"""The Spark session of the pipelines, and how a pipeline's file becomes a program for `spark-submit`.

Without a master it is all cores of this machine; under `spark-submit` it is whatever that was told, and so are settings
(`--conf`). Executors run the interpreter that runs the driver, and know `format("insync")` and `format("insync-log")`.
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
MASTERS = "local, local[N], local[*], spark://HOST:PORT, yarn or k8s://URL"
_MASTER = re.compile(
    r"yarn|(?!spark:|https?:)[a-z][\w+.-]*://\S+|spark://\S+:\d+"
    r"|local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
)
_THROWN = re.compile(r"(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b:? ?(.*)")
_KILLED = re.compile(r"Application has been killed. Reason: (.+)")
"""By a master that refuses it, or because none answered: what is thrown then says only that it is over."""
_SAYS_NOTHING = ("GATEWAY_EXITED", "stopped SparkContext")
_NOISE = re.compile(r"\s*(at |\.\.\. |WARNING: |Using Spark's default|Setting default log|To adjust|.* (WARN|INFO) |$)")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the program that it runs."""


class NoSpark(Exception):  # noqa: N818  says what happened
    """Spark cannot be started; the text says what to do."""


def session(master: str | None = None, app: str = "insync", **conf: str) -> SparkSession:
    """The running session if there is one, else a new one. Names in `conf` are Spark's, dots and all."""
    check_master(master)
    if not runs():
        need_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.app.name": app} | _not_told() | conf
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
        raise NoSpark(f"Spark did not start: {why(str(error))}") from None
    spark.sparkContext.setLogLevel("ERROR")
    insync.spark.register(spark)
    return spark


def _launch(settings: Mapping[str, str]) -> None:
    """The JVM, which waits for ever for a Python that was interrupted while it came up: so Ctrl-C waits for that."""
    pressed: list[int] = []
    if runs() or threading.current_thread() is not threading.main_thread():
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def quiet_session(master: str | None = None, app: str = "insync", **conf: str) -> SparkSession:
    """The same for commands: what the JVM says on its standard error is kept out of theirs, and told if it fails."""
    handle, path = tempfile.mkstemp(prefix="insync-spark-", suffix=".log")
    own = os.dup(STDERR)
    os.dup2(handle, STDERR)
    try:
        spark = session(master, app, **conf)
    except NoSpark as error:
        words, told = Path(path).read_text(errors="replace"), str(error)
        useless = any(each in told for each in _SAYS_NOTHING)
        raise NoSpark(f"Spark did not start: {why(words)}" if words and useless else told) from None
    finally:
        os.dup2(own, STDERR)
        os.close(own)
        os.close(handle)
        os.unlink(path)  # the JVM goes on writing to it, and nobody reads that
    return spark


def check_master(master: str | None) -> None:
    """Whether it has the form of one: Spark says it late, and at length."""
    if master is not None and not _MASTER.fullmatch(master):
        raise NoSpark(f"--master {master}: Spark's masters are {MASTERS}")


def why(words: str) -> str:
    """Of what Spark and its JVM say when they fail: what was thrown first, or else the first words."""
    if killed := _KILLED.search(words):
        return killed[1]
    lines = [line.strip() for line in words.splitlines() if not _NOISE.match(line)]
    thrown = [found[1] for line in lines if (found := _THROWN.search(line))]
    return next(filter(None, thrown), "") or ". ".join(lines[:2]) or "no reason given"


def runs() -> bool:
    """Whether this process has a session. Spark's own question is about one thread."""
    return SparkContext._active_spark_context is not None


def submitted(name: str, argv: Sequence[str] | None = None) -> None:
    """`main` of a pipeline: the same as `insync pipeline NAME ARGS`, for `spark-submit .../NAME/job.py ARGS`."""
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
