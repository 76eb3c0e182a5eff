"""Each kind of damage changes the files it names, of one partition, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from insync.chaos import damage
from insync.cluster.disk import JOURNAL

PARTITION = "chaos-0"
BROKER = "data/data"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The directory of a node that was stopped cleanly."""
    for name in (PARTITION, "chaos-1"):
        for file in ("0.log", "0.index", "0.timeindex", "7.snapshot", "leader-epoch-checkpoint", "partition.metadata"):
            _write(tmp_path / BROKER / name / file)
    for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
        _write(tmp_path / BROKER / file)
    for file in ("0.log", "quorum-state"):
        _write(tmp_path / "data" / damage.METADATA / file)
    _write(tmp_path / JOURNAL)
    return tmp_path


def _write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(range(64)))


def _contents(node: Path) -> dict[str, bytes]:
    return {str(file.relative_to(node)): file.read_bytes() for file in sorted(node.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("kind", damage.KINDS)
def test_damage_changes_the_files_it_names_and_nothing_else(node: Path, kind: str) -> None:
    before = _contents(node)
    description = damage.damage(node, kind, PARTITION, random.Random(1))
    after = _contents(node)
    changed = [name for name in before if before[name] != after.get(name) and name != JOURNAL]
    assert description is not None
    assert changed
    assert JOURNAL not in after
    assert not any("chaos-1" in name for name in changed)
    where = damage.METADATA if kind in damage.QUORUM else damage.BROKER
    assert all(name.startswith(f"data/{where}") for name in changed)


def test_one_bit_is_flipped_and_the_size_stays(node: Path) -> None:
    log = node / BROKER / PARTITION / "0.log"
    before = log.read_bytes()
    damage.damage(node, "log flipped", PARTITION, random.Random(1))
    pairs = zip(before, log.read_bytes(), strict=True)
    assert sum((a ^ b).bit_count() for a, b in pairs) == 1


def test_a_missing_partition_is_not_damaged(node: Path) -> None:
    before = _contents(node)
    assert damage.damage(node, "partition removed", "other-0", random.Random(1)) is None
    assert _contents(node) == before
