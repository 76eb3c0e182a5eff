"""The damage table of docs/guides/damage.md for the files of partitions, on real nodes.

Nothing acknowledged is lost while one of the replicas that counted as complete is intact, and no damage is silent.
`make test` tests some cells; `make damage` (INSYNC_DAMAGE=full) tests all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from insync.testing import Cluster
from tests.damage.damage_harness import (
    DAMAGES,
    FULL,
    Damage,
    add_records,
    back_up,
    broker_directory,
    damaged_cluster,
    find_lost_records,
    findings,
    flip,
    kill_all,
    partition_directory,
    remove,
    replace,
    start_all,
    stop_all,
    truncate,
    wait_for_finding,
    warnings,
    write_all,
)
from tests.polling import TIMEOUT_S

LOG_DAMAGED, FILE_REBUILT = "log_damaged", "file_rebuilt"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")

Cell = tuple[str, int, Damage]
"""The suffix of a file in a partition's directory, its number among those with this suffix, and the damage."""


def _make_cells() -> dict[str, Cell]:
    """By topic. Bit rot, which does not change the size of a segment, has a table of its own."""
    cells: dict[str, Cell] = {}
    for kind, damage in DAMAGES.items():
        cells[f"epochs-{kind}"] = ("leader-epoch-checkpoint", 0, damage)
        cells[f"identity-{kind}"] = ("partition.metadata", 0, damage)
        cells[f"index-{kind}"] = (".index", 0, damage)
        cells[f"timeindex-{kind}"] = (".timeindex", 0, damage)
        cells[f"snapshot-{kind}"] = (".snapshot", -1, damage)
        if kind != "flipped":
            cells[f"last-segment-{kind}"] = (".log", -1, damage)
            cells[f"middle-segment-{kind}"] = (".log", 1, damage)
            cells[f"first-segment-{kind}"] = (".log", 0, damage)
    cells["directory-removed"] = ("", 0, remove)
    return cells


OLD_COPIES = {
    "old-directory": "",
    "old-epochs": "leader-epoch-checkpoint",
    "old-index": ".index",
    "old-last-segment": ".log",
}
"""Topics of which one file, or the whole directory, is replaced by a copy from an earlier stop."""

CELLS = _make_cells()
SHORT = (
    "directory-removed",
    "identity-removed",
    "identity-flipped",
    "last-segment-emptied",
    "last-segment-truncated",
    "middle-segment-removed",
    "first-segment-removed",
    "epochs-removed",
    "index-flipped",
    "timeindex-truncated",
    "snapshot-removed",
    "old-directory",
    "old-epochs",
)
TOPICS = [topic for topic in (*CELLS, *OLD_COPIES) if FULL or topic in SHORT]


def _damage(cluster: Cluster, node: int, old: Path, *, clean: bool = True) -> None:
    """After an unclean stop, files that are written when a log is flushed or closed may be missing."""
    for topic in TOPICS:
        if topic in CELLS:
            ending, number, damage = CELLS[topic]
            directory = partition_directory(cluster, node, topic)
            files = sorted(directory.glob(f"*{ending}")) if ending else [directory]
            if clean or files:
                damage(files[number])
        else:
            ending = OLD_COPIES[topic]
            backup = old / str(node) / f"{topic}-0"
            source = sorted(backup.glob(f"*{ending}"))[-1] if ending else backup
            replace(partition_directory(cluster, node, topic) / (source.name if ending else ""), source)


def _expected_finding(topic: str) -> str | None:
    """The kind of finding after a clean stop. Indexes and snapshots hold nothing that the segments do not."""
    if topic.startswith(("index", "timeindex", "snapshot", "old-index")):
        return None
    return FILE_REBUILT if topic.startswith(("epochs", "identity", "old-epochs")) else LOG_DAMAGED


def _find_unreported(cluster: Cluster, node: int, expected: Callable[[str], str | None]) -> list[str]:
    """Cells whose damage this node has not reported in its log."""
    return [
        topic
        for topic in TOPICS
        if (kind := expected(topic)) is not None
        and not any(f"finding={kind}" in line for line in warnings(cluster, node, f"{topic}-0"))
    ]


def _clear_log(cluster: Cluster, *nodes: int) -> None:
    for node in nodes:
        cluster.log_of(node).write_text("")


