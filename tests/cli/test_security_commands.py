"""`insync acl`, `user` and `quota` on real nodes, beside the admin clients of librdkafka and kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from insync.server.local_cluster import LocalCluster
from tests.insync_command import InsyncCommand

TIMEOUT_S = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1) as local:
        yield local


# --- users ---


def described(admin: AdminClient, name: str) -> list[ScramCredentialInfo]:
    users = admin.describe_user_scram_credentials([name], request_timeout=TIMEOUT_S)
    assert isinstance(users, dict)
    infos: list[ScramCredentialInfo] = users[name].result(TIMEOUT_S).scram_credential_infos
    return infos


def test_users_are_added_changed_listed_and_removed(insync: InsyncCommand, admin: AdminClient, tmp_path: Path) -> None:
    assert "created for SCRAM-SHA-256" in insync("user", "add", "alice", stdin="first secret\n")
    (info,) = described(admin, "alice")
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_256, 4_096)
    again = insync.run("user", "add", "alice", stdin="other\n")
    assert (again.exit_code, "insync user passwd" in again.output) == (1, True)
    file = tmp_path / "password"
    file.write_text("second secret\n")
    insync("user", "add", "alice", "-m", "scram-sha-512", "--password-file", str(file), "--iterations", "8192")
    assert [row for row in insync.json("user", "list") if row["user"] == "alice"] == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4_096},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8_192},
    ]
    insync("user", "passwd", "alice", "--password-file", "-", "--iterations", "16384", stdin="third\n")
    assert [info.iterations for info in described(admin, "alice")] == [16_384, 16_384]
    assert "SCRAM-SHA-512" in insync("user", "remove", "alice", "-m", "SCRAM-SHA-512")
    insync("user", "remove", "alice")
    assert "alice" not in insync("user", "list")
    gone = insync.run("user", "passwd", "alice", stdin="x\n")
    assert (gone.exit_code, "there is no user 'alice'" in gone.output) == (1, True)


def test_users_of_librdkafka_are_listed(insync: InsyncCommand, admin: AdminClient) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 10_000)
    upsertion = UserScramCredentialUpsertion("bob", info, b"secret", b"salt")
    admin.alter_user_scram_credentials([upsertion])["bob"].result(TIMEOUT_S)
    wanted = {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 10_000}
    assert wanted in insync.json("user", "list")
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["bob"].result(TIMEOUT_S)
    assert wanted not in insync.json("user", "list")


def test_a_password_is_shown_nowhere_and_warned_of_on_the_command_line(
    cluster: LocalCluster, insync: InsyncCommand
) -> None:
    result = insync.run("user", "add", "carol", "--password", "visible secret")
    assert (result.exit_code, "warning" in result.stderr) == (0, True)
    assert "visible secret" not in result.output
    assert not any("visible secret" in node.log.read_text() for node in cluster.nodes.values())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("add", "dave", "-m", "PLAIN"), "not a mechanism"),
        (("add", "dave", "--password", ""), "password is empty"),
        (("add", "dave"), "password is empty"),
        (("add", "dave", "--password-file", "/nothing/here"), "No such file"),
        (("add", "dave", "--password", "a", "--password-file", "b"), "not both"),
    ],
)
def test_wrong_arguments_for_users_create_nothing(
    insync: InsyncCommand, arguments: tuple[str, ...], problem: str
) -> None:
    result = insync.run("user", *arguments, stdin="")
    assert (result.exit_code, problem in result.output) == (2, True), result.output
    assert "dave" not in insync("user", "list")


# --- quotas ---


def test_quotas_are_set_listed_and_removed(insync: InsyncCommand) -> None:
    insync("quota", "set", "--user", "alice", "producer_byte_rate=1048576", "request_percentage=12.5")
    insync("quota", "set", "--default-user", "--client-id", "app", "consumer_byte_rate=1e6")
    insync("quota", "set", "--ip", "127.0.0.9", "connection_creation_rate=10")
    listed = {(r["user"], r["client_id"], r["ip"], r["quota"]): r["limit"] for r in insync.json("quota", "list")}
    assert listed == {
        ("alice", None, None, "producer_byte_rate"): 1_048_576,
        ("alice", None, None, "request_percentage"): 12.5,
        ("<default>", "app", None, "consumer_byte_rate"): 1_000_000,
        (None, None, "127.0.0.9", "connection_creation_rate"): 10,
    }
    shown = insync("quota", "list")
    assert ["<default>", "app", "-", "consumer_byte_rate", "1000000"] in [line.split() for line in shown.splitlines()]
    assert "producer_byte_rate" in insync("quota", "remove", "--user", "alice", "producer_byte_rate")
    insync("quota", "remove", "--user", "alice")
    insync("quota", "remove", "--default-user", "--client-id", "app")
    insync("quota", "remove", "--ip", "127.0.0.9")
    assert insync.json("quota", "list") == []
    again = insync.run("quota", "remove", "--user", "alice")
    assert (again.exit_code, "user alice does not have any quota" in again.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("producer_byte_rate=1",), "whose quotas"),
        (("--user", "a", "--default-user", "producer_byte_rate=1"), "not both"),
        (("--user", "a", "--ip", "127.0.0.1", "producer_byte_rate=1"), "does not go with"),
        (("--user", "", "producer_byte_rate=1"), "empty"),
        (("--user", "a", "connection_creation_rate=1"), "write one of producer_byte_rate"),
        (("--user", "a", "producer_byte_rate"), "NAME=VALUE"),
        (("--user", "a", "producer_byte_rate=much"), "a number above 0"),
        (("--user", "a", "producer_byte_rate=0"), "a number above 0"),
    ],
)
def test_wrong_arguments_for_quotas_say_what_to_do(
    insync: InsyncCommand, arguments: tuple[str, ...], problem: str
) -> None:
    result = insync.run("quota", "set", *arguments)
    assert (result.exit_code, problem in result.output) == (2, True), result.output


def test_what_the_cluster_refuses_is_reported(insync: InsyncCommand) -> None:
    result = insync.run("quota", "set", "--user", "a", "producer_byte_rate=1.5")
    assert (result.exit_code, "cannot be a fractional value" in result.output) == (1, True)
