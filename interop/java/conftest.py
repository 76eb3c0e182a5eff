"""One insync cluster and one of Apache Kafka for everything here: `make interop-java`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import apache_kafka
from insync.server.local_cluster import LocalCluster
from interop.java.kafka_tools import Tools, write_archive

SNAPSHOT_RECORDS = 30
"""So few that the metadata log has snapshots for Kafka's tool to read."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("insync")
    settings = {"insync.metadata.snapshot.records": str(SNAPSHOT_RECORDS), "log.cleaner.backoff.ms": "500"}
    made = LocalCluster(brokers=3, directory=str(directory), settings=settings)
    made.start()
    try:
        write_archive(made.bootstrap)
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def tools(cluster: LocalCluster) -> Tools:
    return Tools(cluster.bootstrap)


@pytest.fixture(scope="session")
def kafka() -> Iterator[apache_kafka.ApacheCluster]:
    """With as few JVM threads and internal partitions as a small machine likes."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        "num.io.threads": "2",
        "num.network.threads": "1",
    }
    with apache_kafka.ApacheCluster(3, settings=settings) as made:
        yield made
