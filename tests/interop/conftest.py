"""One cluster of three real nodes for all tests of other projects' clients that a pytest process runs.

The expectations are Kafka's, not ours. To check one, run the tests that kill no broker against an existing cluster of
three brokers with the ids 1 to 3 and the settings below:

    INSYNC_INTEROP_BOOTSTRAP=127.0.0.1:9092 pytest tests/interop
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from insync.server import node_query
from insync.server.local_cluster import LocalCluster
from insync.wire.errors import ErrorCode
from insync.wire.messages import metadata
from tests.interop.interop_clients import NO_LOGGER, MakeTopic, python_admin_client
from tests.polling import TIMEOUT_S, wait_until

EXISTING_CLUSTER = os.environ.get("INSYNC_INTEROP_BOOTSTRAP", "")
SETTINGS = {
    "group.min.session.timeout.ms": "100",  # tests of dead members use short sessions
    "offsets.topic.num.partitions": "10",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="session", autouse=True)
def _discard_client_logs() -> None:
    for name in ("kafka", "aiokafka"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    if EXISTING_CLUSTER:
        yield EXISTING_CLUSTER
        return
    cluster = LocalCluster(brokers=3, profile="production", settings=SETTINGS)  # no broker is fenced for being slow
    cluster.start()
    yield cluster.bootstrap
    logs = "".join(node.log.read_text() for node in cluster.nodes.values())
    for node in cluster.nodes.values():
        cluster.kill(node.id)  # a controlled shutdown moves the leaders of hundreds of topics
    cluster.stop()
    assert "Traceback" not in logs


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap}, logger=NO_LOGGER)


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = python_admin_client(bootstrap)
    yield client
    client.close()


_NUMBERS = count()


def _has_topic(address: str, topic: str) -> bool:
    host, port = address.split(":")
    request = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(topic_id=None, name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (response_topic,) = node_query.send_request((host, int(port)), request, TIMEOUT_S).topics
    return response_topic.error_code is ErrorCode.none


@pytest.fixture
def make_topic(bootstrap: str, admin: AdminClient, request: pytest.FixtureRequest) -> MakeTopic:
    """Creates a topic with a unique name and waits until all brokers know it; keywords are its settings."""

    def make(partitions: int = 1, replicas: int = 3, **config: object) -> str:
        name = f"{request.node.originalname}-{os.getpid()}-{next(_NUMBERS)}"
        settings = {"retention_ms": -1, **config}  # tests write records with old timestamps
        settings_by_key = {key.replace("_", "."): str(value) for key, value in settings.items()}
        admin.create_topics([NewTopic(name, partitions, replicas, config=settings_by_key)])[name].result(TIMEOUT_S)
        for address in bootstrap.split(","):
            wait_until(partial(_has_topic, address, name), f"{address} knows {name}")
        return name

    return make
