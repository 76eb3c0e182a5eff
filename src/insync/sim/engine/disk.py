"""A disk in memory that loses what was not synced, tears the last write, fills up and slows down.

Each file holds what programs see (the page cache) and knows which part of it is durable: the bytes before `dirty_from`,
and behind them `old_tail`, bytes that a truncation removed but that may still be on the platter. Each directory holds
its visible names, the durable ones, and the changes in between in order; a power loss keeps a prefix of these, as a
journal does. Syncing a file also makes the changes up to its own creation durable.

A crash of the process (`crash`) keeps everything written; a power loss (`lossy_crash`) does not. After either, the
handles of the dead process no longer reach the files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from random import Random

from insync.storage.disk import Bytes, SyncLater


class SimDisk:
    """While `full`, appends fail; while `failing`, syncs fail."""

    __slots__ = ("_root", "bad_sectors", "bytes_read", "failing", "full", "sync_ms", "syncs")

    def __init__(self) -> None:
        self._root = _Directory()
        self.full = False
        self.failing = False
        self.sync_ms = 0
        self.syncs = 0
        self.bytes_read: dict[str, int] = {}
        self.bad_sectors: dict[str, tuple[int, int]] = {}
        """By path, the range of bytes that cannot be read; a file that replaces it can be read."""

    # --- the Disk protocol -------------------------------------------------------------------------------------------

    def open(self, path: str) -> SimFile:
        directory, name = self._place(path)
        inode = directory.visible.get(name)
        if inode is None:
            inode = _Inode(directory)
            directory.change(name, inode)
        if isinstance(inode, _Directory):
            raise _error(errno.EISDIR, path)
        return SimFile(self, inode, path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        inode = self._find(path)
        if not isinstance(inode, _Inode):
            raise _error(errno.ENOENT, path)
        return len(inode.data)

    def listdir(self, path: str) -> list[str]:
        return sorted(self._directory(path).visible)

    def mkdir(self, path: str) -> None:
        directory = self._root
        for name in filter(None, path.split("/")):
            child = directory.visible.get(name)
            if child is None:
                child = _Directory(directory)
                directory.change(name, child)
            if not isinstance(child, _Directory):
                raise _error(errno.ENOTDIR, path)
            directory = child

    def rename(self, source: str, target: str) -> None:
        directory, old = self._place(source)
        target_directory, new = self._place(target)
        if directory is not target_directory:
            raise _error(errno.EXDEV, target)
        if old not in directory.visible:
            raise _error(errno.ENOENT, source)
        directory.rename(old, new)
        self.bad_sectors.pop(target, None)

    def remove(self, path: str) -> None:
        directory, name = self._place(path)
        if not isinstance(directory.visible.get(name), _Inode):
            raise _error(errno.ENOENT, path)
        directory.change(name, None)

    def rmtree(self, path: str) -> None:
        directory, name = self._place(path)
        if not isinstance(directory.visible.get(name), _Directory):
            raise _error(errno.ENOENT, path)
        directory.change(name, None)

    def sync_dir(self, path: str) -> None:
        self.sync_dir_later(path)()

    def sync_dir_later(self, path: str) -> SyncLater:
        directory = self._directory(path)

        def run() -> None:
            self._count_sync(path)
            directory.commit(len(directory.pending))

        return run

    def sync_all(self) -> None:
        self._count_sync("")
        _commit_all(self._root)

    # --- faults ------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process dies; the page cache stays. Its open handles no longer reach the files."""
        for _, directory, name, inode in list(self._files()):
            directory.replace(name, inode, inode.copy_for_next_process())

    def lossy_crash(self, rng: Random, *, corrupt: bool = False) -> dict[str, tuple[int, int]]:
        """Power loss. Returns (size before, size after) of each file that changed; -1 if there is no such file.

        With `corrupt`, part of the lost tail may be present but hold garbage.
        """
        before = {path: bytes(inode.data) for path, _, _, inode in self._files()}
        self._root = _after_power_loss(self._root, None, rng, corrupt)
        after = {path: bytes(inode.data) for path, _, _, inode in self._files()}
        paths = sorted(before.keys() | after.keys())
        return {
            path: (_size(before, path), _size(after, path)) for path in paths if before.get(path) != after.get(path)
        }

    def corrupt_tail(self, path: str, rng: Random) -> int:
        """Damage durable bytes near the end of a file; returns the position of the first damaged byte."""
        inode = self._find(path)
        if not isinstance(inode, _Inode) or not inode.data:
            raise _error(errno.ENOENT, path)
        start = rng.randrange(max(0, len(inode.data) - 64), len(inode.data))
        for at in range(start, len(inode.data)):
            inode.data[at] ^= rng.randrange(1, 256)
        return start

    def rot(self, path: str, position: int, mask: int = 0xFF) -> None:
        """Change a byte on disk and in the page cache; open handles see it too."""
        inode = self._find(path)
        if not isinstance(inode, _Inode):
            raise _error(errno.ENOENT, path)
        inode.data[position] ^= mask

    def unsynced_bytes(self, path: str) -> int:
        inode = self._find(path)
        return len(inode.data) - inode.dirty_from if isinstance(inode, _Inode) else 0

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _count_sync(self, path: str) -> None:
        if self.failing:
            raise _error(errno.EIO, path)
        self.syncs += 1

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in filter(None, path.split("/")):
            if not isinstance(node, _Directory):
                return None
            node = node.visible.get(name)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOENT, path)
        return node

    def _place(self, path: str) -> tuple[_Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._directory(directory), name

    def _files(self) -> Iterator[tuple[str, _Directory, str, _Inode]]:
        yield from _walk(self._root, "")


class SimFile:
    __slots__ = ("_data", "_disk", "_inode", "_path")

    def __init__(self, disk: SimDisk, inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._data = inode.data
        self._path = path

    @property
    def size(self) -> int:
        return len(self._data)

    def append(self, data: Bytes) -> None:
        if self._disk.full:
            raise _error(errno.ENOSPC, self._path)
        self._data += data

    def read(self, pos: int, n: int) -> bytes:
        bad = self._disk.bad_sectors.get(self._path)
        if bad is not None and pos < bad[1] and bad[0] < pos + n:
            raise _error(errno.EIO, self._path)
        reads = self._disk.bytes_read
        data = bytes(memoryview(self._data)[pos : pos + n])
        reads[self._path] = reads.get(self._path, 0) + len(data)
        return data

    def truncate(self, n: int) -> None:
        self._inode.truncate(n)
        if n <= self._disk.bad_sectors.get(self._path, (n, n))[0]:
            self._disk.bad_sectors.pop(self._path, None)  # a new write goes to other sectors

    def sync(self) -> None:
        self._disk._count_sync(self._path)
        self._inode.sync()

    def sync_later(self) -> SyncLater:
        return self.sync

    def close(self) -> None:
        pass


class _Inode:
    __slots__ = ("data", "dirty_from", "old_tail", "parent")

    def __init__(self, parent: _Directory, data: bytes = b"") -> None:
        self.parent = parent
        self.data = bytearray(data)
        self.dirty_from = len(self.data)
        self.old_tail = b""

    def truncate(self, n: int) -> None:
        if n < self.dirty_from:
            self.old_tail = bytes(self.data[n : self.dirty_from]) + self.old_tail
            self.dirty_from = n
        if n > len(self.data):
            self.data += bytes(n - len(self.data))
        del self.data[n:]

    def sync(self) -> None:
        self.dirty_from = len(self.data)
        self.old_tail = b""
        self.parent.commit_creation(self)

    def copy_for_next_process(self) -> _Inode:
        """The same file for the next process; old handles keep a detached copy."""
        heir = _Inode(self.parent)
        heir.data = bytearray(self.data)
        heir.dirty_from, heir.old_tail = self.dirty_from, self.old_tail
        return heir

    def after_power_loss(self, parent: _Directory, rng: Random, corrupt: bool) -> _Inode:
        """The durable content: the synced part, then some of the new bytes, or old ones that reappear."""
        kept = self.dirty_from + _surviving_count(len(self.data) - self.dirty_from, rng)
        data = bytes(self.data[:kept])
        durable_size = self.dirty_from + len(self.old_tail)
        if kept < durable_size and rng.random() < 0.5:
            data += self.old_tail[kept - self.dirty_from :]
        elif corrupt and kept < len(self.data):
            data += rng.randbytes(rng.randint(1, min(512, len(self.data) - kept)))
        return _Inode(parent, data)


class _Directory:
    __slots__ = ("durable", "parent", "pending", "visible")

    def __init__(self, parent: _Directory | None = None) -> None:
        self.parent = parent
        self.visible: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.pending: list[tuple[tuple[str, _Node | None], ...]] = []

    def change(self, name: str, node: _Node | None) -> None:
        self._do(((name, node),))

    def rename(self, old: str, new: str) -> None:
        self._do(((old, None), (new, self.visible[old])))

    def replace(self, name: str, node: _Node, heir: _Node) -> None:
        """Put another object in the place of an entry, also in durable names and pending changes."""
        self.visible[name] = heir
        for at, durable in list(self.durable.items()):
            if durable is node:
                self.durable[at] = heir
        self.pending = [tuple((n, heir if x is node else x) for n, x in op) for op in self.pending]

    def commit(self, n: int) -> None:
        for op in self.pending[:n]:
            _apply(self.durable, op)
        del self.pending[:n]
        if self.parent is not None:
            self.parent.commit_creation(self)

    def commit_creation(self, node: _Node) -> None:
        last = max((at for at, op in enumerate(self.pending) if len(op) == 1 and op[0][1] is node), default=-1)
        if last >= 0 or self.parent is not None:
            self.commit(last + 1)

    def _do(self, op: tuple[tuple[str, _Node | None], ...]) -> None:
        _apply(self.visible, op)
        self.pending.append(op)


_Node = _Inode | _Directory


def _apply(names: dict[str, _Node], op: tuple[tuple[str, _Node | None], ...]) -> None:
    for name, node in op:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _after_power_loss(directory: _Directory, parent: _Directory | None, rng: Random, corrupt: bool) -> _Directory:
    directory.commit(_surviving_count(len(directory.pending), rng))
    heir = _Directory(parent)
    for name, node in directory.durable.items():
        if isinstance(node, _Directory):
            heir.visible[name] = _after_power_loss(node, heir, rng, corrupt)
        else:
            heir.visible[name] = node.after_power_loss(heir, rng, corrupt)
    heir.durable = dict(heir.visible)
    return heir


def _commit_all(directory: _Directory) -> None:
    for node in directory.visible.values():
        if isinstance(node, _Directory):
            _commit_all(node)
        else:
            node.sync()
    directory.commit(len(directory.pending))


def _surviving_count(n: int, rng: Random) -> int:
    """How many of n unsynced units reached the disk: often none or all, else a torn part."""
    if n == 0:
        return 0
    luck = rng.random()
    return 0 if luck < 0.3 else n if luck > 0.8 else rng.randint(0, n)


def _walk(directory: _Directory, prefix: str) -> Iterator[tuple[str, _Directory, str, _Inode]]:
    for name, node in directory.visible.items():
        if isinstance(node, _Directory):
            yield from _walk(node, f"{prefix}{name}/")
        else:
            yield prefix + name, directory, name, node


def _size(files: dict[str, bytes], path: str) -> int:
    return len(files[path]) if path in files else -1


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
