"""Damage at rest: what a bad disk, a careless operator or an old backup does to the files of a node that is down.

Each kind of damage is a function of the node's log directory and one partition in it; it returns what it did. The
node's process must have exited. `faults` damages one node at a time, so that intact copies of everything acknowledged
remain (S9).

`DERIVED` are files that are rebuilt from others, `LOGS` the data itself, `BIT_ROT` the data without a change of size,
and `QUORUM` the state of a voter.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from insync.cluster.disk import JOURNAL

Damage = Callable[[Path, str, random.Random], str | None]
"""(log directory, name of a partition's directory, random source) -> what was done; None without files to damage."""

LOG_FILES = "*.log"
BROKER, METADATA = "data", "metadata/__cluster_metadata-0"
"""Where a node keeps its broker's partitions, and the metadata log."""


def damage(node_directory: Path, kind: str, partition: str, rng: random.Random) -> str | None:
    """Returns what was done. The damaged files are durable: a later power cut takes nothing more of them."""
    done = KINDS[kind](node_directory / "data", partition, rng)
    if done is not None:
        (node_directory / JOURNAL).unlink(missing_ok=True)
    return done


# --- files that are rebuilt from others ------------------------------------------------------------------------------


def _removed(*patterns: str) -> Damage:
    def remove(data: Path, partition: str, _rng: random.Random) -> str | None:
        files = _files(data, partition, patterns)
        for file in files:
            file.unlink()
        return f"removed {_names(files)}" if files else None

    return remove


def _emptied(*patterns: str) -> Damage:
    def empty(data: Path, partition: str, _rng: random.Random) -> str | None:
        files = [file for file in _files(data, partition, patterns) if file.stat().st_size]
        for file in files:
            file.write_bytes(b"")
        return f"emptied {_names(files)}" if files else None

    return empty


def _flipped(*patterns: str) -> Damage:
    """Flip one bit in each file."""

    def flip(data: Path, partition: str, rng: random.Random) -> str | None:
        files = [file for file in _files(data, partition, patterns) if file.stat().st_size]
        for file in files:
            flip_bit(file, rng.randrange(file.stat().st_size), rng.randrange(8))
        return f"flipped a bit in {_names(files)}" if files else None

    return flip


# --- logs ------------------------------------------------------------------------------------------------------------


def _remove_partition(data: Path, partition: str, _rng: random.Random) -> str | None:
    directory = data / BROKER / partition
    if not directory.exists():
        return None
    shutil.rmtree(directory)
    return f"removed the directory {partition}"


def _cut_log(where: str) -> Damage:
    """Cut off the end of the last segment, not necessarily at a batch boundary."""

    def cut(data: Path, partition: str, rng: random.Random) -> str | None:
        segments = sorted((data / where.format(partition)).glob(LOG_FILES))
        size = segments[-1].stat().st_size if segments else 0
        if size < 2:
            return None
        lost = rng.randrange(1, size)
        with open(segments[-1], "r+b") as file:
            file.truncate(size - lost)
        return f"cut {lost:,} of {size:,} bytes off {segments[-1].parent.name}/{segments[-1].name}"

    return cut


def flip_bit(file: Path, at: int, bit: int = 0) -> None:
    with open(file, "r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes((byte ^ (1 << bit),)))


def _files(data: Path, partition: str, patterns: tuple[str, ...]) -> list[Path]:
    """Sorted; {} in a pattern stands for the partition."""
    return sorted(file for pattern in patterns for file in data.glob(pattern.format(partition)) if file.is_file())


def _names(files: list[Path]) -> str:
    return ", ".join(f"{file.parent.name}/{file.name}" for file in files)


DERIVED: dict[str, Damage] = {
    "indexes removed": _removed(f"{BROKER}/{{}}/*index"),
    "indexes flipped": _flipped(f"{BROKER}/{{}}/*index"),
    "producer snapshots removed": _removed(f"{BROKER}/{{}}/*.snapshot"),
    "producer snapshots flipped": _flipped(f"{BROKER}/{{}}/*.snapshot"),
    "epoch checkpoint removed": _removed(f"{BROKER}/{{}}/leader-epoch-checkpoint"),
    "recovery points removed": _removed(f"{BROKER}/recovery-point-offset-checkpoint"),
    "recovery points emptied": _emptied(f"{BROKER}/recovery-point-offset-checkpoint"),
    "high watermarks removed": _removed(f"{BROKER}/replication-offset-checkpoint"),
    "high watermarks emptied": _emptied(f"{BROKER}/replication-offset-checkpoint"),
    "clean-shutdown file removed": _removed(f"{BROKER}/.kafka_cleanshutdown"),
}
LOGS: dict[str, Damage] = {
    "partition removed": _remove_partition,
    "partition.metadata removed": _removed(f"{BROKER}/{{}}/partition.metadata"),
    "log cut": _cut_log(f"{BROKER}/{{}}"),
    "log emptied": _emptied(f"{BROKER}/{{}}/{LOG_FILES}"),
}
BIT_ROT: dict[str, Damage] = {"log flipped": _flipped(f"{BROKER}/{{}}/{LOG_FILES}")}
QUORUM: dict[str, Damage] = {
    "metadata log cut": _cut_log(METADATA),
    "metadata log flipped": _flipped(f"{METADATA}/{LOG_FILES}"),
    "metadata log emptied": _emptied(f"{METADATA}/{LOG_FILES}"),
    "quorum-state removed": _removed(f"{METADATA}/quorum-state"),
}
KINDS: dict[str, Damage] = {**DERIVED, **LOGS, **BIT_ROT, **QUORUM}
