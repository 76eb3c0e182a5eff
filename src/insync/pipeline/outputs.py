"""Where results go. A command neither overwrites nor deletes what it did not write itself.

That is checked before the work starts, and again before Spark overwrites a directory, which deletes whatever is in it.
Earlier results are recognised by their form: a directory with nothing but Spark's part files, whose columns are those
of the result; a page whose generator is insync. In stores that only Spark can access, nothing is ever overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from insync.pipeline.report.page import GENERATOR
from insync.pipeline.spark_errors import explain_job_failure

_PART = re.compile(r"part-\d{5}-[0-9a-f-]{36}\S*\.parquet")
_COMPANION = re.compile(r"_SUCCESS|\._SUCCESS\.crc|\.part-\d{5}-[0-9a-f-]{36}\S*\.parquet\.crc")
_HEAD = 1024
"""Bytes of a page that contain its generator."""


class OutputError(Exception):
    """The text names the option and the place, and says what to do."""


def to_local_path(place: str) -> Path | None:
    """None for a store that only Spark can access."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return None if "://" in place else Path(place).absolute()


def check_directory(option: str, place: str) -> None:
    """Raise unless `place` is a directory or can become one."""
    path = to_local_path(place)
    if path is None:
        return
    existing = next(part for part in (path, *path.parents) if os.path.lexists(part))
    if not existing.is_dir():
        problem = "it is a file" if existing == path else f"{existing} is a file"
        raise OutputError(f"{option} {place}: {problem}; name a directory")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"{option} {place}: {existing} is not writable; name another directory")


def check_frame(option: str, place: str, columns: Iterable[str]) -> None:
    """Raise unless `place` is new, empty, or holds earlier results of the same command."""
    check_directory(option, place)
    path = to_local_path(place)
    if path is None or not path.is_dir():
        return
    expected = sorted(columns)
    foreign = sorted(file.name for file in path.iterdir() if not _is_part_of_frame(file, expected))
    if foreign:
        raise OutputError(
            f"{option} {place}: the directory contains {foreign[0]!r}, which this command did not write "
            "and would delete; name a new or empty directory"
        )


def check_page(option: str, path: Path) -> None:
    """Raise unless `path` is new, empty, or an earlier page."""
    if path.is_dir():
        raise OutputError(f"{option} {path}: it is a directory; name a file for the page")
    if not path.parent.is_dir():
        raise OutputError(f"{option} {path}: there is no directory {path.parent}; create it, or name another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OutputError(f"{option} {path}: it is not writable; name another file")
    if path.is_file() and path.stat().st_size and not _is_page(path):
        raise OutputError(f"{option} {path}: the file exists, and this command did not write it; name another one")


def check_store(spark: SparkSession, option: str, place: str) -> None:
    """Raise if something exists in a store that only Spark can access."""
    if to_local_path(place) is not None or spark._jvm is None:
        return
    try:
        path = spark._jvm.org.apache.hadoop.fs.Path(place)
        exists = path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path)
    except Py4JError as error:
        raise OutputError(f"{option} {place}: Spark cannot access it: {explain_job_failure(str(error))}") from None
    if exists:
        raise OutputError(f"{option} {place}: it exists already and is not overwritten; name another place")


def write_frame(frame: DataFrame, option: str, place: str) -> None:
    path = to_local_path(place)
    if path is None:
        frame.write.mode("errorifexists").parquet(place)
        return
    check_frame(option, place, frame.columns)
    frame.write.mode("overwrite").parquet(f"file://{path}")


def _is_part_of_frame(file: Path, columns: list[str]) -> bool:
    if _COMPANION.fullmatch(file.name):
        return file.is_file()
    if not _PART.fullmatch(file.name) or not file.is_file():
        return False
    try:
        return sorted(pq.read_schema(file).names) == columns
    except (pa.ArrowInvalid, OSError):
        return False


def _is_page(path: Path) -> bool:
    with open(path, "rb") as file:
        return GENERATOR.encode() in file.read(_HEAD)
