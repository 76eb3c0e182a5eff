"""kafka-dump-log reads every kind of file that a node writes: segments, indexes, producer snapshots, committed offsets,
and the metadata log with its snapshots. What a node keeps is in docs/guides/storage-files.md."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from insync.server.local_cluster import LocalCluster
from insync.testing import Cluster
from interop.java.kafka_tools import CLASSES, PATIENCE_S, Tools, lines_of, properties, run

RECORDS = 30_000
SEGMENT = ("--config", "segment.bytes=1048576")


def dump(files: list[Path], *options: str) -> str:
    """The tool ends well even over files that it cannot read, so what it says is looked at too."""
    assert files
    ran = run(CLASSES["kafka-dump-log"], "--files", ",".join(map(str, files)), *options)
    assert (ran.code, ran.err) == (0, ""), ran
    assert not re.search(r"isvalid: false|[Mm]ismatch|[Cc]ould not|Exception|non-monotonic|not found", ran.out), ran.out
    return ran.out


def files(cluster: LocalCluster, partition: str, *suffixes: str) -> list[Path]:
    """Those of one partition on the first node, in order."""
    (directory,) = cluster.nodes[1].directory.rglob(partition)
    return sorted(file for file in directory.iterdir() if file.suffix in suffixes)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def dumped(cluster: LocalCluster, tools: Tools) -> str:
    """A partition of several segments, the last of them closed by a clean stop."""
    tools.create("dumped", "--replica-assignment", "2:1", *SEGMENT, "--config", "index.interval.bytes=4096")
    tools.write_many("dumped", RECORDS, 100)
    cluster.stop_node(1)
    cluster.start_node(1)
    cluster.wait_until_ready()
    return "dumped-0"


def test_records(cluster: LocalCluster, dumped: str) -> None:
    logs = files(cluster, dumped, ".log")
    assert len(logs) >= 3
    text = dump(logs, "--print-data-log")
    assert [int(offset) for offset in lines_of(r"\| offset: (\d+) ", text)] == list(range(RECORDS))
    assert text.count("isvalid: true") == text.count("baseOffset:")
    assert {int(epoch) for epoch in re.findall(r"partitionLeaderEpoch: (\d+)", text)} == {0}


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_indexes(cluster: LocalCluster, dumped: str, option: str) -> None:
    indexes = files(cluster, dumped, ".index", ".timeindex")
    assert len(indexes) == 2 * len(files(cluster, dumped, ".log"))
    text = dump(indexes, option)
    assert text.count("passed sanity check.") == (len(indexes) if option == "--index-sanity-check" else 0)
    assert lines_of("Dumping (.*)$", text) == [str(file) for file in indexes]


def test_entries_of_indexes_and_what_is_known_of_producers(cluster: LocalCluster, dumped: str) -> None:
    """P4."""
    text = dump(files(cluster, dumped, ".index", ".timeindex", ".snapshot"))
    assert len(lines_of(r"offset: \d+ position: \d+$", text)) > 100
    assert len(lines_of(r"timestamp: \d+ offset: \d+$", text)) > 10
    last = lines_of(r"producerId: \d+ producerEpoch: 0 .* lastSequence: (\d+) lastOffset: (\d+) ", text)[-1]
    assert last == (str(RECORDS - 1), str(RECORDS - 1))


def test_a_compacted_log(cluster: LocalCluster, tools: Tools) -> None:
    """The last value of each key is left, under the offset that it always had."""
    policy = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0.01")
    tools.create("compacted", "--replica-assignment", "1", *SEGMENT, *policy)
    lines = [f"k{n % 10}:{n:0100}\n" for n in range(20_000)]
    tools.write("compacted", "".join(lines), *properties("parse.key=true", "key.separator=:"))
    eventually(lambda: files(cluster, "compacted-0", ".log")[0].stat().st_size < 10_000)
    text = dump(files(cluster, "compacted-0", ".log")[:1], "--print-data-log")
    kept = lines_of(r"\| offset: (\d+) .*key: (k\d) payload: (\d+)", text)
    assert len(kept) == len({key for _, key, _ in kept}) <= 10
    assert all(int(offset) == int(value) for offset, _, value in kept)


def test_committed_offsets_and_groups(cluster: LocalCluster, tools: Tools) -> None:
    tools.create("offsets", "--replica-assignment", "1:2:3")
    tools.write("offsets", "a\nb\n")
    tools.read("offsets", 2, "--group", "dumping")
    logs = [log for n in range(10) for log in files(cluster, f"__consumer_offsets-{n}", ".log") if log.stat().st_size]
    text = dump(logs, "--offsets-decoder")
    assert '{"type":"1","data":{"group":"dumping","topic":"offsets","partition":0}} payload: {"version":"3"' in text
    assert '{"type":"2","data":{"group":"dumping"}} payload: {"version":"3","data":{"protocolType":"consumer"' in text


def test_the_first_leader_of_the_metadata_log() -> None:
    """Q4. In a cluster of its own: a snapshot takes the place of the oldest records."""
    with Cluster(brokers=1) as own:
        own.stop(1)
        (directory,) = own.nodes[1].directory.rglob("__cluster_metadata-0")
        text = dump(sorted(directory.glob("*.log")), "--cluster-metadata-decoder")
    assert re.search(r'LeaderChange: {"version":0,"leaderId":1,"voters":\[{"voterId":1}\]', text)


def test_the_metadata_log_and_its_snapshots(cluster: LocalCluster, tools: Tools) -> None:
    """Q5, Q6."""
    tools.create("wide", "--partitions", "40")
    eventually(lambda: len(files(cluster, "__cluster_metadata-0", ".checkpoint")) > 0)
    text = dump(files(cluster, "__cluster_metadata-0", ".log"), "--cluster-metadata-decoder")
    assert '{"type":"TOPIC_RECORD","version":0,"data":{"name":"wide"' in text
    written = [int(stamp) for stamp in lines_of(r"baseOffset: .* CreateTime: (\d+) ", text)]
    assert abs(written[-1] - time.time() * 1000) < 600_000
    text = dump(files(cluster, "__cluster_metadata-0", ".checkpoint")[-1:], "--cluster-metadata-decoder")
    assert text.count('SnapshotHeader {"version":0,"lastContainedLogTimestamp":') == 1
    assert text.count('SnapshotFooter {"version":0}') == 1
    kinds = set(re.findall(r'"type":"(\w+)"', text))
    assert {"REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "FEATURE_LEVEL_RECORD"} <= kinds
