"""Files of the compactor until what they replace is gone: staged where readers that list directories do not look.

A compaction changes which files count with one ledger entry, but not which files a directory lists: that takes several
steps. So its files are written below `LAKE/_staged`, and the ledger names them as if they were in their final place.

1. The entry is committed. Readers that use the ledger read the new files, in the staging directory. Those that loaded
   the ledger before have the names of the old files, which are still there. Plain listings show the old files only.
2. After the grace period `publish` deletes the old files and links the new ones to their final place. For a moment,
   plain listings show neither.
3. After another grace period the names in the staging directory are deleted: a reader may still have them.

A kill between any two steps is made good by the next `publish`, which derives everything from the ledger.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

from insync.lake.journal import sync_directory
from insync.lake.ledger import Ledger

STAGED = "_staged"


def find_root(lake: Path, path: str) -> Path:
    """The directory below which a file of the ledger is now."""
    staged = lake / STAGED
    return lake if not (staged / path).exists() or (lake / path).exists() else staged


def find_file(lake: Path, path: str) -> Path:
    """Where a file of the ledger is now. If it is nowhere: where it should be."""
    return find_root(lake, path) / path


def publish(ledger: Ledger, grace_s: float, *, now_s: float | None = None) -> list[str]:
    """Delete replaced files and move new ones to their places, `grace_s` after their entry. Returns what was deleted.

    Only the compactor calls it.
    """
    now = time.time() if now_s is None else now_s
    deleted = []
    for path, at in ledger.replaced.items():
        if now - _to_seconds(at) >= grace_s and _delete(ledger.lake, path):
            deleted.append(path)
    files = ledger.files()
    for path, at in ledger.compacted.items():
        if path in files and now - _to_seconds(at) >= grace_s:
            _move(ledger.lake, path, grace_s, now)
    return deleted


def list_finished(ledger: Ledger) -> set[str]:
    """Replaced files that are deleted, and new ones that are in their place: `publish` has nothing left to do."""
    files = ledger.files()
    deleted = {path for path in ledger.replaced if not find_file(ledger.lake, path).exists()}
    moved = {path for path in ledger.compacted if path in files and not (ledger.lake / STAGED / path).exists()}
    return deleted | moved


def _delete(lake: Path, path: str) -> bool:
    existing = [file for file in (lake / path, lake / STAGED / path) if file.exists()]
    for file in existing:
        file.unlink(missing_ok=True)
    return bool(existing)


def _move(lake: Path, path: str, grace_s: float, now: float) -> None:
    staged, final = lake / STAGED / path, lake / path
    if not staged.exists():
        return
    if not final.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        os.link(staged, final)
        sync_directory(final.parent)
    if grace_s <= 0 or now - final.stat().st_ctime >= grace_s:  # since it was linked
        staged.unlink()


def _to_seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
