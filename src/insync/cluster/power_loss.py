"""What a disk holds after the power was cut, done to the files of a process that has been killed.

The rules are those of the simulated disk, without its dice: of each file stays what was synced; of the changes of names
in one directory stays a prefix, here the shortest that can be had by taking creations back. Syncing a directory settles
its changes so far; syncing a file settles its creation and the changes before it; whatever settles something in a
directory settles the creation of that directory. A cut and a rename have happened: nobody kept what was there before.
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
    """Returns by file how many bytes were lost; a file that is gone altogether counts too."""
    before = _sizes(data)
    if journal.exists():
        platter = read(journal.read_text().splitlines())
        _take_back_creations(data, platter)
        _cut(data, platter)
        journal.unlink()  # what is left is safe
    after = _sizes(data)
    return {path: size - after.get(path, 0) for path, size in before.items() if after.get(path) != size}


def read(notes: Iterable[str]) -> Platter:
    platter = Platter()
    for line in notes:
        kind, *numbers = line.split()
        platter.acts[kind](*map(int, numbers))
    return platter


class Platter:
    """What is safe, by inode number."""

    def __init__(self) -> None:
        self.safe: dict[int, int] = {}
        """How many bytes of a file."""
        self._pending: dict[int, list[tuple[int, int]]] = {}
        """Of a directory the changes that may not have happened: when, and what was created or NAME_CHANGE."""
        self._home: dict[int, int] = {}
        """The directory in which something was created."""
        self._syncs: dict[int, tuple[int, int]] = {}
        """Under way, by number: file and size."""
        self._name_syncs: dict[int, tuple[int, int]] = {}
        """Under way, by number: directory, and when it began."""
        self._now = 0
        self.acts: dict[str, Callable[..., None]] = {
            disk.FOUND: self._found,
            disk.CREATED: self._created,
            disk.RENAMED: self._renamed,
            disk.CUT: self._cut,
            disk.SYNCING: self._syncing,
            disk.SYNCING_NAMES: self._syncing_names,
            disk.SYNCED: self._synced,
        }

    def taken_back(self, directory: int) -> list[int]:
        """What was created last in this directory, as far as nothing else has happened there since."""
        found: list[int] = []
        for _, inode in reversed(self._pending.get(directory, [])):
            if inode == NAME_CHANGE:
                break
            found.append(inode)
        return found

    # --- notes -------------------------------------------------------------------------------------------------------

    def _found(self, file: int, size: int) -> None:
        self.safe.setdefault(file, size)  # unknown so far: it was there before the first note, and is as old as that

    def _created(self, directory: int, inode: int) -> None:
        self.safe[inode] = 0  # a number is used again once its file is gone
        self._pending.pop(inode, None)
        self._home[inode] = directory
        self._change(directory, inode)

    def _renamed(self, directory: int) -> None:
        self._change(directory, NAME_CHANGE)

    def _cut(self, file: int, size: int) -> None:
        self.safe[file] = min(self.safe.get(file, size), size)
        for number, (other, safe) in self._syncs.items():
            if other == file:
                self._syncs[number] = (file, min(safe, size))

    def _syncing(self, number: int, file: int, size: int) -> None:
        self._syncs[number] = (file, size)

    def _syncing_names(self, number: int, directory: int) -> None:
        self._name_syncs[number] = (directory, self._now)

    def _synced(self, number: int) -> None:
        if number in self._name_syncs:
            self._settle(*self._name_syncs.pop(number))
        else:
            file, size = self._syncs.pop(number)
            self.safe[file] = max(self.safe.get(file, 0), size)
            self._settle_creation(file)

    def _change(self, directory: int, what: int) -> None:
        self._now += 1
        self._pending.setdefault(directory, []).append((self._now, what))

    def _settle(self, directory: int, until: int) -> None:
        changes = self._pending.get(directory, [])
        self._pending[directory] = [change for change in changes if change[0] > until]
        self._settle_creation(directory)

    def _settle_creation(self, inode: int) -> None:
        home = self._home.get(inode)
        if home is not None:
            created = [when for when, what in self._pending.get(home, ()) if what == inode]
            self._settle(home, max(created, default=0))


def _take_back_creations(directory: Path, platter: Platter) -> None:
    gone = platter.taken_back(directory.stat().st_ino)
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if entry.inode() in gone:
            shutil.rmtree(entry) if entry.is_dir() else os.remove(entry)
        elif entry.is_dir():
            _take_back_creations(Path(entry), platter)


def _cut(data: Path, platter: Platter) -> None:
    for path in _files(data):
        stat = path.stat()
        if platter.safe.get(stat.st_ino, stat.st_size) < stat.st_size:
            os.truncate(path, platter.safe[stat.st_ino])


def _sizes(data: Path) -> dict[str, int]:
    return {str(path.relative_to(data)): path.stat().st_size for path in _files(data)}


def _files(data: Path) -> list[Path]:
    return sorted(path for path in data.rglob("*") if path.is_file())
