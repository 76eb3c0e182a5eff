"""Apache's Java client behaves on insync as it does on Kafka: the same programs print the same values on both."""

from __future__ import annotations

import subprocess

import pytest

from apache_kafka import ApacheCluster
from insync.server.local_cluster import LocalCluster
from interop.java import kafka_tools
from interop.java.kafka_tools import Tools, run_program

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
UNSUPPORTED = "UnsupportedVersionException: The node does not support"


@pytest.fixture(params=["cluster", "kafka"], ids=["insync", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    cluster: LocalCluster | ApacheCluster = request.getfixturevalue(request.param)
    return cluster.bootstrap


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    tools = Tools(bootstrap)
    tools("kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "3")


def test_records_of_every_codec_and_size_are_read_back(bootstrap: str) -> None:
    create_topic(bootstrap, "records", 1)
    values = run_program("Records", bootstrap, "records")
    assert [values[f"offsets.{codec}"] for codec in CODECS] == ["true"] * len(CODECS)
    assert (values["read"], values["same"]) == (values["sent"], values["sent"])
    assert (values["beginning"], values["end"], values["at.time"]) == ("0", values["sent"], "300")
    assert (values["partitions"], values["too.large"]) == ("1", "RecordTooLargeException")


def test_members_rebalance_cooperatively_and_static_members_not_at_all(bootstrap: str) -> None:
    create_topic(bootstrap, "shared", 6)
    values = run_program("Groups", bootstrap, "shared")
    assert values == {
        "first.revoked": "3",
        "first.kept": "true",
        "disjoint": "true",
        "state": "Stable",
        "assignor": "cooperative-sticky",
        "members": "2",
        "lost": "0",
        "read": "60",
        "static.same": "true",
        "static.rebalances": "0",
        "static.members": "2",
        "static.removed": "0",
        "committed": "60",
        "altered": "3 note",
        "left": "5",
        "groups": "0",
    }


def test_the_admin_client_gets_kafkas_answers(bootstrap: str) -> None:
    values = run_program("Administration", bootstrap)
    assert {"eligible.leader.replicas.version", "metadata.version"} <= {*values.pop("features").strip("[]").split(", ")}
    assert len(values.pop("cluster.id")) == 22
    assert values == {
        "brokers": "[1, 2, 3]",
        "controller.is.a.broker": "true",
        "voters": "[1, 2, 3]",
        "quorum.leader.known": "true",
        "voter.addresses": "3",
        "validated.only": "false",
        "again": "TopicExistsException",
        "too.many.replicas": "InvalidReplicationFactorException",
        "fewer.partitions": "InvalidPartitionsException",
        "partitions": "[[1, 2, 3], [2, 3, 1], [3, 1, 2]]",
        "leaders": "[1, 2, 3]",
        "in.sync": "true",
        "elr": "[]",
        "unknown.topic": "UnknownTopicOrPartitionException",
        "retention": "DYNAMIC_TOPIC_CONFIG",
        "bad.value": "InvalidConfigurationException",
        "bad.name": "InvalidConfigurationException",
        "broker.id": "1",
        "producers": "1",
        "last.sequence": "9",
        "earliest": "0",
        "latest": "10",
        "max.timestamp": "6",
        "at.time": "3",
        "after.all": "-1",
        "deleted.to": "4",
        "earliest.then": "4",
        "beyond.the.end": "OffsetOutOfRangeException",
        "log.dirs": "3",
        "replica.dir": "true",
        "not.moving": "NoReassignmentInProgressException",
        "no.such.broker": "InvalidReplicaAssignmentException",
        "preferred": "ElectionNotNeededException",
        "unclean": "ElectionNotNeededException",
        "deleted.again": "UnknownTopicOrPartitionException",
    }


def test_unsupported_features_fail_with_a_clear_error(cluster: LocalCluster) -> None:
    """docs/guides/clients.md lists them."""
    create_topic(cluster.bootstrap, "plain", 1)
    values = run_program("Unsupported", cluster.bootstrap, "plain")
    assert values["transactions"].startswith("TransactionalIdAuthorizationException")
    assert values["group.protocol"].startswith("UnsupportedVersionException: The cluster does not support the new")
    assert values["share.group"].startswith("UnsupportedVersionException: The cluster does not support the share")
    assert values["sasl"].startswith("IllegalSaslStateException")
    assert values["tls"].startswith("TimeoutException")
    assert values["acls"] == "SecurityDisabledException: No Authorizer is configured."
    assert values["list.transactions"] == "works: []"
    assert values["move.between.directories"] == f"{UNSUPPORTED} ALTER_REPLICA_LOG_DIRS"


def test_no_acknowledged_record_is_lost_repeated_or_reordered_when_the_leader_is_killed(cluster: LocalCluster) -> None:
    tools = Tools(cluster.bootstrap)
    tools.create_topic("failover", "--replica-assignment", "2:3:1", "--config", "min.insync.replicas=2")
    failover = subprocess.Popen(
        kafka_tools.command(kafka_tools.program_path("Failover"), cluster.bootstrap, "failover"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert failover.stdout is not None
        assert failover.stdout.readline() == "running\n"
        cluster.kill(2)
        output, _ = failover.communicate("killed\n", timeout=kafka_tools.TIMEOUT_S)
    finally:
        failover.kill()
        cluster.start_node(2)
        cluster.wait_until_ready()
    values = kafka_tools.parse_values(output)
    assert (values["failed"], values["acknowledged"], values["complete"]) == ("0", values["sent"], "true"), values
    assert (values["in.order.once"], values["same.by.group"], values["read"]) == ("true", "true", values["sent"]), (
        values
    )
