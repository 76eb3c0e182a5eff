"""kafka-dump-log reads every kind of file that a node writes: segments, indexes, producer snapshots, committed offsets,
and the metadata log with its snapshots. docs/guides/storage-files.md lists the files."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from insync.server.local_cluster import LocalCluster
from insync.testing import Cluster
from interop.java.kafka_tools import CLASSES, Tools, find_lines, property_options, run
from tests.polling import wait_until

RECORDS = 30_000
SEGMENT = ("--config", "segment.bytes=1048576")


def dump(files: list[Path], *options: str) -> str:
    """The tool exits with 0 even after files that it cannot read, so its output is checked too."""
    assert files
    completed = run(CLASSES["kafka-dump-log"], "--files", ",".join(map(str, files)), *options)
    assert (completed.exit_code, completed.stderr) == (0, ""), completed
    errors = r"isvalid: false|[Mm]ismatch|[Cc]ould not|Exception|non-monotonic|not found"
    assert not re.search(errors, completed.stdout), completed.stdout
    return completed.stdout


def list_files(cluster: LocalCluster, partition: str, *suffixes: str) -> list[Path]:
    """The files of a partition on the first node, in order of their names."""
    (directory,) = cluster.nodes[1].directory.rglob(partition)
    return sorted(file for file in directory.iterdir() if file.suffix in suffixes)


@pytest.fixture(scope="module")
def partition(cluster: LocalCluster, tools: Tools) -> str:
    """Has several segments; a clean shutdown has closed the last one."""
    tools.create_topic("dumped", "--replica-assignment", "2:1", *SEGMENT, "--config", "index.interval.bytes=4096")
    tools.produce_many("dumped", RECORDS, 100)
    cluster.stop_node(1)
    cluster.start_node(1)
    cluster.wait_until_ready()
    return "dumped-0"


def test_it_reads_records(cluster: LocalCluster, partition: str) -> None:
    logs = list_files(cluster, partition, ".log")
    assert len(logs) >= 3
    text = dump(logs, "--print-data-log")
    assert [int(offset) for offset in find_lines(r"\| offset: (\d+) ", text)] == list(range(RECORDS))
    assert text.count("isvalid: true") == text.count("baseOffset:")
    assert {int(epoch) for epoch in re.findall(r"partitionLeaderEpoch: (\d+)", text)} == {0}


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_it_checks_indexes(cluster: LocalCluster, partition: str, option: str) -> None:
    indexes = list_files(cluster, partition, ".index", ".timeindex")
    assert len(indexes) == 2 * len(list_files(cluster, partition, ".log"))
    text = dump(indexes, option)
    assert text.count("passed sanity check.") == (len(indexes) if option == "--index-sanity-check" else 0)
    assert find_lines("Dumping (.*)$", text) == [str(file) for file in indexes]


def test_it_reads_entries_of_indexes_and_producer_snapshots(cluster: LocalCluster, partition: str) -> None:
    """P4."""
    text = dump(list_files(cluster, partition, ".index", ".timeindex", ".snapshot"))
    assert len(find_lines(r"offset: \d+ position: \d+$", text)) > 100
    assert len(find_lines(r"timestamp: \d+ offset: \d+$", text)) > 10
    last = find_lines(r"producerId: \d+ producerEpoch: 0 .* lastSequence: (\d+) lastOffset: (\d+) ", text)[-1]
    assert last == (str(RECORDS - 1), str(RECORDS - 1))


def test_it_reads_a_compacted_log(cluster: LocalCluster, tools: Tools) -> None:
    """Of the first segment only a key that is not written again is left, with its original offset."""
    policy = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0.01")
    tools.create_topic("compacted", "--replica-assignment", "1", *SEGMENT, *policy)
    lines = ["once:first\n", *(f"k{n % 10}:{n:0100}\n" for n in range(20_000))]
    tools.produce_lines("compacted", "".join(lines), *property_options("parse.key=true", "key.separator=:"))
    wait_until(
        lambda: list_files(cluster, "compacted-0", ".log")[0].stat().st_size < 10_000, "the first segment is compacted"
    )
    text = dump(list_files(cluster, "compacted-0", ".log")[:1], "--print-data-log")
    kept = find_lines(r"\| offset: (\d+) .*key: (\w+) payload: (\w+)", text)
    assert kept == [("0", "once", "first")]


def test_it_reads_committed_offsets_and_groups(cluster: LocalCluster, tools: Tools) -> None:
    tools.create_topic("offsets", "--replica-assignment", "1:2:3")
    tools.produce_lines("offsets", "a\nb\n")
    tools.consume("offsets", 2, "--group", "dumping")
    logs = [
        log for n in range(10) for log in list_files(cluster, f"__consumer_offsets-{n}", ".log") if log.stat().st_size
    ]
    text = dump(logs, "--offsets-decoder")
    assert '{"type":"1","data":{"group":"dumping","topic":"offsets","partition":0}} payload: {"version":"3"' in text
    assert '{"type":"2","data":{"group":"dumping"}} payload: {"version":"3","data":{"protocolType":"consumer"' in text


def test_it_reads_the_first_leader_of_the_metadata_log() -> None:
    """Q4. In a new cluster: elsewhere a snapshot may have replaced the oldest records."""
    with Cluster(brokers=1) as new_cluster:
        new_cluster.stop(1)
        (directory,) = new_cluster.nodes[1].directory.rglob("__cluster_metadata-0")
        text = dump(sorted(directory.glob("*.log")), "--cluster-metadata-decoder")
    assert re.search(r'LeaderChange: {"version":0,"leaderId":1,"voters":\[{"voterId":1}\]', text)


def test_it_reads_the_metadata_log_and_its_snapshots(cluster: LocalCluster, tools: Tools) -> None:
    """Q5, Q6."""
    tools.create_topic("wide", "--partitions", "40")
    wait_until(lambda: list_files(cluster, "__cluster_metadata-0", ".checkpoint"), "there is a snapshot")
    text = dump(list_files(cluster, "__cluster_metadata-0", ".log"), "--cluster-metadata-decoder")
    assert '{"type":"TOPIC_RECORD","version":0,"data":{"name":"wide"' in text
    timestamps_ms = [int(timestamp) for timestamp in find_lines(r"baseOffset: .* CreateTime: (\d+) ", text)]
    assert abs(timestamps_ms[-1] - time.time() * 1000) < 600_000
    text = dump(list_files(cluster, "__cluster_metadata-0", ".checkpoint")[-1:], "--cluster-metadata-decoder")
    assert text.count('SnapshotHeader {"version":0,"lastContainedLogTimestamp":') == 1
    assert text.count('SnapshotFooter {"version":0}') == 1
    record_types = set(re.findall(r'"type":"(\w+)"', text))
    assert {"REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "FEATURE_LEVEL_RECORD"} <= record_types
