"""The security of a local cluster: files, settings of nodes and clients, and what is kept between starts."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from insync.client.security import Security
from insync.metadata.image import Image
from insync.server import bootstrap_metadata
from insync.server.listeners import SecurityProtocol
from insync.server.local_cluster import ClusterError, LocalCluster
from insync.server.local_security import CLIENTS, LocalSecurity
from insync.server.startup_error import StartupError
from insync.server.storage_format import format_directory

BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093"


def prepared(directory: Path, protocol: str = "sasl_ssl", **users: str) -> LocalSecurity:
    security = LocalSecurity.prepare(directory, protocol, users or None, has_data=False)
    assert security is not None
    security.write([1, 2, 3], BOOTSTRAP)
    return security


def test_private_files_are_for_their_owner_only(tmp_path: Path) -> None:
    security = prepared(tmp_path, alice="secret")
    public = {"ca.pem"}
    files = [path for path in security.directory.rglob("*") if path.is_file()]
    assert {"ca.key", "cluster.json", "node-1.pem", "supervisor.pem"} <= {path.name for path in files}
    assert {path.name for path in files if path.stat().st_mode & 0o077} <= public
    assert [path.stat().st_mode & 0o777 for path in (security.directory, security.directory / "clients")] == [0o700] * 2


@pytest.mark.parametrize("protocol", ["sasl_ssl", "ssl", "sasl_plaintext"])
def test_our_own_client_reads_the_written_settings(tmp_path: Path, protocol: str) -> None:
    security = prepared(tmp_path, protocol, alice="secret")
    for client in ("java", "librdkafka"):
        read = Security.of(security.client_settings("alice", BOOTSTRAP, client))
        assert (read.tls is not None, read.sasl is not None) == (
            security.protocol.uses_tls,
            security.protocol.uses_sasl,
        )
        assert read.sasl is None or (read.sasl.username, read.sasl.password) == ("alice", "secret")


def test_every_client_gets_settings_under_its_own_names(tmp_path: Path) -> None:
    security = prepared(tmp_path, alice="secret")
    settings = {client: security.client_settings("alice", BOOTSTRAP, client) for client in CLIENTS}
    assert settings["librdkafka"] == settings["confluent-kafka"]
    assert settings["confluent-kafka"]["sasl.password"] == "secret"
    assert settings["kafka-python"]["ssl_cafile"] == str(security.ca)
    assert settings["kafka-python"]["bootstrap_servers"] == BOOTSTRAP.split(",")
    assert isinstance(settings["aiokafka"]["ssl_context"], ssl.SSLContext)
    assert 'password="secret"' in settings["java"]["sasl.jaas.config"]
    with pytest.raises(ValueError, match="one of java, librdkafka"):
        security.client_settings("alice", BOOTSTRAP, "kafkajs")
    with pytest.raises(ValueError, match="did not begin with a user 'bob', but with admin, alice"):
        security.client_settings("bob", BOOTSTRAP)
    assert security.client_settings("bob", BOOTSTRAP, "librdkafka", password="p")["sasl.password"] == "p"


def test_users_may_use_topics_and_groups_and_nothing_else(tmp_path: Path) -> None:
    security = prepared(tmp_path, alice="secret")
    format_directory(str(tmp_path / "d"), cluster_id="c", node_id=1, bootstrap=security.bootstrap_checkpoint())
    image = Image()
    for offset, record in enumerate(bootstrap_metadata.read(str(tmp_path / "d"))):
        image.apply(record, offset)
    assert sorted(image.scram_credentials) == [
        (mechanism, user) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512") for user in ("admin", "alice")
    ]
    assert {(acl.principal, acl.resource_type.name) for acl in image.acls.values()} == {
        ("User:alice", "TOPIC"),
        ("User:alice", "GROUP"),
        ("User:alice", "TRANSACTIONAL_ID"),
    }


def test_a_second_start_keeps_passwords_and_certificates(tmp_path: Path) -> None:
    first = prepared(tmp_path)
    certificates = {path.name: path.read_bytes() for path in first.directory.glob("*.pem")}
    second = LocalSecurity.prepare(tmp_path, None, None, has_data=True)
    assert second is not None
    second.write([1, 2, 3, 4], BOOTSTRAP)
    assert (second.protocol, second.users) == (SecurityProtocol.SASL_SSL, first.users)
    assert {path.name: path.read_bytes() for path in second.directory.glob("*.pem")}.items() > certificates.items()
    assert second.node_certificate(4).exists()


def test_what_contradicts_the_stored_cluster_is_refused(tmp_path: Path) -> None:
    prepared(tmp_path, alice="secret")
    with pytest.raises(StartupError, match="--secure sasl_ssl"):
        LocalSecurity.prepare(tmp_path, "ssl", None, has_data=True)
    with pytest.raises(StartupError, match="insync user add"):
        LocalSecurity.prepare(tmp_path, None, {"bob": "p"}, has_data=True)
    with pytest.raises(StartupError, match="without security"):
        LocalSecurity.prepare(tmp_path / "other", "ssl", None, has_data=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"security": "tls"}, "'tls' is not one of sasl_ssl, ssl, sasl_plaintext"),
        ({"users": {"alice": "secret"}}, "need a secured cluster"),
        ({"security": "ssl", "users": {"nodes": "p"}}, "that of the nodes"),
        ({"security": "ssl", "users": {"a/b": "p"}}, "letters, digits"),
        ({"security": "ssl", "users": {"alice": ""}}, "must not be empty"),
        ({"security": "ssl", "users": {"alice": 'a"b'}}, "no quotes"),
    ],
)
def test_wrong_options_are_refused_in_plain_words(tmp_path: Path, options: dict[str, object], problem: str) -> None:
    with pytest.raises(ClusterError, match=problem):
        LocalCluster(directory=str(tmp_path), **options)  # type: ignore[arg-type]  # checked above


def test_a_damaged_state_is_not_replaced(tmp_path: Path) -> None:
    security = prepared(tmp_path)
    state = security.directory / "cluster.json"
    state.write_bytes(b"{")
    with pytest.raises(StartupError, match="is damaged"):
        LocalSecurity.prepare(tmp_path, None, None, has_data=True)
    assert state.read_bytes() == b"{"


def test_nodes_have_listeners_of_their_own(tmp_path: Path) -> None:
    cluster = LocalCluster(brokers=2, controllers=1, security="ssl", directory=str(tmp_path))
    broker, controller = cluster.nodes[1], cluster.nodes[3]
    assert cluster.node_settings(broker)["listeners"] == (
        f"CLIENTS://127.0.0.1:{broker.port},NODES://127.0.0.1:{broker.node_port}"
    )
    settings = cluster.node_settings(controller)
    assert settings["listeners"] == f"CONTROLLER://127.0.0.1:{controller.port}"
    assert settings["controller.quorum.voters"] == f"3@127.0.0.1:{controller.port}"
    assert (broker.address, controller.address) == (("127.0.0.1", broker.node_port), ("127.0.0.1", controller.port))
    cluster.stop()
