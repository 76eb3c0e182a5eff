"""Several files as one input: their number, then name and content of each with their lengths. Any bytes can be read."""

from __future__ import annotations

from random import Random
from struct import pack, unpack_from

from fuzz.mutate import mutate_bytes
from insync.sim.engine.disk import SimDisk
from insync.storage import disk as disks

Files = dict[str, bytes]


def pack_files(files: Files) -> bytes:
    parts = [pack(">H", len(files))]
    for name, data in files.items():
        text = name.encode()
        parts += (pack(">HI", len(text), len(data)), text, data)
    return b"".join(parts)


def unpack_files(data: bytes) -> Files:
    """Any bytes are accepted: a length that reaches past the end takes what is left."""
    files: Files = {}
    if len(data) < 2:
        return files
    (count,) = unpack_from(">H", data)
    at = 2
    for _ in range(count):
        if at + 6 > len(data):
            break
        name_size, size = unpack_from(">HI", data, at)
        name = data[at + 6 : at + 6 + name_size]
        at += 6 + name_size
        files[_plain(name)] = data[at : at + size]
        at += size
    return files


def mutate_files(data: bytes, rng: Random) -> bytes:
    """Mostly changes the content of one file; sometimes removes, copies, empties or replaces a file."""
    files = unpack_files(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if files:
            _change(files, rng.choice(sorted(files)), rng)
    return pack_files(files)


def read_tree(disk: SimDisk, directory: str = "") -> Files:
    """Every file below a directory, by its path relative to that."""
    files: Files = {}
    for name in disk.listdir(directory):
        path = disks.join(directory, name)
        try:
            files |= {f"{name}/{below}": data for below, data in read_tree(disk, path).items()}
        except FileNotFoundError:  # it is no directory
            files[name] = disks.read_all(disk, path)
    return files


def disk_of(files: Files) -> SimDisk:
    """A disk with these files, all of them durable. Of names that would be a file and a directory, the first counts."""
    disk = SimDisk()
    for path, data in files.items():
        try:
            disk.mkdir(disks.parent(path))
            disks.write_plainly(disk, path, data, sync=True)
        except OSError:
            continue
    return disk


def _change(files: Files, name: str, rng: Random) -> None:
    chance = rng.random()
    if chance < 0.80:
        files[name] = mutate_bytes(files[name], rng)
    elif chance < 0.86:
        del files[name]
    elif chance < 0.90:
        files[name] = b""
    elif chance < 0.95:
        files[name] = files[rng.choice(sorted(files))]
    else:
        files[_plain(mutate_bytes(name.encode(), rng))] = files[name]


def _plain(name: bytes) -> str:
    """A name that every disk accepts: without `..` and without empty parts."""
    parts = [part for part in name.decode("utf-8", "replace").replace("\x00", "_").split("/") if part.strip(".")]
    return "/".join(parts)[:200] or "_"
