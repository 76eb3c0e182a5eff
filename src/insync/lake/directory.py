"""A lake: Parquet files by topic and date, and the ledger that says which of them count.

    LAKE/topic=orders/date=2026-01-31/part-00003-<first offset>-<end offset>-<attempt>-<n>.parquet
    LAKE/topic=orders/date=2026-01-31/compact-00003-<first offset>-<end offset>-<attempt>-<n>.parquet
    LAKE/_staged/topic=orders/…
    LAKE/_ledger/00000000000000000000.json

LAKE is a directory or a prefix of an object store (see `store`).

A file that no ledger entry names is an orphan, left by a process that was killed. Readers that use the ledger never see
one, and the next process in the same role, archiver or compactor, deletes it:

1. It lists the files.
2. It commits an entry of its own, which fences a process of that role that is still running: that one can no longer
   commit its files. Whatever was committed before, by either role, this process knows now.
3. It deletes what was listed and is unknown. A process that takes the role after it writes its files after step 2, so
   they are not on the list.

Files of the compactor are staged first: see `staging`.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from insync.lake.ledger import COMPACT, DIRECTORY, OPEN, File, Ledger
from insync.lake.location import Location, open_store
from insync.lake.staging import STAGED, find_path, list_data_files
from insync.lake.store import LakeError, LocalStore, Store

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
    directory: str
    """Below which its files are before the ledger names them."""


ARCHIVER = Role("archiver", "lock", OPEN, "")
COMPACTOR = Role("compactor", "compact.lock", COMPACT, STAGED)


class Lake:
    """A lake that is open for writing: `with Lake.open(path, settings) as lake`."""

    def __init__(self, store: Store, release: Callable[[], None]) -> None:
        self.store = store
        self.writer = uuid.uuid4().hex[:12]
        """Identifies this process in the ledger."""
        self._release = release
        self.ledger = Ledger(store)
        self.removed_orphans: list[str] = []

    @staticmethod
    def open(path: Location, settings: Mapping[str, str]) -> Lake:
        """Create the lake if necessary, verify it, fence its earlier writers, and remove their orphans."""
        store = open_store(path)
        check_lake(store)
        make_lake(store)
        return _open(store, ARCHIVER, settings)

    @staticmethod
    def open_for_compaction(path: Location) -> Lake:
        """As `open`, for an existing lake, also while an archiver has it open."""
        return _open(load_ledger(path).lake, COMPACTOR, {})

    def data_store(self, topic: str) -> Store:
        """To which the files of a topic are written."""
        return self.store

    def close(self) -> None:
        self._release()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(store: Store, role: Role, settings: Mapping[str, str]) -> Lake:
    lake = Lake(store, store.child(DIRECTORY).lock(role.name, role.lock))
    try:
        lake.ledger = Ledger.load(store)
        _check_settings(lake.ledger, settings)
        _check_file_sizes(lake.ledger)
        listed = _list_role_files(store, role)  # before the entry: see above
        lake.ledger.commit(role.opened, lake.writer, settings=settings)
        lake.removed_orphans = _select_orphans(lake.ledger, listed)
        for path in lake.removed_orphans:
            store.delete(path)
        if role is ARCHIVER:
            store.remove_temporary_files(DIRECTORY)
    except BaseException:
        lake.close()
        raise
    return lake


def load_ledger(path: Location, entries: int | None = None) -> Ledger:
    """The ledger of an existing lake, or its first `entries` entries."""
    store = open_store(path)
    ledger = Ledger.load(store, entries)
    if not ledger.entries and not _has_ledger(store):
        raise LakeError(f"{store} is not a lake: it has no directory {DIRECTORY}")
    return ledger


# --- opening ---------------------------------------------------------------------------------------------------------


def check_lake(path: Location) -> None:
    """Raise unless a lake is there or can be created. Without their ledger, a lake's files would count as orphans."""
    store = open_store(path)
    if isinstance(store, LocalStore):
        ledger = store.root / DIRECTORY
        existing = next(part for part in (ledger, *ledger.parents) if os.path.lexists(part))
        if not existing.is_dir():
            raise LakeError(f"{store} cannot be a lake: {existing} is a file")
    if any(name.endswith(".json") for name in store.list_names(DIRECTORY)):
        return
    if orphans := list_orphans(Ledger(store)):
        raise LakeError(
            f"{store} has files of a lake, such as {orphans[0]}, but no ledger in {DIRECTORY}: they would be deleted; "
            "name another directory, or restore the ledger"
        )


def make_lake(path: Location) -> None:
    open_store(path).prepare(DIRECTORY)


def _has_ledger(store: Store) -> bool:
    return DIRECTORY in store.list_directories()


def _check_settings(ledger: Ledger, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        before = ledger.settings.get(name, value)
        if before != value:
            raise LakeError(f"{ledger.lake} was created with {name} {before}; it cannot change to {value}")


def _check_file_sizes(ledger: Ledger) -> None:
    """The files' contents are checked by `--verify`."""
    while problem := _find_wrong_size(ledger):
        if not ledger.refresh():  # otherwise a compaction may have replaced the file
            raise LakeError(f"the ledger and the files of {ledger.lake} do not agree: {problem}")


def _find_wrong_size(ledger: Ledger) -> str:
    """By listings: to ask for each file would take a request for each. Staged files are listed first: they keep their
    names until they have the final ones."""
    stored = {**list_data_files(ledger.lake.child(STAGED)), **list_data_files(ledger.lake)}
    sizes = ((file, stored[file.path].size if file.path in stored else None) for file in ledger.files().values())
    return next(filter(None, (_describe_size(file, size) for file, size in sizes)), "")


def find_size_problem(lake: Store, file: File) -> str:
    """What is wrong with a file's size; empty if nothing is."""
    stored = lake.find(find_path(lake, file.path))
    return _describe_size(file, None if stored is None else stored.size)


def _describe_size(file: File, size: int | None) -> str:
    if size is None:
        return f"{file.path} is missing"
    return "" if size == file.bytes else f"{file.path} has {size} bytes instead of {file.bytes}"


def list_orphans(ledger: Ledger, role: Role = ARCHIVER) -> list[str]:
    """The files of a role that no entry names. Files with other names are left alone."""
    return _select_orphans(ledger, _list_role_files(ledger.lake, role))


def _list_role_files(store: Store, role: Role) -> list[str]:
    prefix = f"{role.directory}/" if role.directory else ""
    return [f"{prefix}{path}" for path in list_data_files(store.child(role.directory) if prefix else store)]


def _select_orphans(ledger: Ledger, paths: Iterable[str]) -> list[str]:
    known = ledger.files().keys() | ledger.replaced.keys()
    return sorted(
        path
        for path in paths
        if _FILE_NAME.fullmatch(path.rpartition("/")[2]) and path.removeprefix(f"{STAGED}/") not in known
    )
