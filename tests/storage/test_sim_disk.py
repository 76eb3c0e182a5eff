"""The simulated disk keeps what was synced, and may lose anything else."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from insync.sim.engine.disk import SimDisk
from insync.storage import disk as disks


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.mkdir("d")
    return disk


def outcomes(prepare: Callable[[SimDisk], None], *, corrupt: bool = False) -> list[bytes | None]:
    contents: dict[bytes | None, bool] = {}
    for seed in range(200):
        disk = SimDisk()
        disk.mkdir("d")
        prepare(disk)
        disk.lossy_crash(Random(seed), corrupt=corrupt)
        contents[disks.read_if_exists(disk, "d/f")] = True
    return list(contents)


def test_a_process_crash_keeps_everything_but_its_handles(disk: SimDisk) -> None:
    file = disk.open("d/f")
    file.append(b"written")
    disk.crash()
    file.append(b" after the crash")
    assert disks.read_all(disk, "d/f") == b"written"


def write_half_synced(disk: SimDisk) -> None:
    file = disk.open("d/f")
    file.append(b"safe")
    file.sync()
    file.append(b"tail")


def test_synced_bytes_survive_and_unsynced_ones_survive_as_a_prefix() -> None:
    contents = outcomes(write_half_synced)
    assert sorted(contents, key=str) == [b"safe" + b"tail"[:n] for n in range(5)]


def test_lost_bytes_may_become_garbage() -> None:
    contents = outcomes(write_half_synced, corrupt=True)
    assert all(data is not None and data.startswith(b"safe") and len(data) <= 8 for data in contents)
    assert any(data is not None and not b"safetail".startswith(data) for data in contents)


def test_a_cut_may_be_undone_until_it_is_synced() -> None:
    def prepare(disk: SimDisk, sync: bool = False) -> None:
        file = disk.open("d/f")
        file.append(b"abcdef")
        file.sync()
        file.truncate(2)
        if sync:
            file.sync()
        file.append(b"XY")

    assert b"abcdef" in outcomes(prepare)
    assert b"abXYef" in outcomes(prepare)
    assert sorted(outcomes(lambda disk: prepare(disk, True)), key=str) == [b"ab", b"abX", b"abXY"]


def test_names_may_vanish_until_they_are_synced() -> None:
    assert None in outcomes(lambda disk: disk.open("d/f").append(b"x"))

    def renamed(disk: SimDisk) -> None:
        disks.write_plainly(disk, "d/f", b"old", sync=True)
        disks.write_plainly(disk, "d/g", b"new", sync=True)
        disk.rename("d/g", "d/f")

    assert sorted(outcomes(renamed), key=str) == [b"new", b"old"]

    def removed(disk: SimDisk) -> None:
        disks.write_plainly(disk, "d/f", b"old", sync=True)
        disk.remove("d/f")

    assert set(outcomes(removed)) == {b"old", None}


def test_syncing_a_directory_makes_its_names_durable() -> None:
    def prepare(disk: SimDisk) -> None:
        disks.write_plainly(disk, "d/f", b"old", sync=True)
        disk.remove("d/f")
        disk.sync_dir("d")

    assert outcomes(prepare) == [None]


def test_a_crash_returns_what_each_file_lost(disk: SimDisk) -> None:
    disks.write_plainly(disk, "d/safe", b"1234", sync=True)
    disk.open("d/safe").append(b"5678")
    disk.open("d/gone").append(b"12")
    losses = [
        loss for seed in range(50) for loss in [_copy(disk).lossy_crash(Random(seed))] if loss.get("d/gone") == (2, -1)
    ]
    assert losses
    assert any(loss.get("d/safe") == (8, 4) for loss in losses)


def _copy(disk: SimDisk) -> SimDisk:
    fresh = SimDisk()
    fresh.mkdir("d")
    disks.write_plainly(fresh, "d/safe", b"1234", sync=True)
    fresh.open("d/safe").append(b"5678")
    fresh.open("d/gone").append(b"12")
    assert fresh.listdir("d") == disk.listdir("d")
    return fresh


def test_the_same_seed_causes_the_same_loss(disk: SimDisk) -> None:
    def loss(seed: int) -> dict[str, tuple[int, int]]:
        return _copy(started).lossy_crash(Random(seed), corrupt=True)

    started = SimDisk()
    started.mkdir("d")
    disks.write_plainly(started, "d/safe", b"", sync=True)
    disks.write_plainly(started, "d/gone", b"")
    assert [loss(seed) for seed in range(20)] == [loss(seed) for seed in range(20)]


def test_a_full_disk_refuses_appends_and_a_failing_one_syncs(disk: SimDisk) -> None:
    file = disk.open("d/f")
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        file.append(b"x")
    disk.full, disk.failing = False, True
    file.append(b"x")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_dir("d")
    assert disk.unsynced_bytes("d/f") == 1


def test_a_damaged_tail_differs_near_the_end_only(disk: SimDisk) -> None:
    disks.write_plainly(disk, "d/f", bytes(1_000), sync=True)
    start = disk.corrupt_tail("d/f", Random(1))
    data = disks.read_all(disk, "d/f")
    assert 936 <= start < 1_000
    assert data[:start] == bytes(start)
    assert 0 not in data[start:]


def test_missing_files_are_errors(disk: SimDisk) -> None:
    for act in (disk.remove, disk.size, disk.listdir, disk.rmtree, disk.sync_dir):
        with pytest.raises(FileNotFoundError):
            act("d/none")
    with pytest.raises(FileNotFoundError):
        disk.open("none/f")
    with pytest.raises(FileNotFoundError):
        disk.rename("d/none", "d/f")
    with pytest.raises(IsADirectoryError):
        disk.open("d")
