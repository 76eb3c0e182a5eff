"""Changing the voters of a stopped cluster: no committed entry is lost, even if the change is interrupted (B9)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from insync.quorum import state_file, voter_set
from insync.quorum.config import METADATA_DIRECTORY
from insync.quorum.state_file import ElectionState
from insync.server import cluster_layout, ownership
from insync.server.cluster_layout import data_directory
from insync.server.directory_lock import DirectoryLock, DirectoryLockedError
from insync.server.startup_error import StartupError
from insync.server.storage_format import format_directory, is_formatted, read_identity
from insync.server.voter_change import VoterChangeError, rebuild_voter, set_voters
from insync.storage.posix import PosixDisk, PosixFile
from insync.wire import batch

SEGMENT = "00000000000000000000.log"
OLD, NEW = (1, 2, 3), (2, 3, 4, 5)
COMMITTED = [(1, b"a"), (1, b"b"), (3, b"c"), (3, b"d")]
"""Entries with their epochs, on the voters 1 and 2. Voter 3 has an older log, and has voted in a newer epoch."""


def log_file(directory: Path, node_id: int) -> Path:
    return data_directory(directory, node_id) / METADATA_DIRECTORY / SEGMENT


def entries(*content: tuple[int, bytes]) -> bytes:
    made = [
        batch.build([batch.NewRecord(None, value)], base_offset=offset, leader_epoch=epoch, timestamp_ms=1)
        for offset, (epoch, value) in enumerate(content)
    ]
    return b"".join(bytes(one) for one in made)


def state_of(directory: Path, node_id: int) -> ElectionState:
    disk = PosixDisk(str(data_directory(directory, node_id)))
    state, error = state_file.load_if_sound(disk, f"{METADATA_DIRECTORY}/quorum-state")
    assert state is not None, error
    return state


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five brokers, stopped; the first three vote."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # it takes most of the time, and the machine does not crash
    layout = cluster_layout.create("c", 5, None).all_formatted()
    cluster_layout.save(tmp_path, layout)
    logs = {1: COMMITTED, 2: COMMITTED, 3: COMMITTED[:2], 4: COMMITTED[:3], 5: COMMITTED[:1]}
    for node_id, log in logs.items():
        data = data_directory(tmp_path, node_id)
        format_directory(str(data), cluster_id="c", node_id=node_id)
        disk = PosixDisk(str(data))
        state_file.make_directory_durable(disk, METADATA_DIRECTORY)
        log_file(tmp_path, node_id).write_bytes(entries(*log))
        epoch = 6 if node_id == 3 else 4
        state_file.persist(disk, f"{METADATA_DIRECTORY}/quorum-state", ElectionState(epoch=epoch, voted_id=3), OLD)
    return tmp_path


def check_complete(directory: Path) -> None:
    layout = cluster_layout.load(directory)
    assert layout is not None
    assert layout.voters == NEW
    assert layout.brokers == 5
    for voter in NEW:
        assert log_file(directory, voter).read_bytes() == entries(*COMMITTED)
    for node in layout.nodes:
        ownership.check_voters(str(data_directory(directory, node.id)), NEW)
        assert state_of(directory, node.id) == ElectionState(epoch=7)
        assert sorted(path.name for path in (data_directory(directory, node.id) / "metadata").iterdir()) == [
            "__cluster_metadata-0"
        ]


def test_new_voters_get_the_most_up_to_date_log_and_no_old_vote_counts(cluster: Path) -> None:
    """B9, Q4: the epoch is above every one in which a vote was given."""
    said: list[str] = []
    set_voters(cluster, NEW, said.append)
    check_complete(cluster)
    assert said[-1] == "the voters are 2,3,4,5; they were 1,2,3"
    set_voters(cluster, NEW, said.append)
    assert said[-1] == "the voters are 2,3,4,5"
    check_complete(cluster)


class Crash(BaseException):
    """The process is gone."""


class Operations:
    """The disk fails after a number of operations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
        self.left = allowed
        for owner, names in ((PosixDisk, ("rename", "remove", "rmtree", "mkdir")), (PosixFile, ("append", "truncate"))):
            for name in names:
                monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, method: Any) -> Any:
        def run(*args: Any) -> Any:
            if self.left == 0:
                raise Crash
            self.left -= 1
            return method(*args)

        return run


def may_start(directory: Path, node_id: int, voters: tuple[int, ...]) -> bool:
    try:
        ownership.check_voters(str(data_directory(directory, node_id)), voters)
    except StartupError:
        return False
    return True


def check_safe(directory: Path) -> None:
    """Never may a majority of the old voters run while a majority of the new ones may, and none without its log."""
    old = [voter for voter in OLD if may_start(directory, voter, OLD)]
    new = [voter for voter in NEW if may_start(directory, voter, NEW)]
    assert len(old) <= len(OLD) // 2 or len(new) <= len(NEW) // 2
    for voter in old:
        expected = entries(*(COMMITTED if voter != 3 else COMMITTED[:2]))
        assert log_file(directory, voter).read_bytes() == expected
    for voter in new:
        assert log_file(directory, voter).read_bytes() == entries(*COMMITTED)


