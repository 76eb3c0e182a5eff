"""Apache Kafka's tools for users, quotas and ACLs, on insync with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from insync.server.local_cluster import LocalCluster
from interop.java.kafka_tools import CLASSES, Tools, run
from tests.authorizer_settings import authorizer_settings


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, settings=authorizer_settings("ANONYMOUS")) as local:
        yield local


@pytest.fixture(scope="module")
def tools(secured: LocalCluster) -> Tools:
    return Tools(secured.bootstrap)


def test_kafka_configs_creates_and_removes_users(tools: Tools) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    for password in ("SCRAM-SHA-256=[iterations=8192,password=secret]", "SCRAM-SHA-512=[password=secret]"):
        output = tools("kafka-configs", "--alter", *alice, "--add-config", password)
        assert "Completed updating config for user alice" in output
    output = tools("kafka-configs", "--describe", *alice)
    assert "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192" in output
    assert "SCRAM-SHA-512=iterations=4096" in output
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        tools("kafka-configs", "--alter", *alice, "--delete-config", mechanism)
    assert "SCRAM" not in tools("kafka-configs", "--describe", *alice)


def test_kafka_configs_sets_and_removes_quotas(tools: Tools) -> None:
    def alter(*entity: str, add: str = "", delete: str = "") -> None:
        change = ("--add-config", add) if add else ("--delete-config", delete)
        assert "Completed updating" in tools("kafka-configs", "--alter", *entity, *change)

    both = ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default")
    alter(*both, add="producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=12.5")
    output = tools("kafka-configs", "--describe", *both)
    assert "Quota configs for user-principal 'bob', the default client-id are" in output
    assert all(part in output for part in ("producer_byte_rate=1024.0", "request_percentage=12.5"))
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    alter(*address, add="connection_creation_rate=5")
    assert "connection_creation_rate=5.0" in tools("kafka-configs", "--describe", *address)
    alter(*both, delete="producer_byte_rate,consumer_byte_rate,request_percentage")
    alter(*address, delete="connection_creation_rate")
    assert "connection_creation_rate" not in tools("kafka-configs", "--describe", *address)


def test_kafka_acls_adds_lists_and_removes_acls(tools: Tools) -> None:
    topic = ("--topic", "orders", "--resource-pattern-type", "prefixed")
    output = tools("kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "Write", *topic)
    assert "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=PREFIXED)`" in output
    denied = ("--deny-principal", "User:bob", "--deny-host", "10.0.0.1")
    tools("kafka-acls", "--add", *denied, "--operation", "Read", "--group", "g", "--topic", "t")
    listed = tools("kafka-acls", "--list", "--topic", "orders-1", "--resource-pattern-type", "match")
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in listed
    assert "bob" not in listed
    everything = tools("kafka-acls", "--list")
    assert "ResourcePattern(resourceType=GROUP, name=g, patternType=LITERAL)" in everything
    assert "(principal=User:bob, host=10.0.0.1, operation=READ, permissionType=DENY)" in everything
    tools("kafka-acls", "--remove", "--force", "--topic", "t", "--group", "g")
    tools("kafka-acls", "--remove", "--force", *topic)
    assert "principal=" not in tools("kafka-acls", "--list")


def test_kafka_reads_the_records_of_acls_users_and_quotas(secured: LocalCluster, tools: Tools) -> None:
    tools("kafka-acls", "--add", "--allow-principal", "User:carol", "--operation", "Read", "--topic", "dumped")
    carol = ("--entity-type", "users", "--entity-name", "carol")
    tools("kafka-configs", "--alter", *carol, "--add-config", "SCRAM-SHA-256=[password=secret]")
    tools("kafka-configs", "--alter", *carol, "--add-config", "producer_byte_rate=1024")
    tools("kafka-configs", "--alter", *carol, "--delete-config", "SCRAM-SHA-256")
    tools("kafka-acls", "--remove", "--force", "--topic", "dumped")
    (directory,) = secured.nodes[1].directory.rglob("__cluster_metadata-0")
    (log,) = directory.glob("*.log")
    output = run(CLASSES["kafka-dump-log"], "--files", str(log), "--cluster-metadata-decoder").stdout
    for record_type in (
        "ACCESS_CONTROL_ENTRY_RECORD",
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
        "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
        "CLIENT_QUOTA_RECORD",
    ):
        assert f'"type":"{record_type}"' in output
    assert '"principal":"User:carol","host":"*","operation":3,"permissionType":3' in output
    assert '"entity":[{"entityType":"user","entityName":"carol"}],"key":"producer_byte_rate","value":1024.0' in output
