"""Apache's tools and Java client on a secured node: on insync they print what they print on Kafka.

The same properties start either. Its storage is formatted by kafka-storage, which gives it its first user for SCRAM.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.java import node_processes
from interop.java.kafka_tools import TIMEOUT_S, Tools, run_program
from tests.authorizer_settings import authorizer_settings

TLS = Path(__file__).parents[2] / "tests" / "data" / "tls"
HOST = node_processes.HOST
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORDS = {"admin": "of the admin", "alice": "open sesame"}
_MODULES = "org.apache.kafka.common.security"
_FIRST_USERS = [
    f"--add-scram={mechanism}=[name={user},password={password}]"
    for mechanism in MECHANISMS[1:]
    for user, password in PASSWORDS.items()
]


def properties(ports: list[int], data: Path) -> str:
    users, encrypted, certificates, controller = (f"{HOST}:{port}" for port in ports)
    known = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    plain = f'{_MODULES}.plain.PlainLoginModule required username="admin" password="{PASSWORDS["admin"]}" {known};'
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    advertised = f"USERS://{users},ENCRYPTED://{encrypted},CERTIFICATES://{certificates}"
    protocols = {"USERS": "SASL_PLAINTEXT", "ENCRYPTED": "SASL_SSL", "CERTIFICATES": "SSL", "CONTROLLER": "SASL_SSL"}
    values = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"{advertised},CONTROLLER://{controller}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "ENCRYPTED",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{controller}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **{f"listener.name.{name}.plain.sasl.jaas.config": plain for name in ("users", "encrypted", "controller")},
        **{
            f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": scram
            for name in ("users", "encrypted")
            for mechanism in MECHANISMS[1:]
        },
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(TLS / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(TLS / "ca.pem"),
        "listener.name.certificates.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/,DEFAULT",
        **authorizer_settings("admin"),
        "log.dirs": str(data),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
        "num.network.threads": "1",
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


class Secured:
    """A node, and the settings of clients that log in to it."""

    def __init__(self, node: node_processes.Node, directory: Path) -> None:
        self.node = node
        users, encrypted, certificates, _ = (f"{HOST}:{port}" for port in node.ports)
        self.bootstrap = {"SASL_PLAINTEXT": users, "SASL_SSL": encrypted, "SSL": certificates}
        self._directory = directory

    def settings(self, protocol: str, mechanism: str, user: str, password: str = "") -> dict[str, str]:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'{_MODULES}.{module} required username="{user}" password="{password or PASSWORDS[user]}";'
        sasl = {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
        certificate = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(TLS / "client.pem")}
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(TLS / "ca.pem")}
        return {
            "bootstrap.servers": self.bootstrap[protocol],
            "security.protocol": protocol,
            **(sasl if protocol.startswith("SASL") else certificate),
            **(trust if protocol.endswith("SSL") else {}),
        }

    def write(self, name: str, settings: dict[str, str]) -> Path:
        file = self._directory / name
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file

    def tools(self, protocol: str, mechanism: str, user: str, password: str = "") -> Tools:
        file = self.write(f"{protocol}-{mechanism}-{user}", self.settings(protocol, mechanism, user, password))
        return Tools(self.bootstrap[protocol], file)


@pytest.fixture(scope="module", params=["insync", "kafka"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp(request.param)
    with node_processes.running(
        request.param, directory, properties, ports=4, formatted_by="kafka", format_options=_FIRST_USERS
    ) as node:
        yield Secured(node, directory)


@pytest.fixture(scope="module")
def admin(secured: Secured) -> Tools:
    tools = secured.tools("SASL_SSL", "SCRAM-SHA-512", "admin")
    deadline = time.monotonic() + TIMEOUT_S
    ready = False
    while not ready and time.monotonic() < deadline:
        secured.node.check_running()
        ready = tools.run("kafka-topics", "--create", "--if-not-exists", "--topic", "written").exit_code == 0
    return tools


def test_a_user_is_created_logs_in_and_is_removed(secured: Secured, admin: Tools) -> None:
    bob = ("--entity-type", "users", "--entity-name", "bob")
    credential = "SCRAM-SHA-256=[iterations=8192,password=bobs own]"
    twice = f"{credential},SCRAM-SHA-512=[password=bobs own]"
    refused = admin.fail("kafka-configs", "--alter", *bob, "--add-config", twice)
    assert "A user credential cannot be altered twice in the same request" in refused
    said = admin("kafka-configs", "--alter", *bob, "--add-config", credential)
    assert "Completed updating config for user bob." in said
    described = admin("kafka-configs", "--describe", *bob)
    assert "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=8192" in described
    assert secured.tools("SASL_PLAINTEXT", "SCRAM-SHA-256", "bob", "bobs own")("kafka-topics", "--list").strip() == ""
    admin("kafka-configs", "--alter", *bob, "--delete-config", "SCRAM-SHA-256")
    refused = secured.tools("SASL_PLAINTEXT", "SCRAM-SHA-256", "bob", "bobs own").fail("kafka-topics", "--list")
    assert "Authentication failed during authentication due to invalid credentials with SASL mechanism" in refused


def test_a_user_writes_and_reads_what_acls_allow(secured: Secured, admin: Tools) -> None:
    alice = secured.tools("SASL_PLAINTEXT", "PLAIN", "alice")
    assert "written" not in alice("kafka-topics", "--list").split()
    assert ": Authorization failed." in alice.fail("kafka-topics", "--create", "--topic", "hers")
    admin("kafka-acls", "--add", "--allow-principal", "User:alice", "--producer", "--topic", "written")
    admin("kafka-acls", "--add", "--allow-principal", "User:alice", "--consumer", "--topic", "written", "--group", "*")
    alice.produce_lines("written", "a\nb\n")
    encrypted = secured.tools("SASL_SSL", "PLAIN", "alice")
    assert encrypted.consume("written", 2, "--group", "hers") == ["a", "b"]


def test_the_java_client_logs_in_by_every_protocol_and_mechanism(secured: Secured, admin: Tools) -> None:
    for role in ("--producer", "--consumer"):
        group = ("--group", "readers") if role == "--consumer" else ()
        admin("kafka-acls", "--add", "--allow-principal", "User:alice", role, "--topic", "java", *group)
    admin.create_topic("java", "--partitions", "1")
    logins = {
        f"{protocol}-{mechanism}": secured.settings(protocol, mechanism, "alice")
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism in MECHANISMS
    }
    wrong = {
        f"wrong-{mechanism}": secured.settings("SASL_PLAINTEXT", mechanism, "alice", "guessed")
        for mechanism in MECHANISMS
    }
    unknown = {"unknown": secured.settings("SASL_PLAINTEXT", "SCRAM-SHA-256", "mallory", "guessed")}
    strange = {**secured.settings("SSL", "", "alice"), "ssl.truststore.location": str(TLS / "stranger.pem")}
    configs = {**logins, "SSL": secured.settings("SSL", "", "alice"), "strange": strange, **wrong, **unknown}
    files = [str(secured.write(name, settings)) for name, settings in configs.items()]
    assert run_program("Secured", "java", *files) == {
        **dict.fromkeys((*logins, "SSL"), "1 node, read"),
        "strange": "SslAuthenticationException",
        **dict.fromkeys((*wrong, "unknown"), "SaslAuthenticationException"),
    }
