"""A client that starts before the brokers: it asks a node that does not know any broker yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from insync.server.local_cluster import LocalCluster


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster whose processes have just been started."""
    cluster = LocalCluster(brokers=3, directory=str(tmp_path))
    cluster.start(is_cancelled=lambda: True)
    yield cluster
    cluster.stop()


def test_librdkafka_gets_no_metadata_without_brokers_because_it_would_never_ask_again(
    starting: LocalCluster,
) -> None:
    quick: dict[str, Any] = {
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "log_level": 0,
        "error_cb": lambda _: None,
    }
    admin = AdminClient({"bootstrap.servers": starting.bootstrap, **quick})
    made = admin.create_topics([NewTopic("t", 1, 1)], request_timeout=60)["t"]
    assert made.result(timeout=60) is None
