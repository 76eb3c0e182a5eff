"""Cells of the damage table that take long: files that all partitions share, whole directories, strays.

Part of `make damage`; `make test` has tests of the same rules without processes, in tests/storage and tests/node.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from typer.testing import CliRunner

from insync.cli.main import app
from tests.damage.damage_harness import (
    DAMAGES,
    add_records,
    back_up,
    broker_directory,
    damaged_cluster,
    find_lost_records,
    kill_all,
    node_directory,
    partition_directory,
    remove,
    replace,
    start_all,
    stop_all,
    wait_for_finding,
    write_all,
)

NODE_FILES = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)


def test_nothing_is_lost_whatever_happens_to_the_files_that_all_partitions_share(tmp_path: Path) -> None:
    """B5, B6: on one node, and on all three at once."""
    topics = ["a", "b"]
    with damaged_cluster(tmp_path, topics) as cluster:
        acknowledged = write_all(cluster, topics)
        stop_all(cluster)
        for node in cluster.nodes:
            for name in NODE_FILES:
                back_up(broker_directory(cluster, node) / name, tmp_path / "old" / str(node) / name)
        start_all(cluster, in_sync=topics)
        add_records(acknowledged, write_all(cluster, topics, tag="second"))
        kinds = [*DAMAGES, "old"]
        for kind in kinds:
            for nodes in ((3,), (1, 2, 3)):
                stop_all(cluster)
                for node in nodes:
                    for name in NODE_FILES:
                        path = broker_directory(cluster, node) / name
                        if kind == "old":
                            replace(path, tmp_path / "old" / str(node) / name)
                        else:
                            DAMAGES[kind](path)
                start_all(cluster, in_sync=topics)
                assert find_lost_records(cluster, acknowledged) == {}, (kind, nodes)


def test_a_data_directory_that_is_empty_or_from_an_old_backup_is_restored_from_the_others(tmp_path: Path) -> None:
    """B6, E5: an old copy of everything is consistent, but its clean-shutdown file has an old broker epoch."""
    topics = ["a", "b"]
    with damaged_cluster(tmp_path, topics) as cluster:
        acknowledged = write_all(cluster, topics)
        stop_all(cluster)
        old = back_up(broker_directory(cluster, 3), tmp_path / "old")
        start_all(cluster, in_sync=topics)
        add_records(acknowledged, write_all(cluster, topics, tag="second"))

        stop_all(cluster, last=3)
        replace(broker_directory(cluster, 3), old)
        start_all(cluster, later=2, in_sync=topics)
        assert find_lost_records(cluster, acknowledged) == {}

        stop_all(cluster, last=3)
        shutil.rmtree(broker_directory(cluster, 3))
        start_all(cluster, later=2, in_sync=topics)
        assert find_lost_records(cluster, acknowledged) == {}


def test_a_log_without_metadata_is_kept_and_reported_until_it_is_removed(tmp_path: Path) -> None:
    """B9: the directory is of a topic of another cluster. A topic of that name can be created nevertheless."""
    with damaged_cluster(tmp_path, ["a"]) as cluster:
        acknowledged = write_all(cluster, ["a"])
        cluster.stop(3)
        directory = partition_directory(cluster, 3, "b")
        back_up(partition_directory(cluster, 3, "a"), directory)
        (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAACQ")
        size = sum(path.stat().st_size for path in directory.iterdir())
        cluster.start(3)
        stray = f"data/b-0.{9:032x}-stray"
        assert f"{size} bytes" in wait_for_finding(cluster, 3, "stray_directory", stray).text
        cluster.create_topic("b", replication_factor=3)
        acknowledged |= write_all(cluster, ["b"])
        cluster.restart(3)
        wait_for_finding(cluster, 3, "stray_directory", stray)
        cluster.wait_for_isr("a")
        cluster.wait_for_isr("b")
        assert find_lost_records(cluster, acknowledged) == {}


def test_an_operator_can_restore_records_that_every_node_set_aside(tmp_path: Path) -> None:
    """B9, E6: after kill -9, all three nodes have lost the topic id. The steps in the guide restore the log."""
    with damaged_cluster(tmp_path, ["a", "b"]) as cluster:
        acknowledged = write_all(cluster, ["a", "b"])
        topic_id = (partition_directory(cluster, 1, "a") / "partition.metadata").read_text().split()[-1]
        kill_all(cluster)
        for node in cluster.nodes:
            (partition_directory(cluster, node, "a") / "partition.metadata").unlink()
        start_all(cluster, in_sync=["a", "b"])
        assert list(find_lost_records(cluster, acknowledged)) == ["a"]
        stray = f"a-0.{0:032x}-stray"
        wait_for_finding(cluster, 3, "stray_directory", f"data/{stray}")

        stop_all(cluster)
        command = ["strays", "restore", str(node_directory(cluster, 3)), stray, "--topic-id", topic_id]
        assert CliRunner().invoke(app, command).exit_code == 0
        for node in (1, 2):
            remove(partition_directory(cluster, node, "a"))
            remove(broker_directory(cluster, node) / ".kafka_cleanshutdown")
        start_all(cluster, in_sync=["a", "b"])
        assert find_lost_records(cluster, acknowledged) == {}
