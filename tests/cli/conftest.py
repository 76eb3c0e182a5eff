"""The `insync` command and librdkafka's admin client for the `cluster` of a module; modules may override them."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from insync.server.local_cluster import LocalCluster
from tests.insync_command import InsyncCommand


@pytest.fixture(scope="module")
def insync(cluster: LocalCluster) -> InsyncCommand:
    return InsyncCommand(cluster.bootstrap, timeout_s=20)


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})
