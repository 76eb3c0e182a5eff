"""Where results go. What a command did not write itself, it neither overwrites nor deletes.

Checked before the work, so that nobody waits for nothing, and once more before Spark overwrites a directory, which
removes whatever is in it. Earlier results are known by what they are: a directory that has only files that Spark names
so, with the very columns of the result; a page that says by whom it was made. In stores that only Spark can look into,
nothing is ever overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from insync.pipeline.report.page import GENERATOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = re.compile(r"part-\d{5}-[0-9a-f-]{36}\S*\.parquet")
_BESIDE = re.compile(r"_SUCCESS|\._SUCCESS\.crc|\.part-\d{5}-[0-9a-f-]{36}\S*\.parquet\.crc")
_HEAD = 1024
"""Bytes of a page in which it says what made it."""


class OutputError(Exception):
    """The text names the option and the place, and says what to do."""


def local(place: str) -> Path | None:
    """None where only Spark can look."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return None if "://" in place else Path(place).absolute()


def check_directory(option: str, place: str) -> None:
    """It is a directory, or can be made one."""
    path = local(place)
    if path is None:
        return
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not there.is_dir():
        what = "that is a file" if there == path else f"{there} is a file"
        raise OutputError(f"{option} {place}: {what}, and results need a directory; name another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise OutputError(f"{option} {place}: {there} may not be written to; name another place")


def check_frame(option: str, place: str, columns: Iterable[str]) -> None:
    """Nothing is there, or what the same command has written before."""
    check_directory(option, place)
    path = local(place)
    if path is None or not path.is_dir():
        return
    wanted = sorted(columns)
    foreign = sorted(each.name for each in path.iterdir() if not _of_a_frame(each, wanted))
    if foreign:
        raise OutputError(
            f"{option} {place}: the directory has {foreign[0]!r} in it, which this command did not write and would "
            "delete; name a new or empty directory"
        )


def check_page(option: str, path: Path) -> None:
    """A file can be there; if one is, it is an earlier page, or empty."""
    if path.is_dir():
        raise OutputError(f"{option} {path}: that is a directory; name a file for the page")
    if not path.parent.is_dir():
        raise OutputError(f"{option} {path}: there is no directory {path.parent}; make it, or name another place")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OutputError(f"{option} {path}: it may not be written to; name another place")
    if path.is_file() and path.stat().st_size and not _is_a_page(path):
        raise OutputError(f"{option} {path}: that is a file which this command did not write; name another one")


def check_store(spark: SparkSession, option: str, place: str) -> None:
    """The rest of the check, for what only Spark can look into."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    from insync.pipeline.executors import reason

    if local(place) is not None or spark._jvm is None:
        return
    try:
        path = spark._jvm.org.apache.hadoop.fs.Path(place)
        there = path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path)
    except Py4JError as error:
        raise OutputError(f"{option} {place}: Spark cannot look there: {reason(str(error))}") from None
    if there:
        raise OutputError(f"{option} {place}: something is there already, and is not overwritten; name another place")


def write_frame(frame: DataFrame, option: str, place: str) -> None:
    path = local(place)
    if path is None:
        frame.write.mode("errorifexists").parquet(place)
        return
    check_frame(option, place, frame.columns)
    frame.write.mode("overwrite").parquet(f"file://{path}")


def _of_a_frame(file: Path, columns: list[str]) -> bool:
    if _BESIDE.fullmatch(file.name):
        return file.is_file()
    if not _PART.fullmatch(file.name) or not file.is_file():
        return False
    try:
        return sorted(pq.read_schema(file).names) == columns
    except (pa.ArrowInvalid, OSError):
        return False


def _is_a_page(path: Path) -> bool:
    with open(path, "rb") as file:
        return GENERATOR.encode() in file.read(_HEAD)
