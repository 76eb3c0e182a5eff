"""A lake: Parquet files by topic and date, and the ledger that says which of them count.

    LAKE/topic=orders/date=2026-01-31/part-00003-<first offset>-<end offset>-<attempt>-<n>.parquet
    LAKE/topic=orders/date=2026-01-31/compact-00003-<first offset>-<end offset>-<attempt>-<n>.parquet
    LAKE/_staged/topic=orders/…
    LAKE/_ledger/00000000000000000000.json

A file that no ledger entry names is an orphan, left by a process that was killed. Readers that use the ledger (`read`)
never see one, and the next process in the same role, archiver or compactor, deletes it. That is safe because it commits
an entry of its own first, which fences a process of that role that is still running: that one can no longer commit the
deleted files. Files of the compactor are staged first: see `staging`.
"""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from insync.lake.journal import remove_temporary_files, sync_directory
from insync.lake.ledger import COMPACT, DIRECTORY, OPEN, File, Ledger
from insync.lake.staging import STAGED, find_file, find_root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""The date of records without a sensible timestamp; Spark reads it as null."""
_FILE_NAME = re.compile(r"\.?(part|compact)-\d{5,}-\d{20}-\d{20}-[0-9a-f]+-\d+-\d+\.parquet")


@dataclass(frozen=True, slots=True)
class Role:
    """One process at a time has it."""

    name: str
    lock: str
    opened: str
    """The kind of the entry that begins its work."""
    orphans: str
    """Where its files are before the ledger names them."""


ARCHIVER = Role("archiver", "lock", OPEN, "topic=*/date=*/*.parquet")
COMPACTOR = Role("compactor", "compact.lock", COMPACT, f"{STAGED}/topic=*/date=*/*.parquet")


class LakeError(Exception):
    """A directory cannot be used as a lake; the text says why."""


class LakeLockedError(LakeError):
    """Another process has the same role."""


class Lake:
    """A lake that is open for writing: `with Lake.open(path, settings) as lake`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.writer = uuid.uuid4().hex[:12]
        """Identifies this process in the ledger."""
        self._lock = lock
        self.ledger = Ledger(path)
        self.removed_orphans: list[str] = []

    @staticmethod
    def open(path: str | Path, settings: Mapping[str, str]) -> Lake:
        """Create the lake if necessary, verify it, fence its earlier writers, and remove their orphans."""
        root = local_path(path)
        check_lake(root)
        make_lake(root)
        return _open(root, ARCHIVER, settings)

    @staticmethod
    def open_for_compaction(path: str | Path) -> Lake:
        """As `open`, for an existing lake, also while an archiver has it open."""
        return _open(load_ledger(path).lake, COMPACTOR, {})

    def data_path(self, topic: str) -> Path:
        """Below which the files of a topic are written."""
        return self.path

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(root: Path, role: Role, settings: Mapping[str, str]) -> Lake:
    lake = Lake(root, lock_directory(root / DIRECTORY, role.name, role.lock))
    try:
        lake.ledger = Ledger.load(root)
        _check_settings(lake.ledger, settings)
        _check_file_sizes(lake.ledger)
        lake.ledger.commit(role.opened, lake.writer, settings=settings)
        lake.removed_orphans = remove_orphans(lake.ledger, role)
    except BaseException:
        lake.close()
        raise
    return lake


def load_ledger(path: str | Path, entries: int | None = None) -> Ledger:
    """The ledger of an existing lake, or its first `entries` entries."""
    root = local_path(path)
    if not (root / DIRECTORY).is_dir():
        raise LakeError(f"{root} is not a lake: it has no directory {DIRECTORY}")
    return Ledger.load(root, entries)


