"""One insync cluster and one Apache Kafka cluster for all tests with Java: `make interop-java`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import apache_kafka
from insync.server.local_cluster import LocalCluster
from interop.java import authorization_matrix, node_processes
from interop.java.kafka_tools import Tools, write_class_archive

SNAPSHOT_RECORDS = 30
"""Few records between two snapshots of the metadata log, so that there are snapshots for Kafka's tool to read."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("insync")
    settings = {"insync.metadata.snapshot.records": str(SNAPSHOT_RECORDS), "log.cleaner.backoff.ms": "500"}
    with LocalCluster(brokers=3, directory=str(directory), settings=settings) as local:
        write_class_archive(local.bootstrap)
        yield local


@pytest.fixture(scope="session")
def secured_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, node_processes.Node]]:
    """Logins with PLAIN and SCRAM, and the StandardAuthorizer."""
    with node_processes.running_pair(
        tmp_path_factory.mktemp("secured"), authorization_matrix.properties, authorization_matrix.FORMAT_OPTIONS
    ) as pair:
        yield pair


@pytest.fixture(scope="session")
def tools(cluster: LocalCluster) -> Tools:
    return Tools(cluster.bootstrap)


@pytest.fixture(scope="session")
def kafka() -> Iterator[apache_kafka.ApacheCluster]:
    settings = {**apache_kafka.SMALL, "offsets.topic.num.partitions": "3"}
    with apache_kafka.ApacheCluster(3, settings=settings) as apache:
        yield apache
