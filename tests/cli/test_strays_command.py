"""`insync strays`: files that a node set aside, for an operator to remove or restore (B9)."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from insync.cli.main import app
from insync.server.directory_lock import DirectoryLock
from insync.storage import checkpoints
from insync.storage.config import LogConfig
from insync.storage.log_store import LogStore
from insync.storage.posix import PosixDisk
from insync.wire import batch

OLD, NEW = UUID(int=10), UUID(int=11)
STRAY = f"orders-0.{OLD.hex}-stray"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A node's directory with orders-0 of one topic, and as a stray of an earlier one that had ten records."""
    store = LogStore(PosixDisk(str(tmp_path)), "data")
    store.start()
    data = batch.build([batch.NewRecord(None, b"v")] * 10, timestamp_ms=1)
    store.create("orders", 0, OLD, LogConfig()).append_as_leader(data, batch.read_header(data), 1, 0)
    data = batch.build([batch.NewRecord(None, b"v")], timestamp_ms=1)
    store.create("orders", 0, NEW, LogConfig()).append_as_leader(data, batch.read_header(data), 1, 0)
    store.close_cleanly(7)
    return tmp_path


def strays(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["strays", *map(str, arguments)])


def test_strays_are_listed_with_partition_topic_and_size(directory: Path) -> None:
    """B9"""
    (row,) = json.loads(strays("list", directory, "--json").stdout)
    assert (row["name"], row["partition"], row["topic_id"]) == (STRAY, "orders-0", str(OLD))
    files = [path for path in (directory / "data" / STRAY).iterdir() if path.name != "stray.cause"]
    assert row["bytes"] == sum(path.stat().st_size for path in files)
    assert row["cause"] == "the metadata names another topic with this name"
    assert "orders-0" in strays("list", directory).stdout


def test_all_files_that_were_set_aside_are_listed_and_can_be_removed(directory: Path) -> None:
    """B9: segments that recovery took out of a log and damaged files of the metadata log too. None can be restored as
    the log of a partition, and no other file can be removed."""
    dropped = directory / "data" / "orders-0" / "00000000000000000000.log.0-dropped"
    dropped.write_bytes(b"12345")
    metadata = directory / "metadata" / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    damaged = metadata / "00000000000000000007-0000000001.checkpoint.damaged"
    damaged.write_bytes(b"123")
    rows = {row["name"]: row for row in json.loads(strays("list", directory, "--json").stdout)}
    names = [f"orders-0/{dropped.name}", f"metadata/__cluster_metadata-0/{damaged.name}"]
    assert sorted(rows) == sorted([STRAY, *names])
    assert [(rows[name]["bytes"], rows[name]["partition"]) for name in names] == [
        (5, "orders-0"),
        (3, "__cluster_metadata-0"),
    ]
    assert all(rows[name]["cause"] for name in names)
    assert rows[names[0]]["topic_id"] == str(NEW)
    assert "only a directory can be restored" in strays("restore", directory, names[0]).output
    assert strays("remove", directory, "orders-0/00000000000000000000.log").exit_code == 2
    assert strays("remove", directory, names[1]).exit_code == 0
    assert not damaged.exists()
    assert strays("remove", directory, "--all").exit_code == 0
    assert json.loads(strays("list", directory, "--json").stdout) == []
    assert (directory / "data" / "orders-0" / "00000000000000000000.log").exists()


def test_a_stray_is_removed_by_its_name(directory: Path) -> None:
    """B9: only an operator removes it."""
    assert strays("remove", directory).exit_code == 2
    assert strays("remove", directory, "orders-0").exit_code == 2
    assert (directory / "data" / "orders-0").exists()
    assert strays("remove", directory, STRAY).exit_code == 0
    assert json.loads(strays("list", directory, "--json").stdout) == []
    assert strays("list", directory).stdout == "no strays\n"
    assert (directory / "data" / "orders-0").exists()


def test_a_restored_stray_changes_places_with_the_present_log(directory: Path) -> None:
    """B9, B5: the node opens it on its next start, which is unclean."""
    assert strays("restore", directory, STRAY).exit_code == 0
    store = LogStore(PosixDisk(str(directory)), "data")
    assert store.start() == -1
    assert store.logs[OLD, 0].leo == 10
    (row,) = json.loads(strays("list", directory, "--json").stdout)
    assert row["topic_id"] == str(NEW)


@pytest.mark.parametrize("text", [str(OLD), checkpoints.encode_uuid(OLD)])
def test_a_stray_without_identity_is_restored_with_the_topic_id_that_is_given(directory: Path, text: str) -> None:
    """B9"""
    (directory / "data" / STRAY / "partition.metadata").unlink()
    refused = strays("restore", directory, STRAY)
    assert refused.exit_code == 2
    assert "--topic-id" in refused.output
    assert strays("restore", directory, STRAY, "--topic-id", text).exit_code == 0
    store = LogStore(PosixDisk(str(directory)), "data")
    store.start()
    assert store.logs[OLD, 0].leo == 10


def test_a_stray_of_another_topic_is_not_restored_under_a_wrong_id(directory: Path) -> None:
    assert strays("restore", directory, STRAY, "--topic-id", str(NEW)).exit_code == 2
    assert (directory / "data" / STRAY).exists()


def test_strays_of_a_running_node_are_left_alone(directory: Path) -> None:
    """B9: the node holds the lock of its directory."""
    with DirectoryLock(str(directory)):
        refused = strays("remove", directory, STRAY)
    assert refused.exit_code == 2
    assert "Stop that process first" in refused.output
    assert (directory / "data" / STRAY).exists()


def test_a_directory_that_is_not_a_nodes_is_an_error(tmp_path: Path) -> None:
    refused = strays("list", tmp_path)
    assert refused.exit_code == 2
    assert "log.dirs" in refused.output