@pytest.mark.slow
def test_a_change_may_be_interrupted_anywhere(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """B9: nodes with old and new voters cannot both run, and the same command completes the change."""
    count = 0
    while True:
        directory = tmp_path_factory.mktemp("cluster") / "copy"
        shutil.copytree(cluster, directory)
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = Operations(monkeypatch, count)
            try:
                set_voters(directory, NEW, lambda text: None)
            except Crash:
                pass
            else:
                assert disk.left == 0
                break
        check_safe(directory)
        set_voters(directory, NEW, lambda text: None)
        check_complete(directory)
        shutil.rmtree(directory)
        count += 1
    assert count > 50


def test_an_interrupted_change_is_completed_before_another(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B9: some of its nodes have the new voters already."""
    with monkeypatch.context() as interrupted:
        interrupted.setattr(cluster_layout, "save", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            set_voters(cluster, NEW, lambda text: None)
    assert not any(may_start(cluster, node, voters) for node in range(1, 6) for voters in (OLD, NEW))
    with pytest.raises(VoterChangeError, match="Complete it first: insync quorum set-voters 2,3,4,5 --data"):
        set_voters(cluster, (1,), lambda text: None)
    set_voters(cluster, NEW, lambda text: None)
    check_complete(cluster)


def test_a_running_node_prevents_a_change(cluster: Path) -> None:
    """B9: so does a cluster that is being supervised."""
    for directory in (cluster, data_directory(cluster, 4)):
        with DirectoryLock(str(directory)), pytest.raises(DirectoryLockedError):
            set_voters(cluster, NEW)
    assert all(may_start(cluster, node, OLD) for node in range(1, 6))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is damaged at byte"),
        (lambda path: path.write_bytes(path.read_bytes()[:70] + b"x" + path.read_bytes()[71:]), "is damaged at byte"),
        (
            lambda path: path.write_bytes(path.read_bytes()[len(entries(COMMITTED[0])) :]),
            "there is no snapshot of what was before",
        ),
        (lambda path: (path.parent / "quorum-state").write_bytes(b"{"), "quorum-state is damaged"),
        (lambda path: (path.parents[2] / "meta.properties").unlink(), "holds data but no meta.properties"),
    ],
)
def test_a_damaged_voter_prevents_a_change(cluster: Path, damage: Any, message: str) -> None:
    """B9: what it has lost may be what was committed."""
    damage(log_file(cluster, 2))
    with pytest.raises(StartupError, match=message):
        set_voters(cluster, NEW)
    assert voter_set.stored_voters(PosixDisk(str(data_directory(cluster, 1))), METADATA_DIRECTORY) == OLD


def test_only_nodes_of_the_cluster_can_vote(cluster: Path) -> None:
    for voters, message in (((1, 2, 9), "no node 9"), ((), "has the nodes 1,2,3,4,5")):
        with pytest.raises(VoterChangeError, match=message):
            set_voters(cluster, voters)
    cluster_layout.save(cluster, cluster_layout.create("c", 2, 3).all_formatted())
    for node_id in range(1, 6):
        disk = PosixDisk(str(data_directory(cluster, node_id)))
        state_file.persist(disk, f"{METADATA_DIRECTORY}/quorum-state", ElectionState(epoch=4), (3, 4, 5))
    with pytest.raises(VoterChangeError, match="Node 5 is not a broker"):
        set_voters(cluster, (3, 4))


# --- an empty disk ---------------------------------------------------------------------------------------------------


def empty(directory: Path, node_id: int) -> None:
    shutil.rmtree(data_directory(directory, node_id))


def test_a_voter_with_an_empty_disk_gets_its_log_back_before_it_votes(cluster: Path) -> None:
    """B9, Q4: with an empty log it would vote for any candidate, one that lacks what was committed among them."""
    layout = cluster_layout.load(cluster)
    assert layout is not None
    empty(cluster, 1)
    assert rebuild_voter(cluster, layout, 1) == 2
    assert log_file(cluster, 1).read_bytes() == entries(*COMMITTED)
    assert state_of(cluster, 1) == ElectionState(epoch=7)
    assert read_identity(str(data_directory(cluster, 1))).node_id == 1
    ownership.check_voters(str(data_directory(cluster, 1)), OLD)


def test_without_a_majority_no_voter_is_rebuilt(cluster: Path) -> None:
    """B9: what is left may be a log that lacks what was committed."""
    layout = cluster_layout.load(cluster)
    assert layout is not None
    empty(cluster, 1)
    empty(cluster, 2)
    with pytest.raises(VoterChangeError, match="1 of 3 are left, not a majority"):
        rebuild_voter(cluster, layout, 1)
    assert not is_formatted(str(data_directory(cluster, 1)))


def test_rebuilding_may_be_interrupted_anywhere(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B9: half a copy is not taken for a voter, nor for data that lost its identity."""
    layout = cluster_layout.load(cluster)
    assert layout is not None
    for count in range(100):
        empty(cluster, 1)
        data_directory(cluster, 1).mkdir()
        with monkeypatch.context() as limited:
            Operations(limited, count)
            try:
                rebuild_voter(cluster, layout, 1)
            except Crash:
                pass
            else:
                break
        if not is_formatted(str(data_directory(cluster, 1))):
            rebuild_voter(cluster, layout, 1)
        assert log_file(cluster, 1).read_bytes() == entries(*COMMITTED)
        assert state_of(cluster, 1) == ElectionState(epoch=7)
    else:
        pytest.fail("it never came to an end")