def read(spark: SparkSession, path: str | Path, topics: Iterable[str] = ()) -> DataFrame:
    """The archived rows, with the columns `topic` and `date` from the paths.

    The frame names the files that count now. A compaction deletes files that it has replaced after its `--grace`: load
    a frame again that is older.
    """
    ledger = load_ledger(path)
    names = set(topics)
    files = [file for archived in ledger.ranges() if not names or archived.topic in names for file in archived.files]
    if not files:
        raise LakeError(f"nothing is archived in {path}" + (f" of {', '.join(sorted(names))}" if names else ""))
    by_root: dict[Path, list[str]] = {}
    for file in files:
        root, path = find_root(ledger.lake, file.path), file.path
        by_root.setdefault(root, []).append(str(root / path))
    frames = [spark.read.option("basePath", str(root)).parquet(*paths) for root, paths in by_root.items()]
    return reduce(lambda left, right: left.unionByName(right), frames)


# --- opening ---------------------------------------------------------------------------------------------------------


def local_path(path: str | Path) -> Path:
    text = str(path)
    if "://" in text and not text.startswith("file://"):
        raise LakeError(f"{text}: a lake must be a directory that driver and executors share; URLs are not supported")
    return Path(text.removeprefix("file://")).absolute()


def check_lake(path: str | Path) -> None:
    """Raise unless a lake is there or can be created. Without their ledger, a lake's files would count as orphans."""
    root = local_path(path)
    existing = next(part for part in (root / DIRECTORY, *(root / DIRECTORY).parents) if os.path.lexists(part))
    if not existing.is_dir():
        raise LakeError(f"{root} cannot be a lake: {existing} is a file")
    if any((root / DIRECTORY).glob("*.json")):
        return
    if orphans := list_orphans(Ledger(root)):
        raise LakeError(
            f"{root} has files of a lake, such as {orphans[0]}, but no ledger in {DIRECTORY}: they would be deleted; "
            "name another directory, or restore the ledger"
        )


def make_lake(root: Path) -> None:
    try:
        (root / DIRECTORY).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"{root} cannot be a lake: {error.strerror}") from None
    sync_directory(root)


def lock_directory(directory: Path, owner: str, name: str = "lock") -> int:
    """Held until the process ends. The journal fences processes that the lock does not reach, on other machines."""
    handle = os.open(directory / name, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise LakeLockedError(f"another {owner} is using {directory}: stop it, or name another directory") from None
    return handle


def _check_settings(ledger: Ledger, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        before = ledger.settings.get(name, value)
        if before != value:
            raise LakeError(f"{ledger.lake} was created with {name} {before}; it cannot change to {value}")


def _check_file_sizes(ledger: Ledger) -> None:
    """The files' contents are checked by `--verify`."""
    while problem := next(filter(None, (find_size_problem(ledger.lake, file) for file in ledger.files().values())), ""):
        if not ledger.refresh():  # otherwise a compaction may have replaced the file
            raise LakeError(f"the ledger and the files of {ledger.lake} do not agree: {problem}")


def find_size_problem(root: Path, file: File) -> str:
    """What is wrong with a file's size; empty if nothing is."""
    try:
        size = find_file(root, file.path).stat().st_size
    except FileNotFoundError:
        return f"{file.path} is missing"
    return "" if size == file.bytes else f"{file.path} has {size} bytes instead of {file.bytes}"


def remove_orphans(ledger: Ledger, role: Role = ARCHIVER) -> list[str]:
    """Delete the files that no entry names, and return their paths. Files with other names are left alone."""
    orphans = list_orphans(ledger, role)
    for path in orphans:
        (ledger.lake / path).unlink(missing_ok=True)
    if role is ARCHIVER:
        remove_temporary_files(ledger.directory)
    return orphans


def list_orphans(ledger: Ledger, role: Role = ARCHIVER) -> list[str]:
    known = ledger.files().keys() | ledger.replaced.keys()
    paths = (path.relative_to(ledger.lake) for path in ledger.lake.glob(role.orphans))
    return sorted(
        str(path)
        for path in paths
        if _FILE_NAME.fullmatch(path.name) and str(path).removeprefix(f"{STAGED}/") not in known
    )
