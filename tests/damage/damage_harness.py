"""Damage to the files of stopped nodes, and the check that nothing acknowledged is lost or repaired silently.

A test starts one cluster with many topics of one partition each. Every topic is one cell of the table in
docs/guides/damage.md: after `stop_all` its files on some nodes are damaged in one way, and after `start_all` its
records are compared with those that were acknowledged before. So one start of the cluster tests a whole row of cells.

    with damaged_cluster(tmp_path, ["log-emptied", ...]) as cluster:
        acknowledged = write_all(cluster, topics)
        stop_all(cluster, last=3)
        empty(last_segment(cluster, 3, "log-emptied"))
        start_all(cluster)
        assert find_lost_records(cluster, acknowledged) == {}
        assert findings(cluster)
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from insync.client.sync_client import SyncClient
from insync.findings import Finding
from insync.ops import health
from insync.testing import Cluster
from tests.polling import TIMEOUT_S, wait_until

FULL = os.environ.get("INSYNC_DAMAGE") == "full"
"""`make damage` tests every cell of the table; `make test` one of each kind."""

Damage = Callable[[Path], None]


# --- the cluster ------------------------------------------------------------------------------------------------------


@contextmanager
def damaged_cluster(
    directory: Path, topics: Iterable[str], *, partitions: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Three nodes that vote and hold a replica of every topic (RF 3, MinISR 2). Their logs are kept on failure."""
    configs = {"partitions": partitions, "replication_factor": 3, "min_insync_replicas": 2, "segment_bytes": 20_000}
    plans = {topic: {**configs, **(settings or {})} for topic in topics}
    with Cluster(brokers=3, topics=plans, directory=directory) as cluster:
        yield cluster


def stop_all(cluster: Cluster, *, last: int = 3) -> None:
    """A clean stop of every node; node `last` stops last, so it is in the ISR of all partitions that it holds."""
    order = [node for node in cluster.nodes if node != last]
    for node in order:
        cluster.stop(node)
    process = cluster.nodes[last].process
    assert process is not None
    deadline = time.monotonic() + TIMEOUT_S
    while process.poll() is None:  # there is no quorum to permit the stop: a second signal ends the wait
        assert time.monotonic() < deadline, f"node {last} does not stop"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    for node in cluster.nodes:
        assert (broker_directory(cluster, node) / ".kafka_cleanshutdown").exists(), f"node {node} did not stop cleanly"


def kill_all(cluster: Cluster) -> None:
    """An unclean stop of every node, as kill -9 leaves it."""
    for node in cluster.nodes:
        cluster.kill(node)


def start_all(cluster: Cluster, *, later: int | None = None, in_sync: Iterable[str] = ()) -> None:
    """Start every node; returns when all are registered and the topics `in_sync` have a full ISR. Node `later` starts
    when the others run, so that one of them is elected wherever the controller lets it be."""
    _start(cluster, [node for node in cluster.nodes if node != later])
    if later is not None:
        _start(cluster, [later])
    cluster.wait_until_ready(TIMEOUT_S)
    for topic in in_sync:
        cluster.wait_for_isr(topic, timeout_s=TIMEOUT_S)


def _start(cluster: Cluster, nodes: Sequence[int]) -> None:
    """Returns when the nodes are unfenced: before that they have the metadata of their last incarnation."""
    written = {node: cluster.log_of(node).stat().st_size for node in nodes}
    for node in nodes:
        cluster.start(node, wait=False)
    for node, size in written.items():
        wait_until(
            partial(_is_unfenced, cluster, node, size),
            f"node {node} is unfenced",
            state=partial(cluster.last_lines_of, node, 5),
        )


def _is_unfenced(cluster: Cluster, node: int, log_size: int) -> bool:
    """According to the log lines after the first `log_size` bytes."""
    return b"state=running" in cluster.log_of(node).read_bytes()[log_size:]


# --- files ------------------------------------------------------------------------------------------------------------


def node_directory(cluster: Cluster, node: int) -> Path:
    """The directory in `log.dirs`, with meta.properties, metadata/ and data/."""
    return cluster.nodes[node].directory / "data"


def broker_directory(cluster: Cluster, node: int) -> Path:
    """The directory with the logs of partitions and the checkpoints."""
    return node_directory(cluster, node) / "data"


def metadata_directory(cluster: Cluster, node: int) -> Path:
    return node_directory(cluster, node) / "metadata" / "__cluster_metadata-0"


def partition_directory(cluster: Cluster, node: int, topic: str, index: int = 0) -> Path:
    return broker_directory(cluster, node) / f"{topic}-{index}"


