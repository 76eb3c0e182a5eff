"""Apache's Java client does on insync what it does on Kafka: the same programs, the same findings."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from insync.server.local_cluster import LocalCluster
from interop.java import kafka_tools
from interop.java.kafka_tools import Tools, program

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEFT_OUT = "UnsupportedVersionException: The node does not support"


@pytest.fixture(params=["cluster", "kafka"], ids=["insync", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    where: Any = request.getfixturevalue(request.param)
    return str(where.bootstrap)


def create(bootstrap: str, topic: str, partitions: int) -> None:
    tools = Tools(bootstrap)
    tools("kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "3")


def test_records_of_every_codec_and_size_come_back_as_they_were(bootstrap: str) -> None:
    create(bootstrap, "records", 1)
    found = program("Records", bootstrap, "records")
    assert [found[f"offsets.{codec}"] for codec in CODECS] == ["true"] * len(CODECS)
    assert (found["read"], found["same"]) == (found["sent"], found["sent"])
    assert (found["beginning"], found["end"], found["at.time"]) == ("0", found["sent"], "300")
    assert (found["partitions"], found["too.large"]) == ("1", "RecordTooLargeException")


def test_members_rebalance_cooperatively_and_static_ones_not_at_all(bootstrap: str) -> None:
    create(bootstrap, "shared", 6)
    found = program("Groups", bootstrap, "shared")
    assert found == {
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
        "moved": "3 moved",
        "left": "5",
        "groups": "0",
    }


def test_the_admin_client_gets_kafkas_answers(bootstrap: str) -> None:
    found = program("Administration", bootstrap)
    assert {"eligible.leader.replicas.version", "metadata.version"} <= {*found.pop("features").strip("[]").split(", ")}
    assert len(found.pop("cluster.id")) == 22
    assert found == {
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


def test_what_is_left_out_says_so(cluster: LocalCluster) -> None:
    """docs/guides/clients.md names these."""
    create(cluster.bootstrap, "plain", 1)
    found = program("Unsupported", cluster.bootstrap, "plain")
    assert found["transactions"].startswith("TransactionalIdAuthorizationException")
    assert found["group.protocol"].startswith("UnsupportedVersionException: The cluster does not support the new")
    assert found["share.group"].startswith("UnsupportedVersionException: The cluster does not support the share")
    assert (found["sasl"][:16], found["tls"][:16]) == ("TimeoutException", "TimeoutException")
    assert found["acls"] == "SecurityDisabledException: No Authorizer is configured."
    assert found["list.transactions"] == "works: []"
    assert found["move.between.directories"] == f"{LEFT_OUT} ALTER_REPLICA_LOG_DIRS"


def test_nothing_acknowledged_is_lost_doubled_or_reordered_when_the_leader_is_killed(cluster: LocalCluster) -> None:
    tools = Tools(cluster.bootstrap)
    topic = ("--topic", "failover")
    tools("kafka-topics", "--create", *topic, "--replica-assignment", "2:3:1", "--config", "min.insync.replicas=2")
    writer = subprocess.Popen(
        kafka_tools.command(str(kafka_tools.HERE / "Failover.java"), cluster.bootstrap, "failover"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "going\n"
        cluster.kill(2)
        said, _ = writer.communicate("killed\n", timeout=kafka_tools.PATIENCE_S)
    finally:
        writer.kill()
        cluster.start_node(2)
        cluster.wait_until_ready()
    found = kafka_tools.facts(said)
    assert (found["failed"], found["acknowledged"], found["complete"]) == ("0", found["sent"], "true"), found
    assert (found["in.order.once"], found["same.by.group"], found["read"]) == ("true", "true", found["sent"]), found