def test_nothing_is_lost_whatever_happens_to_the_files_of_partitions(tmp_path: Path) -> None:
    """B5, B6, B9, E5, E6: every cell is one topic; RF 3, MinISR 2.

    1. All nodes stop cleanly, node 3 last, so that it is in every ISR. Its files are damaged, and it starts before the
       other replica that has everything, whose checkpoints are damaged too: node 2 must still count as clean.
    2. MinISR-many replicas are damaged, all that ISR and ELR have: node 3 as before, and node 2 gets an old backup of
       its whole data directory. Node 1, the first to leave the ISR, has everything.
    3. (full) The same damage to nodes 2 and 3, and after kill -9 of all nodes.
    """
    with damaged_cluster(tmp_path, TOPICS) as cluster:
        acknowledged = write_all(cluster, TOPICS, 120, "first")
        stop_all(cluster)
        for node in (2, 3):
            back_up(broker_directory(cluster, node), tmp_path / "old" / str(node))
        start_all(cluster, in_sync=TOPICS)
        add_records(acknowledged, write_all(cluster, TOPICS, 120, "second"))

        stop_all(cluster, last=3)
        _damage(cluster, 3, tmp_path / "old")
        for name in CHECKPOINTS:
            flip(broker_directory(cluster, 2) / name)
        _clear_log(cluster, 2, 3)
        start_all(cluster, later=2, in_sync=TOPICS)
        assert find_lost_records(cluster, acknowledged) == {}
        assert _find_unreported(cluster, 3, _expected_finding) == []
        assert [f for f in findings(cluster)[3] if f.severity == "critical"] == [], "restored, so no longer reported"
        assert [name for name in CHECKPOINTS if not warnings(cluster, 2, f"subject=data/{name}")] == []

        stop_all(cluster, last=3)
        replace(broker_directory(cluster, 2), tmp_path / "old" / "2")
        _damage(cluster, 3, tmp_path / "old")
        _clear_log(cluster, 3)
        start_all(cluster, in_sync=TOPICS)
        assert find_lost_records(cluster, acknowledged) == {}
        assert _find_unreported(cluster, 3, _expected_finding) == []

        if FULL:
            stop_all(cluster, last=3)
            for node in (2, 3):
                _damage(cluster, node, tmp_path / "old")
            start_all(cluster, in_sync=TOPICS)
            assert find_lost_records(cluster, acknowledged) == {}
        for nodes in ((3,), (2, 3)) if FULL else ():
            kill_all(cluster)
            for node in nodes:
                _damage(cluster, node, tmp_path / "old", clean=False)
            start_all(cluster, in_sync=TOPICS)
            assert find_lost_records(cluster, acknowledged) == {}


def test_a_truncated_log_of_the_only_replica_is_reported_as_long_as_it_runs(tmp_path: Path) -> None:
    """E6, E7: nothing can restore it; it is elected uncleanly with the records it has, and this is reported."""
    with Cluster(brokers=1, topics={"a": {"partitions": 1, "segment_bytes": 2_000}}, directory=tmp_path) as cluster:
        write_all(cluster, ["a"])
        stop_all(cluster, last=1)
        truncate(sorted(partition_directory(cluster, 1, "a").glob("*.log"))[1])
        start_all(cluster, in_sync=["a"])
        assert wait_for_finding(cluster, 1, LOG_DAMAGED, "a-0").severity == "critical"
        wait_for_finding(cluster, 1, "unclean_leader", "a-0")


def test_swapped_directories_of_two_partitions_do_not_swap_their_records(tmp_path: Path) -> None:
    """B9: both logs fit in epochs and offsets, so only partition.metadata distinguishes them."""
    with damaged_cluster(tmp_path, ["t"], partitions=2) as cluster:
        written: dict[int, list[bytes]] = {0: [], 1: []}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.num.messages": 1})
        for number in range(50):
            for partition, values in written.items():
                values.append(f"{partition}-{number:05}".encode())
                producer.produce("t", values[-1], partition=partition, timestamp=1_700_000_000_000 + number)
            assert producer.flush(TIMEOUT_S) == 0
        stop_all(cluster, last=3)
        first, second = (partition_directory(cluster, 3, "t", index) for index in (0, 1))
        first.rename(first.with_name("swapped"))
        second.rename(first)
        first.with_name("swapped").rename(second)
        start_all(cluster, in_sync=["t"])
        strays = [finding.subject for finding in findings(cluster)[3] if finding.kind == "stray_directory"]
        assert len(strays) == 2
        for node in (1, 2):
            cluster.stop(node)
        assert {partition: read_values(cluster, "t", partition, 50) for partition in written} == written


def read_values(cluster: Cluster, topic: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        messages = consumer.consume(count, TIMEOUT_S)
        return [message.value() or b"" for message in messages if message.error() is None]
    finally:
        consumer.close()
