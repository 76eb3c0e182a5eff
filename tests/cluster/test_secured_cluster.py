"""A secured cluster of real processes, used by stock clients: users, rights, and certificates that are wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from insync.cluster.cluster import Cluster, ClusterError
from tests.insync_command import InsyncCommand

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics=["orders"], security="ssl", users={"alice": "unused"}) as cluster:
        yield cluster


def produce(settings: dict[str, Any]) -> KafkaError | None:
    """Produce one record; the error of the record, or None."""
    errors: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 20_000, "log_level": 0})
    producer.produce("orders", b"value", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return errors[0]


def connection_error(settings: dict[str, Any]) -> str:
    """Why the client cannot connect."""
    errors: list[KafkaError] = []
    callbacks: dict[str, Any] = {"error_cb": errors.append, "log_level": 0}
    client = AdminClient({**settings, **callbacks})
    deadline = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < deadline:
        client.poll(0.1)
    return str(errors[0]) if errors else ""


def test_a_user_without_rights_is_not_shown_a_sick_cluster(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "alice.properties"
    config.write_text("".join(f"{k}={v}\n" for k, v in cluster.client_config("alice", "java").items()))
    insync = InsyncCommand(cluster.bootstrap, timeout_s=int(TIMEOUT_S))
    result = insync.run("health", "--wait", "60", "--client-config", str(config))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "CLUSTER_AUTHORIZATION_FAILED (this user is not authorized to do that" in result.stderr


def test_a_user_uses_topics_and_does_not_administer_the_cluster(cluster: Cluster) -> None:
    assert produce(cluster.client_config("alice")) is None
    admin = AdminClient(cluster.client_config("admin"))
    assert sorted(admin.list_topics(timeout=TIMEOUT_S).topics) == ["orders"]
    alice = AdminClient(cluster.client_config("alice"))
    granted = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.ALTER,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException) as refused:
        alice.create_acls([granted])[granted].result(TIMEOUT_S)
    assert refused.value.args[0].name() == "CLUSTER_AUTHORIZATION_FAILED"


def test_nodes_fail_over_and_catch_up_with_tls_between_them(cluster: Cluster) -> None:
    leader = cluster.leader_of("orders")
    cluster.kill(leader)
    cluster.wait_for_leader("orders", other_than=leader)
    assert produce(cluster.client_config("alice")) is None
    cluster.start(leader)
    cluster.wait_for_isr("orders", size=3)


def test_a_cut_works_through_tls(cluster: Cluster) -> None:
    leader = cluster.leader_of("orders")
    others = {node for node in cluster.nodes if node != leader}
    cluster.partition({leader}, others)
    cluster.wait_for_leader("orders", other_than=leader)
    cluster.heal()
    cluster.wait_for_isr("orders", size=3)
    assert produce(cluster.client_config("alice")) is None


@pytest.mark.parametrize("wrong", ["is_expired", "is_trusted"])
def test_a_client_with_a_wrong_certificate_is_refused(cluster: Cluster, wrong: str) -> None:
    options = {"is_expired": {"is_expired": True}, "is_trusted": {"is_trusted": False}}[wrong]
    certificate = str(cluster.client_certificate("alice", **options))
    settings = cluster.client_config("alice") | {
        "ssl.certificate.location": certificate,
        "ssl.key.location": certificate,
    }
    assert "SSL" in connection_error(settings)


def test_a_node_with_a_certificate_for_another_name_is_refused_by_clients(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    settings = cluster.client_config("alice") | {"bootstrap.servers": f"127.0.0.1:{node.port}"}
    cluster.replace_certificate(1, hosts=["elsewhere.example"])
    try:
        wait_for_log(cluster.log_of(1), "event=tls_reloaded listener=CLIENTS")
        assert "certificate verify failed" in connection_error(settings)
    finally:
        cluster.replace_certificate(1)


def wait_for_log(log: Path, text: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while text not in log.read_text():
        assert time.monotonic() < deadline, f"no {text!r} in {log}"
        time.sleep(0.05)


def test_a_cluster_without_security_has_no_users(tmp_path: Path) -> None:
    cluster = Cluster(brokers=1, directory=tmp_path)
    with pytest.raises(ClusterError, match="without security"):
        cluster.client_config("alice")
    with pytest.raises(ClusterError, match="no certificates"):
        cluster.replace_certificate(1)
    cluster.close()
