"""Does to the files of a killed process what a power cut would have done.

The rules are those of the simulated disk at its worst. Of each file, the synced bytes survive. Of the name changes in a
directory, a prefix survives: here the shortest one that can be reached by undoing creations. Syncing a directory makes
its changes so far durable. Syncing a file makes its creation, and the changes before it, durable. Whatever makes a
change in a directory durable makes the creation of that directory durable. Truncations and renames are never undone,
because the previous state is not kept.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from insync.cluster import disk

NAME_CHANGE = -1
"""Stands for a rename or a removal in the list of a directory's changes."""


def lose_unflushed(data: Path, journal: Path) -> dict[str, int]:
    """Returns the number of lost bytes by file, including files that are gone."""
    before = _sizes(data)
    if journal.exists():
        durable = replay_journal(journal.read_text().splitlines())
        _undo_creations(data, durable)
        _truncate_files(data, durable)
        journal.unlink()  # what is left is durable
    after = _sizes(data)
    return {path: size - after.get(path, 0) for path, size in before.items() if after.get(path) != size}


def replay_journal(lines: Iterable[str]) -> DurableState:
    durable = DurableState()
    for line in lines:
        kind, *numbers = line.split()
        durable.handlers[kind](*map(int, numbers))
    return durable


class DurableState:
    """What a power cut leaves, by inode number."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        """Durable bytes of each file."""
        self._pending: dict[int, list[tuple[int, int]]] = {}
        """Changes of each directory that are not durable: (when, inode created or NAME_CHANGE)."""
        self._parents: dict[int, int] = {}
        """The directory in which a file or directory was created."""
        self._syncs: dict[int, tuple[int, int]] = {}
        """File syncs in progress, by number: (file, size)."""
        self._name_syncs: dict[int, tuple[int, int]] = {}
        """Directory syncs in progress, by number: (directory, when it began)."""
        self._now = 0
        self.handlers: dict[str, Callable[..., None]] = {
            disk.FOUND: self._on_found,
            disk.CREATED: self._on_created,
            disk.RENAMED: self._on_renamed,
            disk.CUT: self._on_cut,
            disk.SYNCING: self._on_syncing,
            disk.SYNCING_NAMES: self._on_syncing_names,
            disk.SYNCED: self._on_synced,
        }

    def undone_creations(self, directory: int) -> list[int]:
        """What was created in this directory since its last durable or renamed entry, newest first."""
        created: list[int] = []
        for _, inode in reversed(self._pending.get(directory, [])):
            if inode == NAME_CHANGE:
                break
            created.append(inode)
        return created

    # --- the journal -------------------------------------------------------------------------------------------------

    def _on_found(self, file: int, size: int) -> None:
        self.sizes.setdefault(file, size)  # older than the journal, so durable

    def _on_created(self, directory: int, inode: int) -> None:
        self.sizes[inode] = 0  # inode numbers are reused
        self._pending.pop(inode, None)
        self._parents[inode] = directory
        self._change(directory, inode)

    def _on_renamed(self, directory: int) -> None:
        self._change(directory, NAME_CHANGE)

    def _on_cut(self, file: int, size: int) -> None:
        self.sizes[file] = min(self.sizes.get(file, size), size)
        for number, (other, other_size) in self._syncs.items():
            if other == file:
                self._syncs[number] = (file, min(other_size, size))

    def _on_syncing(self, number: int, file: int, size: int) -> None:
        self._syncs[number] = (file, size)

    def _on_syncing_names(self, number: int, directory: int) -> None:
        self._name_syncs[number] = (directory, self._now)

    def _on_synced(self, number: int) -> None:
        if number in self._name_syncs:
            self._make_names_durable(*self._name_syncs.pop(number))
        else:
            file, size = self._syncs.pop(number)
            self.sizes[file] = max(self.sizes.get(file, 0), size)
            self._make_creation_durable(file)

    def _change(self, directory: int, what: int) -> None:
        self._now += 1
        self._pending.setdefault(directory, []).append((self._now, what))

    def _make_names_durable(self, directory: int, until: int) -> None:
        changes = self._pending.get(directory, [])
        self._pending[directory] = [change for change in changes if change[0] > until]
        self._make_creation_durable(directory)

    def _make_creation_durable(self, inode: int) -> None:
        parent = self._parents.get(inode)
        if parent is not None:
            created = [when for when, what in self._pending.get(parent, ()) if what == inode]
            self._make_names_durable(parent, max(created, default=0))


def _undo_creations(directory: Path, durable: DurableState) -> None:
    gone = durable.undone_creations(directory.stat().st_ino)
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.inode() in gone:
            shutil.rmtree(entry) if entry.is_dir() else os.remove(entry)
        elif entry.is_dir():
            _undo_creations(Path(entry), durable)


def _truncate_files(data: Path, durable: DurableState) -> None:
    for path in _files(data):
        stat = path.stat()
        if durable.sizes.get(stat.st_ino, stat.st_size) < stat.st_size:
            os.truncate(path, durable.sizes[stat.st_ino])


def _sizes(data: Path) -> dict[str, int]:
    return {str(path.relative_to(data)): path.stat().st_size for path in _files(data)}


def _files(data: Path) -> list[Path]:
    return sorted(path for path in data.rglob("*") if path.is_file())
