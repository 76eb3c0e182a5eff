"""Files of the compactor until what they replace is gone: staged where readers that list directories do not look.

A compaction changes which files count with one ledger entry, but not which files a directory lists: that takes several
steps. So its files are written below `LAKE/_staged`, and the ledger names them as if they were in their final place.

1. The entry is committed. Readers that use the ledger read the new files, in the staging directory. Those that loaded
   the ledger before have the names of the old files, which are still there. Plain listings show the old files only.
2. After the grace period `publish` deletes the old files and links the new ones to their final place (in an object
   store it copies them). For a moment, plain listings show neither.
3. After another grace period the names in the staging directory are deleted: a reader may still have them.

A kill between any two steps is made good by the next `publish`, which derives everything from the ledger.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from insync.lake.ledger import Ledger
from insync.lake.store import Store, StoredFile

if TYPE_CHECKING:
    import pyarrow.parquet as pq

STAGED = "_staged"


def find_path(lake: Store, path: str) -> str:
    """Where a file of the ledger is now. If it is nowhere: where it should be."""
    staged = f"{STAGED}/{path}"
    return path if lake.find(path) is not None or lake.find(staged) is None else staged


def open_file(lake: Store, path: str) -> pq.ParquetFile:
    """Open a file of the ledger where it is now. Raises FileNotFoundError."""
    for candidate in (path, f"{STAGED}/{path}"):
        try:
            return lake.open_parquet(candidate)
        except FileNotFoundError:
            continue
    return lake.open_parquet(path)  # it may have been moved to its final place in between


def list_data_files(lake: Store) -> dict[str, StoredFile]:
    """The files in `topic=*/date=*/`, by their paths."""
    files = (file for name in lake.list_directories() if name.startswith("topic=") for file in lake.list_files(name))
    return {file.path: file for file in files if _is_data_file(file.path)}


def _is_data_file(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 3 and parts[1].startswith("date=") and parts[2].endswith(".parquet")


def publish(ledger: Ledger, grace_s: float, *, now_s: float | None = None) -> list[str]:
    """Delete replaced files and move new ones to their places, `grace_s` after their entry. Returns what was deleted.

    Only the compactor calls it.
    """
    now = time.time() if now_s is None else now_s
    lake = ledger.lake
    staged, final = list_data_files(lake.child(STAGED)), list_data_files(lake)
    deleted = []
    for path, at in ledger.replaced.items():
        if now - _to_seconds(at) >= grace_s and (path in final or path in staged):
            if path in final:
                lake.delete(path)
            if path in staged:
                lake.delete(f"{STAGED}/{path}")
            deleted.append(path)
    files = ledger.files()
    for path, at in ledger.compacted.items():
        if path in files and path in staged and now - _to_seconds(at) >= grace_s:
            if path not in final:
                lake.link(f"{STAGED}/{path}", path)
            if grace_s <= 0 or (path in final and now - final[path].named_s >= grace_s):
                lake.delete(f"{STAGED}/{path}")
    return deleted


def list_finished(ledger: Ledger) -> set[str]:
    """Replaced files that are deleted, and new ones that are in their place: `publish` has nothing left to do."""
    staged, final = list_data_files(ledger.lake.child(STAGED)), list_data_files(ledger.lake)
    files = ledger.files()
    deleted = {path for path in ledger.replaced if path not in final and path not in staged}
    moved = {path for path in ledger.compacted if path in files and path not in staged}
    return deleted | moved


def _to_seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
