"""Apache Kafka and insync answer the same requests equally: error codes, nulls, empty lists, defaults.

Texts, ids, addresses, timestamps and sizes of files are not compared.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

import apache_kafka
from insync.client import request_builder
from insync.server import node_query
from insync.server.local_cluster import LocalCluster
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.types import ms
from interop.java.probes import GROUP_PROBES, PROBES, TOPIC, Probe
from tests.polling import wait_until

NOT_COMPARED = (
    "error_message", "topic_id", "host", "port", "cluster_id", "controller_id", "throttle_time", "log_dir",
    "total_bytes", "usable_bytes", "partition_size", "last_timestamp", "producer_id", "timestamp", "leader_epoch",
    "member_id", "topic_config_error_code", "rack",
)  # fmt: skip
TIMEOUT_S = 15.0
"""Less than the 30 seconds after which a broker gives up on its controller: no answer may wait for that."""
CREATE_TOPICS, FIND_COORDINATOR = 19, 10
NOT_COMPARED_BY_API = {CREATE_TOPICS: ("configs",), FIND_COORDINATOR: ("node_id",)}
"""Fields that depend on the nodes' settings, and on the placement of partitions."""

TestedCluster = LocalCluster | apache_kafka.ApacheCluster
Json = Any
"""A response as dictionaries, sorted lists and plain values."""


@pytest.fixture(scope="module")
def clusters(cluster: LocalCluster, kafka: apache_kafka.ApacheCluster) -> dict[str, TestedCluster]:
    both: dict[str, TestedCluster] = {"kafka": kafka, "insync": cluster}
    for tested in both.values():
        assignments = [{"partition_index": i, "broker_ids": ids} for i, ids in enumerate(((1, 2, 3), (2, 3, 1)))]
        topic = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        body = {"topics": [{**topic, "configs": ()}], "timeout": ms(30_000), "validate_only": False}
        node_query.send_request(
            tested.nodes[1].address,
            request_builder.build_request(codec.request_type(CREATE_TOPICS, 7), body),
            TIMEOUT_S,
        )
        producer = Producer({"bootstrap.servers": tested.bootstrap})
        for value in (b"a", b"b", b"c"):
            producer.produce(TOPIC, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        find_coordinator(tested, "")  # creates the offsets topic
        wait_until(partial(can_init_producer_id, tested), "broker 1 has a block of producer ids")
    return both


@pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_a_broker_answers_as_kafka_does(clusters: dict[str, TestedCluster], probe: Probe) -> None:
    responses = {name: send(tested.nodes[1].address, probe) for name, tested in clusters.items()}
    assert responses["insync"] == responses["kafka"]


@pytest.mark.parametrize("probe", GROUP_PROBES, ids=[probe.name for probe in GROUP_PROBES])
def test_a_group_coordinator_answers_as_kafkas_does(clusters: dict[str, TestedCluster], probe: Probe) -> None:
    group = group_of(probe.body)
    responses = {name: send(find_coordinator(tested, group), probe) for name, tested in clusters.items()}
    assert responses["insync"] == responses["kafka"]


def send(address: tuple[str, int], probe: Probe) -> Json:
    """The response, or why there is none."""
    request = request_builder.build_request(codec.request_type(probe.api_key, probe.version), probe.body)
    try:
        response = node_query.send_request(address, request, TIMEOUT_S)
    except node_query.NoAnswerError as error:
        return "timed out" if isinstance(error.__cause__, TimeoutError) else "connection closed"
    return to_json(response, (*NOT_COMPARED, *NOT_COMPARED_BY_API.get(probe.api_key, ())))


def to_json(value: Any, left_out: tuple[str, ...]) -> Json:
    """Arrays are sorted, as their order may differ."""
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name not in left_out]
        return {name: to_json(getattr(value, name), left_out) for name in names}
    if isinstance(value, tuple):
        return sorted((to_json(item, left_out) for item in value), key=str)
    return value


def group_of(body: dict[str, Any]) -> str:
    groups = body.get("groups") or body.get("groups_names") or (body.get("group_id"),)
    return str(groups[0]["group_id"] if isinstance(groups[0], dict) else groups[0])


def find_coordinator(tested: TestedCluster, group: str) -> tuple[str, int]:
    """Repeats the request until there is a coordinator: the first one creates the offsets topic."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))

    def known_address() -> tuple[str, int] | None:
        (coordinator,) = node_query.send_request(tested.nodes[1].address, request, TIMEOUT_S).coordinators
        return (coordinator.host, coordinator.port) if coordinator.node_id >= 0 else None

    return wait_until(known_address, f"group {group!r} has a coordinator")


def can_init_producer_id(tested: TestedCluster) -> bool:
    """Kafka answers COORDINATOR_LOAD_IN_PROGRESS until its broker has allocated a block of producer ids."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout=ms(60_000), producer_id=-1, producer_epoch=-1
    )
    response = node_query.send_request(tested.nodes[1].address, request, TIMEOUT_S)
    return response.error_code is ErrorCode.none
