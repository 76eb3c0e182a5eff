"""Topics that are created and deleted: does the metadata log stay small, and does a node start quickly afterwards?

python bench/metadata_churn.py [--topics N] [--batch N] [--profile NAME] [--snapshot-records N]

Three nodes, three replicas. Topics are created and deleted in batches, `--topics` in all. After each tenth a line is
printed: bytes of the metadata log and number of snapshots on the node that has most of them, resident memory and
descriptors of the largest node. At the end every node is stopped and started again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from cluster_clients import settings
from cluster_results import INSYNC
from cluster_sides import BROKERS, Side
from common import table
from confluent_kafka.admin import AdminClient, NewTopic

from insync.quorum.config import METADATA_DIRECTORY
from insync.server.cluster_layout import data_directory
from insync.server.local_cluster import LocalCluster

TIMEOUT_S = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--profile", default="fast")
    parser.add_argument("--snapshot-records", type=int, help="records between snapshots (default: that of a node)")
    options = parser.parse_args()
    records = options.snapshot_records
    node_settings = {} if records is None else {"insync.metadata.snapshot.records": str(records)}
    with tempfile.TemporaryDirectory(prefix="bench-churn-") as directory:
        cluster = LocalCluster(brokers=BROKERS, directory=directory, profile=options.profile, settings=node_settings)
        side = Side(INSYNC, cluster)
        try:
            measure(side, options)
        finally:
            for node in cluster.nodes.values():
                if node.is_running:
                    cluster.kill(node.id)
            cluster.stop()


def measure(side: Side, options: argparse.Namespace) -> None:
    side.launch()
    side.wait_until_ready()
    rows = churn(side, options.topics, options.batch)
    table(
        f"{options.topics:,} topics created and deleted, {options.profile} profile",
        ("topics", "seconds", "log KB", "segments", "snapshots", "snapshot KB", "RSS MB", "descriptors"),
        rows,
    )
    began = time.monotonic()
    side.shut_down()
    stopped = time.monotonic()
    side.launch()
    side.wait_until_ready()
    print(f"stopped in {stopped - began:.2f} s, ready again after {time.monotonic() - stopped:.2f} s")
    print("sizes after the restart:", describe(side))


def churn(side: Side, topics: int, batch: int) -> list[tuple[object, ...]]:
    admin = AdminClient(settings(side.bootstrap))
    began = time.monotonic()
    rows: list[tuple[object, ...]] = [(0, 0.0, *describe(side))]
    for first in range(0, topics, batch):
        names = [f"churn-{number}" for number in range(first, min(first + batch, topics))]
        created = admin.create_topics([NewTopic(name, 1, 3) for name in names], operation_timeout=TIMEOUT_S)
        for future in created.values():
            future.result(TIMEOUT_S)
        for future in admin.delete_topics(names, operation_timeout=TIMEOUT_S).values():
            future.result(TIMEOUT_S)
        done = first + len(names)
        if done * 10 // topics > first * 10 // topics:
            rows.append((done, time.monotonic() - began, *describe(side)))
            print(*rows[-1], flush=True)
    return rows


def describe(side: Side) -> tuple[object, ...]:
    """The largest figure of any node, for its metadata directory and its process."""
    figures = []
    for node in side.cluster.nodes.values():
        files = [
            (path.name, path.stat().st_size)
            for path in Path(data_directory(side.cluster.directory, node.id), METADATA_DIRECTORY).iterdir()
        ]
        logs = [size for name, size in files if name.endswith(".log")]
        snapshots = [size for name, size in files if name.endswith(".checkpoint") and name[0].isdigit()]
        descriptors = len(os.listdir(f"/proc/{node.pid}/fd"))
        figures.append((sum(logs) >> 10, len(logs), len(snapshots), sum(snapshots) >> 10, descriptors))
    log_kb, segments, snapshots_kept, snapshot_kb, descriptors = (max(column) for column in zip(*figures, strict=True))
    return log_kb, segments, snapshots_kept, snapshot_kb, round(max(side.resident_mb()), 1), descriptors


if __name__ == "__main__":
    main()
