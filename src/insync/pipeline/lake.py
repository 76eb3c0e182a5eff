"""A lake: Parquet files by topic and date, and the ledger that says which of them count.

    LAKE/topic=orders/date=2026-01-31/part-00003-<first offset>-<end offset>-<attempt>-<n>.parquet
    LAKE/_ledger/00000000000000000000.json

A file that no ledger entry names is an orphan: what a killed archiver was busy with. Readers that ask the ledger
(`read`) never see one, and the next archiver sweeps it away. It may do so because it first commits an entry of its
own: an archiver that still ran would be fenced by it and could no longer commit what was swept.
"""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from insync.pipeline.journal import remove_asides, sync_directory
from insync.pipeline.ledger import DIRECTORY, OPEN, File, Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCK = "lock"
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Where records without a sensible timestamp are; Spark reads it as null."""
_OURS = re.compile(r"\.?part-\d{5,}-\d{20}-\d{20}-[0-9a-f]+-\d+-\d+\.parquet")


class LakeError(Exception):
    """The text is meant for people."""


class Busy(LakeError):  # noqa: N818  says what happened
    """Another archiver works on this lake."""


class Lake:
    """A lake that is being written: `with Lake.open(path, settings) as lake`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.archiver = uuid.uuid4().hex[:12]
        self._lock = lock
        self.ledger = Ledger(path)
        self.swept: list[str] = []

    @staticmethod
    def open(path: str | Path, settings: Mapping[str, str]) -> Lake:
        """Make it if need be, verify what is there, fence whoever wrote before, sweep what they left."""
        root = local_path(path)
        check(root)
        make(root)
        lake = Lake(root, locked(root / DIRECTORY, "archiver"))
        try:
            lake.ledger = Ledger.load(root)
            same_settings(lake.ledger, settings)
            present(lake.ledger)
            lake.ledger.commit(OPEN, lake.archiver, settings=settings)
            lake.swept = sweep(lake.ledger)
        except BaseException:
            lake.close()
            raise
        return lake

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load(path: str | Path, entries: int | None = None) -> Ledger:
    """The ledger of a lake that exists; or what it was when it had only so many entries."""
    root = local_path(path)
    if not (root / DIRECTORY).is_dir():
        raise LakeError(f"{root} is no lake: it has no directory {DIRECTORY}")
    return Ledger.load(root, entries)


def read(spark: SparkSession, path: str | Path, topics: Iterable[str] = ()) -> DataFrame:
    """The rows that the ledger knows, with the columns `topic` and `date` from the paths."""
    ledger = load(path)
    wanted = set(topics)
    files = [f for each in ledger.ranges() if not wanted or each.topic in wanted for f in each.files]
    if not files:
        raise LakeError(f"nothing is archived in {path}" + (f" of {', '.join(sorted(wanted))}" if wanted else ""))
    paths = [str(ledger.lake / file.path) for file in files]
    return spark.read.option("basePath", str(ledger.lake)).parquet(*paths)


# --- opening ---------------------------------------------------------------------------------------------------------


def local_path(path: str | Path) -> Path:
    text = str(path)
    if "://" in text and not text.startswith("file://"):
        raise LakeError(f"{text}: a lake is a directory that driver and executors share; other stores are not known")
    return Path(text.removeprefix("file://")).absolute()


def check(path: str | Path) -> None:
    """Whether a lake is there or can be made. Files of a lake whose ledger is gone would be swept away as orphans."""
    root = local_path(path)
    if not next(each for each in (root / DIRECTORY, *(root / DIRECTORY).parents) if os.path.lexists(each)).is_dir():
        raise LakeError(f"{root} cannot be a lake: it, or a part of its path, is a file")
    if any((root / DIRECTORY).glob("*.json")):
        return
    if found := orphans(Ledger(root)):
        raise LakeError(
            f"{root} has files of a lake, such as {found[0]}, and no ledger in {DIRECTORY}: they would be swept away; "
            "name another place, or put the ledger back"
        )


def make(root: Path) -> None:
    try:
        (root / DIRECTORY).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"{root} cannot be a lake: {error.strerror}") from None
    sync_directory(root)


def locked(directory: Path, who: str) -> int:
    """Held until the process ends, however it ends. The journal tells those apart whom a lock does not reach."""
    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise Busy(f"another {who} works on {directory}: stop it first, or name another place for this one") from None
    return handle


def same_settings(ledger: Ledger, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        before = ledger.settings.get(name, value)
        if before != value:
            raise LakeError(f"{ledger.lake} was begun with {name} {before}, now it is {value}: a lake keeps to one")


def present(ledger: Ledger) -> None:
    """Every file is there, with its size. What is in it is for `--verify`."""
    for file in ledger.files().values():
        if problem := size_problem(ledger.lake, file):
            raise LakeError(f"the ledger and the files of {ledger.lake} do not agree: {problem}")


def size_problem(root: Path, file: File) -> str:
    try:
        size = (root / file.path).stat().st_size
    except FileNotFoundError:
        return f"{file.path} is missing"
    return "" if size == file.bytes else f"{file.path} has {size} bytes instead of {file.bytes}"


def sweep(ledger: Ledger) -> list[str]:
    """Remove what no entry names. Only files that look like ours: a lake may have other inhabitants."""
    found = orphans(ledger)
    for path in found:
        (ledger.lake / path).unlink(missing_ok=True)
    remove_asides(ledger.directory)
    return found


def orphans(ledger: Ledger) -> list[str]:
    known = ledger.files()
    there = (path.relative_to(ledger.lake) for path in ledger.lake.glob("topic=*/date=*/*.parquet"))
    return sorted(str(path) for path in there if _OURS.fullmatch(path.name) and str(path) not in known)


__all__ = ["NO_DATE", "Busy", "Lake", "LakeError", "load", "orphans", "read", "sweep"]
