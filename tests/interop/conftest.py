"""One cluster of three real nodes for all tests of stock clients that a pytest process runs.

The expectations are Kafka's, not ours. Whoever doubts one asks Kafka itself, and runs the tests that need no kill
against a cluster of three brokers, 1 to 3, that is there already (see below for its settings):

    INSYNC_INTEROP_BOOTSTRAP=127.0.0.1:9092 pytest tests/interop
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from insync.server import node_query
from insync.server.local_cluster import LocalCluster
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata
from tests.interop.interop_clients import PATIENCE_S, SILENT, MakeTopic
from tests.interop.interop_members import eventually

GIVEN = os.environ.get("INSYNC_INTEROP_BOOTSTRAP", "")
SETTINGS = {
    "group.min.session.timeout.ms": "100",  # a dead member is noticed as soon as it wants to be
    "offsets.topic.num.partitions": "10",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> None:
    for name in ("kafka", "aiokafka"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    if GIVEN:
        yield GIVEN
        return
    cluster = LocalCluster(brokers=3, profile="production", settings=SETTINGS)  # nobody is fenced for being slow
    cluster.start()
    yield cluster.bootstrap
    logs = "".join(node.log.read_text() for node in cluster.nodes.values())
    for node in cluster.nodes.values():
        cluster.kill(node.id)  # a controlled shutdown would take its time over hundreds of topics
    cluster.stop()
    assert "Traceback" not in logs


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap}, logger=SILENT)


_NUMBERS = count()


def _knows(address: str, topic: str) -> bool:
    host, port = address.split(":")
    request = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(topic_id=None, name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (found,) = node_query.send_request((host, int(port)), request, PATIENCE_S).topics
    return found.error_code is ErrorCode.none


@pytest.fixture
def make_topic(bootstrap: str, admin: AdminClient, request: pytest.FixtureRequest) -> MakeTopic:
    """A new topic with a name of its own, known to all brokers; keywords are its settings."""

    def make(partitions: int = 1, replicas: int = 3, **config: object) -> str:
        name = f"{request.node.originalname}-{os.getpid()}-{next(_NUMBERS)}"
        wanted = {"retention_ms": -1, **config}  # records of long ago are not too old
        settings = {key.replace("_", "."): str(value) for key, value in wanted.items()}
        admin.create_topics([NewTopic(name, partitions, replicas, config=settings)])[name].result(PATIENCE_S)
        for address in bootstrap.split(","):
            eventually(lambda address=address: _knows(address, name), f"{address} knows {name}")
        return name

    return make
