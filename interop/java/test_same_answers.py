"""The same requests to Apache Kafka and to insync get the same answers: error codes, nulls, empty lists, defaults.

Not compared: texts, ids, addresses, times and the sizes of files. What differs on purpose stands in DELIBERATE, with
why; a difference that has gone is reported too.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

import apache_kafka
from insync.client import request_builder
from insync.server import node_query
from insync.server.local_cluster import LocalCluster
from insync.wire import codec
from insync.wire.types import ms
from interop.java.probes import GROUP_PROBES, PROBES, TOPIC, Probe

NOT_COMPARED = {
    "error_message", "topic_id", "host", "port", "cluster_id", "controller_id", "throttle_time", "log_dir",
    "total_bytes", "usable_bytes", "partition_size", "last_timestamp", "producer_id", "timestamp", "leader_epoch",
    "member_id", "topic_config_error_code", "rack",
}  # fmt: skip
TIMEOUT_S = 30.0
CREATE_TOPICS, FIND_COORDINATOR = 19, 10
LEFT_OUT = {CREATE_TOPICS: ("configs",), FIND_COORDINATOR: ("node_id",)}
"""By API: what depends on settings, and on where partitions were placed."""

DELIBERATE: dict[str, str] = {}
"""By the name of a probe: why insync answers otherwise. None is known."""


@pytest.fixture(scope="module")
def clusters(cluster: LocalCluster, kafka: apache_kafka.ApacheCluster) -> dict[str, Any]:
    both = {"kafka": kafka, "insync": cluster}
    for made in both.values():
        assignments = [{"partition_index": i, "broker_ids": ids} for i, ids in enumerate(((1, 2, 3), (2, 3, 1)))]
        topic = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        body = {"topics": [{**topic, "configs": ()}], "timeout": ms(30_000), "validate_only": False}
        node_query.send_request(
            made.nodes[1].address, request_builder.build_request(codec.request_type(CREATE_TOPICS, 7), body), TIMEOUT_S
        )
        producer = Producer({"bootstrap.servers": made.bootstrap})
        for value in (b"a", b"b", b"c"):
            producer.produce(TOPIC, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        coordinator(made, "")  # with it the topic of the groups is there
    return both


@pytest.mark.parametrize("probe", PROBES, ids=[probe[0] for probe in PROBES])
def test_an_answer_is_kafkas(clusters: dict[str, Any], probe: Probe) -> None:
    answers = {name: answer(made.nodes[1].address, probe) for name, made in clusters.items()}
    compare(probe, answers)


@pytest.mark.parametrize("probe", GROUP_PROBES, ids=[probe[0] for probe in GROUP_PROBES])
def test_an_answer_of_the_coordinator_is_kafkas(clusters: dict[str, Any], probe: Probe) -> None:
    answers = {name: answer(coordinator(made, group_of(probe[3])), probe) for name, made in clusters.items()}
    compare(probe, answers)


def compare(probe: Probe, answers: dict[str, Any]) -> None:
    if probe[0] in DELIBERATE:
        assert answers["insync"] != answers["kafka"], "no longer a difference"
    else:
        assert answers["insync"] == answers["kafka"]


def answer(address: tuple[str, int], probe: Probe) -> Any:
    _, key, version, body = probe
    request = request_builder.build_request(codec.request_type(key, version), body)
    try:
        return plain(node_query.send_request(address, request, TIMEOUT_S), left_out=LEFT_OUT.get(key, ()))
    except node_query.NoAnswerError:
        return "connection closed"


def plain(value: Any, left_out: tuple[str, ...] = ()) -> Any:
    """Lists come in any order."""
    if is_dataclass(value):
        names = [f.name for f in fields(value) if f.name not in NOT_COMPARED and f.name not in left_out]
        return {name: plain(getattr(value, name), left_out) for name in names}
    if isinstance(value, tuple):
        return sorted((plain(item, left_out) for item in value), key=str)
    return value


def group_of(body: dict[str, Any]) -> str:
    groups = body.get("groups") or body.get("groups_names") or (body.get("group_id"),)
    return str(groups[0]["group_id"] if isinstance(groups[0], dict) else groups[0])


def coordinator(made: Any, group: str) -> tuple[str, int]:
    """Asked until it is known: the first question creates the topic of the groups."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    for _ in range(300):
        (found,) = node_query.send_request(made.nodes[1].address, request, TIMEOUT_S).coordinators
        if found.node_id >= 0:
            return (found.host, found.port)
    raise AssertionError(f"no coordinator for {group!r}: {found.error_code}")
