"""`insync acl` on a real node with an authorizer, beside the admin clients of librdkafka and kafka-python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import admin as python_admin
from typer.testing import CliRunner

from insync.cli.main import app
from insync.server.local_cluster import LocalCluster

TIMEOUT_S = 20
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(brokers=1, settings=SETTINGS)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture(autouse=True)
def _no_acls(admin: AdminClient) -> None:
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    admin.delete_acls([everything], request_timeout=TIMEOUT_S)[everything].result(TIMEOUT_S)


def run(cluster: LocalCluster, *arguments: str) -> Result:
    runner = CliRunner(env={"INSYNC_BOOTSTRAP": cluster.bootstrap, "COLUMNS": "160"})
    return runner.invoke(app, ["acl", *arguments, "--timeout", str(TIMEOUT_S)])


def good(cluster: LocalCluster, *arguments: str) -> str:
    result = run(cluster, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def listed(cluster: LocalCluster, *arguments: str) -> list[str]:
    rows: list[dict[str, Any]] = json.loads(good(cluster, "list", *arguments, "--json"))
    return [" ".join(row.values()) for row in rows]


def test_acls_are_added_listed_and_removed(cluster: LocalCluster, admin: AdminClient) -> None:
    good(cluster, "add", "alice", "read,describe", "--topic", "orders", "--group", "billing")
    good(cluster, "add", "alice", "read", "--topic", "orders")
    good(cluster, "add", "User:bob", "write", "--topic", "ord", "--prefixed", "--deny", "--host", "10.0.0.1")
    good(cluster, "add", "*", "describe", "--cluster")
    assert listed(cluster) == [
        "User:bob deny write topic prefixed ord 10.0.0.1",
        "User:alice allow read topic literal orders *",
        "User:alice allow describe topic literal orders *",
        "User:alice allow read group literal billing *",
        "User:alice allow describe group literal billing *",
        "User:* allow describe cluster literal kafka-cluster *",
    ]
    wanted = AclBindingFilter(
        ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.DENY
    )
    (seen,) = admin.describe_acls(wanted, request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert (seen.principal, seen.host, seen.name) == ("User:bob", "10.0.0.1", "ord")
    assert len(listed(cluster, "--topic", "orders")) == 3, "those for the prefix included"
    assert listed(cluster, "--principal", "bob") == ["User:bob deny write topic prefixed ord 10.0.0.1"]
    assert "4 ACLs would be removed" in good(cluster, "remove", "alice", "--dry-run")
    assert "1 ACLs removed" in good(cluster, "remove", "alice", "read", "--group", "billing")
    assert "0 ACLs removed" in good(cluster, "remove", "--topic", "ord")
    assert "1 ACLs removed" in good(cluster, "remove", "--topic", "ord", "--prefixed", "--deny", "--host", "10.0.0.1")
    assert "3 ACLs removed" in good(cluster, "remove", "alice", "--allow")
    assert listed(cluster) == ["User:* allow describe cluster literal kafka-cluster *"]


def test_acls_of_librdkafka_are_listed(cluster: LocalCluster, admin: AdminClient) -> None:
    binding = AclBinding(
        ResourceType.GROUP,
        "g",
        ResourcePatternType.PREFIXED,
        "User:carol",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([binding], request_timeout=TIMEOUT_S)[binding].result(TIMEOUT_S)
    assert listed(cluster) == ["User:carol allow all group prefixed g *"]
    assert "carol" in good(cluster, "list")


def test_acls_and_users_of_kafka_python(cluster: LocalCluster) -> None:
    admin = python_admin.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    pattern = python_admin.ResourcePattern(
        python_admin.ResourceType.TOPIC, "t", python_admin.ACLResourcePatternType.LITERAL
    )
    acl = python_admin.ACL(
        "User:dave", "*", python_admin.ACLOperation.READ, python_admin.ACLPermissionType.ALLOW, pattern
    )
    admin.create_acls([acl])
    assert listed(cluster) == ["User:dave allow read topic literal t *"]
    everything = python_admin.ACLFilter(
        None,
        None,
        python_admin.ACLOperation.ANY,
        python_admin.ACLPermissionType.ANY,
        python_admin.ResourcePatternFilter(
            python_admin.ResourceType.ANY, None, python_admin.ACLResourcePatternType.ANY
        ),
    )
    described, _error = admin.describe_acls(everything)
    assert [(one.principal, one.operation.name) for one in described] == [("User:dave", "READ")]
    admin.delete_acls([everything])
    assert listed(cluster) == []
    mechanism = python_admin.ScramMechanism.SCRAM_SHA_256
    admin.alter_user_scram_credentials([python_admin.UserScramCredentialUpsertion("dave", mechanism, "secret")])
    users = CliRunner(env={"INSYNC_BOOTSTRAP": cluster.bootstrap}).invoke(app, ["user", "list"])
    assert ["dave", "SCRAM-SHA-256"] in [line.split()[:2] for line in users.stdout.splitlines()]
    admin.alter_user_scram_credentials([python_admin.UserScramCredentialDeletion("dave", mechanism)])
    admin.close()


def test_a_check_says_which_acl_decides(cluster: LocalCluster) -> None:
    """May alice write to orders, and if not, why?"""
    refused = run(cluster, "check", "alice", "write", "--topic", "orders")
    assert refused.exit_code == 1
    assert "User:alice may not WRITE TOPIC 'orders': no ACL allows it" in refused.stdout
    assert "To allow it: insync acl add User:alice write --topic orders" in refused.stdout
    good(cluster, "add", "alice", "write", "--topic", "ord", "--prefixed")
    allowed = good(cluster, "check", "alice", "write", "--topic", "orders")
    assert "may WRITE" in allowed
    assert "ALLOW User:alice WRITE on TOPIC:PREFIXED:ord from *" in allowed
    assert "may DESCRIBE" in good(cluster, "check", "alice", "describe", "--topic", "orders")
    good(cluster, "add", "*", "all", "--topic", "*", "--deny", "--host", "10.0.0.1")
    denied = run(cluster, "check", "alice", "write", "--topic", "orders", "--host", "10.0.0.1")
    assert (denied.exit_code, "DENY User:* ALL on TOPIC:LITERAL:*" in denied.stdout) == (1, True)
    assert "give the client's with --host" in good(cluster, "check", "alice", "write", "--topic", "orders")
    assert "super user" in good(cluster, "check", "root", "alter", "--cluster")
    verdict = json.loads(run(cluster, "check", "bob", "read", "--topic", "orders", "--json").stdout)
    assert (verdict["allowed"], verdict["acl"], verdict["settings_known"]) == (False, None, True)
    assert len(verdict["related"]) == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("add", "alice", "read"), "give what the ACL is for"),
        (("add", "alice", "fly", "--topic", "t"), "'fly' is not an operation on topic: write one of all, read, write"),
        (("add", "alice", "cluster-action", "--topic", "t"), "not an operation on topic"),
        (("add", "", "read", "--topic", "t"), "name is empty"),
        (("add", "alice", "read", "--topic", ""), "name is empty"),
        (("add", "alice", "alter", "--cluster", "--prefixed"), "does not go with"),
        (("add", "alice", "read", "--topic", "t", "--host", "a.example"), "not an IP address"),
        (("remove",), "would remove every ACL"),
        (("remove", "alice", "--allow", "--deny"), "neither for both"),
        (("check", "alice", "read"), "give one resource"),
        (("check", "alice", "read", "--topic", "a", "--topic", "b"), "give one resource"),
    ],
)
def test_wrong_arguments_say_what_to_do(cluster: LocalCluster, arguments: tuple[str, ...], problem: str) -> None:
    result = run(cluster, *arguments)
    assert (result.exit_code, problem in result.output) == (2, True), result.output
