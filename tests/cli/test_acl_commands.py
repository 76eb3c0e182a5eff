"""`insync acl` on a real node with an authorizer, beside the admin clients of librdkafka and kafka-python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
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

from insync.server.local_cluster import LocalCluster
from tests.authorizer_settings import authorizer_settings
from tests.insync_command import InsyncCommand

TIMEOUT_S = 20
ANY: Any = None
"""In a filter of librdkafka; its types say str."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, settings=authorizer_settings("ANONYMOUS", "root")) as local:
        yield local


def test_a_password_for_a_super_user_is_asked_for_twice(insync: InsyncCommand) -> None:
    """A user with the name of the nodes, or of an administrator, may do everything."""
    refused = insync.run("user", "add", "root", stdin="secret\n")
    assert (refused.exit_code, "one of the brokers' super users" in refused.output) == (1, True)
    assert insync.json("user", "list") == []
    insync("user", "add", "alice", stdin="secret\n")
    insync("user", "add", "root", "--super-user", stdin="secret\n")
    assert [row["user"] for row in insync.json("user", "list")] == ["alice", "root"]
    insync("user", "remove", "root")


@pytest.fixture(autouse=True)
def _no_acls(admin: AdminClient) -> None:
    everything = AclBindingFilter(
        ResourceType.ANY, ANY, ResourcePatternType.ANY, ANY, ANY, AclOperation.ANY, AclPermissionType.ANY
    )
    admin.delete_acls([everything], request_timeout=TIMEOUT_S)[everything].result(TIMEOUT_S)


def list_acls(insync: InsyncCommand, *arguments: str) -> list[str]:
    rows = insync.json("acl", "list", *arguments)
    return [" ".join(row.values()) for row in rows]


def test_acls_are_added_listed_and_removed(insync: InsyncCommand, admin: AdminClient) -> None:
    insync("acl", "add", "alice", "read,describe", "--topic", "orders", "--group", "billing")
    insync("acl", "add", "alice", "read", "--topic", "orders")
    insync("acl", "add", "User:bob", "write", "--topic", "ord", "--prefixed", "--deny", "--host", "10.0.0.1")
    insync("acl", "add", "*", "describe", "--cluster")
    assert list_acls(insync) == [
        "User:bob deny write topic prefixed ord 10.0.0.1",
        "User:alice allow read topic literal orders *",
        "User:alice allow describe topic literal orders *",
        "User:alice allow read group literal billing *",
        "User:alice allow describe group literal billing *",
        "User:* allow describe cluster literal kafka-cluster *",
    ]
    wanted = AclBindingFilter(
        ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, ANY, ANY, AclOperation.ANY, AclPermissionType.DENY
    )
    (seen,) = admin.describe_acls(wanted, request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert (seen.principal, seen.host, seen.name) == ("User:bob", "10.0.0.1", "ord")
    assert len(list_acls(insync, "--topic", "orders")) == 3, "those for the prefix included"
    assert list_acls(insync, "--principal", "bob") == ["User:bob deny write topic prefixed ord 10.0.0.1"]
    assert "4 ACLs would be removed" in insync("acl", "remove", "alice", "--dry-run")
    assert "1 ACLs removed" in insync("acl", "remove", "alice", "read", "--group", "billing")
    assert "0 ACLs removed" in insync("acl", "remove", "--topic", "ord")
    assert "1 ACLs removed" in insync("acl", "remove", "--topic", "ord", "--prefixed", "--deny", "--host", "10.0.0.1")
    assert "3 ACLs removed" in insync("acl", "remove", "alice", "--allow")
    assert list_acls(insync) == ["User:* allow describe cluster literal kafka-cluster *"]


def test_acls_of_librdkafka_are_listed(insync: InsyncCommand, admin: AdminClient) -> None:
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
    assert list_acls(insync) == ["User:carol allow all group prefixed g *"]
    assert "carol" in insync("acl", "list")


def test_acls_and_users_of_kafka_python_are_listed(cluster: LocalCluster, insync: InsyncCommand) -> None:
    admin = python_admin.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    pattern = python_admin.ResourcePattern(
        python_admin.ResourceType.TOPIC, "t", python_admin.ACLResourcePatternType.LITERAL
    )
    acl = python_admin.ACL(
        "User:dave", "*", python_admin.ACLOperation.READ, python_admin.ACLPermissionType.ALLOW, pattern
    )
    admin.create_acls([acl])
    assert list_acls(insync) == ["User:dave allow read topic literal t *"]
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
    assert [(entry.principal, entry.operation.name) for entry in described] == [("User:dave", "READ")]
    admin.delete_acls([everything])
    assert list_acls(insync) == []
    mechanism = python_admin.ScramMechanism.SCRAM_SHA_256
    admin.alter_user_scram_credentials([python_admin.UserScramCredentialUpsertion("dave", mechanism, "secret")])
    assert ["dave", "SCRAM-SHA-256"] in [line.split()[:2] for line in insync("user", "list").splitlines()]
    admin.alter_user_scram_credentials([python_admin.UserScramCredentialDeletion("dave", mechanism)])
    admin.close()


def test_a_check_says_which_acl_decides(insync: InsyncCommand) -> None:
    """May alice write to orders, and if not, why?"""
    refused = insync.run("acl", "check", "alice", "write", "--topic", "orders")
    assert refused.exit_code == 1
    assert "User:alice may not WRITE TOPIC 'orders': no ACL allows it" in refused.stdout
    assert "To allow it: insync acl add User:alice write --topic orders" in refused.stdout
    insync("acl", "add", "alice", "write", "--topic", "ord", "--prefixed")
    allowed = insync("acl", "check", "alice", "write", "--topic", "orders")
    assert "may WRITE" in allowed
    assert "ALLOW User:alice WRITE on TOPIC:PREFIXED:ord from *" in allowed
    assert "may DESCRIBE" in insync("acl", "check", "alice", "describe", "--topic", "orders")
    insync("acl", "add", "*", "all", "--topic", "*", "--deny", "--host", "10.0.0.1")
    denied = insync.run("acl", "check", "alice", "write", "--topic", "orders", "--host", "10.0.0.1")
    assert (denied.exit_code, "DENY User:* ALL on TOPIC:LITERAL:*" in denied.stdout) == (1, True)
    assert "give the client's with --host" in insync("acl", "check", "alice", "write", "--topic", "orders")
    assert "super user" in insync("acl", "check", "root", "alter", "--cluster")
    verdict = json.loads(insync.run("acl", "check", "bob", "read", "--topic", "orders", "--json").stdout)
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
def test_wrong_arguments_say_what_to_do(insync: InsyncCommand, arguments: tuple[str, ...], problem: str) -> None:
    result = insync.run("acl", *arguments)
    assert (result.exit_code, problem in result.output) == (2, True), result.output