def segments(cluster: Cluster, node: int, topic: str) -> list[Path]:
    return sorted(partition_directory(cluster, node, topic).glob("*.log"))


def last_segment(cluster: Cluster, node: int, topic: str) -> Path:
    return segments(cluster, node, topic)[-1]


# --- kinds of damage --------------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    """Invert a byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def truncate(path: Path) -> None:
    """Keep two thirds."""
    os.truncate(path, path.stat().st_size * 2 // 3)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def replace(path: Path, old: Path) -> None:
    """Replace a file or directory by an old copy."""
    if path.exists():
        remove(path)
    if old.is_dir():
        shutil.copytree(old, path)
    else:
        shutil.copy2(old, path)


def back_up(path: Path, to: Path) -> Path:
    """A copy of a file or directory for `replace`."""
    to.parent.mkdir(parents=True, exist_ok=True)
    replace(to, path)
    return to


DAMAGES: Mapping[str, Damage] = {"flipped": flip, "truncated": truncate, "emptied": empty, "removed": remove}


# --- records ----------------------------------------------------------------------------------------------------------


def write_all(cluster: Cluster, topics: Iterable[str], count: int = 60, tag: str = "v") -> dict[str, list[str]]:
    """Write `count` records to each topic, in batches of a few records; returns what was acknowledged (acks=all)."""
    acknowledged: dict[str, list[str]] = {topic: [] for topic in topics}
    failed: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": int(TIMEOUT_S * 1_000),
            "batch.num.messages": 7,
            "linger.ms": 1,
            "retry.backoff.ms": 20,
        }
    )
    for number in range(count):
        for topic, values in acknowledged.items():
            value = f"{tag}-{number:05d}-{'x' * 200}"

            def delivered(error: KafkaError | None, _: object, value: str = value, to: list[str] = values) -> None:
                failed.append(error) if error else to.append(value)

            producer.produce(topic, value, partition=0, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed, failed[0]
    return acknowledged


def add_records(acknowledged: dict[str, list[str]], more: Mapping[str, Sequence[str]]) -> None:
    for topic, values in more.items():
        acknowledged[topic] += values


def find_lost_records(cluster: Cluster, acknowledged: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """By topic, how many acknowledged records cannot be read; empty if all can, each once and in order."""
    settings = {"group.id": "damage", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    try:
        return {
            topic: f"{missing} of {len(values)}"
            for topic, values in acknowledged.items()
            if (missing := _count_missing(values, _read(consumer, topic)))
        }
    finally:
        consumer.close()


def _count_missing(values: Sequence[str], read: Sequence[str]) -> int:
    present = set(read)
    missing = sum(value not in present for value in values)
    if not missing:
        assert [value for value in read if value in set(values)] == list(values), "records were repeated or reordered"
    return missing


def _read(consumer: Consumer, topic: str) -> list[str]:
    deadline = time.monotonic() + TIMEOUT_S
    start, end = _watermarks(consumer, topic, deadline)
    values: list[str] = []
    consumer.assign([TopicPartition(topic, 0, start)])
    while start < end:
        assert time.monotonic() < deadline, f"{topic} ends at {end}, but cannot be read from {start} on"
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                values.append((message.value() or b"").decode())
                start = (message.offset() or 0) + 1
    return values


def _watermarks(consumer: Consumer, topic: str, deadline: float) -> tuple[int, int]:
    """This call, unlike others, does not retry when the client has an old leader."""
    while True:
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
            return start, end
        except KafkaException:
            assert time.monotonic() < deadline, f"{topic} has no leader"
            consumer.list_topics(topic, timeout=TIMEOUT_S)


# --- findings ---------------------------------------------------------------------------------------------------------


def findings(cluster: Cluster) -> dict[int, list[Finding]]:
    """The findings that each broker reports."""
    with SyncClient(cluster.bootstrap) as client:
        picture = client.call(health.snapshot_cluster)
    return {node: list(reported) for node, reported in picture.node_findings.items()}


def wait_for_finding(cluster: Cluster, node: int, kind: str, subject: str) -> Finding:
    def reported() -> Finding | None:
        of_node = findings(cluster).get(node, [])
        return next((finding for finding in of_node if (finding.kind, finding.subject) == (kind, subject)), None)

    description = f"node {node} reports {kind} of {subject}"
    return wait_until(reported, description, state=lambda: findings(cluster).get(node))


def warnings(cluster: Cluster, node: int, subject: str) -> list[str]:
    """The WARNING and ERROR lines of a node's log that name `subject`."""
    lines = cluster.log_of(node).read_text(errors="replace").splitlines()
    return [line for line in lines if subject in line and ("level=WARNING" in line or "level=ERROR" in line)]
