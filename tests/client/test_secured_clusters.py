"""The client at listeners of a real node with TLS and SASL: what works, and clear errors for what does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insync.cli.main import app
from insync.client import producer, topics
from insync.client.client import Client
from insync.client.consumer import Reader
from insync.client.errors import AccessDeniedError
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.client.sync_client import SyncClient
from insync.metadata.security_records import to_scram_record
from insync.security.scram import HASHES, make_credential
from insync.server import bootstrap_metadata
from insync.server.cluster_layout import data_directory
from insync.server.local_ports import HOST
from insync.server.storage_format import BOOTSTRAP_CHECKPOINT
from insync.wire.batch import NewRecord
from tests.client.login_errors import QUICK_S, TIMEOUT_S, list_topics, login_error
from tests.server.listener_cluster import ListenerCluster
from tests.server.server_harness import Topic, metric
from tests.tls_files import TLS

USERS = {"alice": "wonder land", "a=b,c": 'p"ä,=s'}
DUPED = "duped"
"""A user of whose credential the node knows the wrong half: it accepts alice's password, and cannot prove itself."""
CA = {"ssl.truststore.location": str(TLS / "ca.pem")}
LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "ASTRAY": "SSL",
    "LOGIN": "SASL_SSL",
    "OPEN": "SASL_PLAINTEXT",
    "SHORT": "SASL_SSL",
    "SCRAM": "SASL_SSL",
}
"""ELSEWHERE has a certificate for another host; ASTRAY names an address without TLS to its clients; sessions of SHORT
end soon; SCRAM has one mechanism only."""
SETTINGS = {
    "ssl.keystore.location": str(TLS / "server.pem"),
    "ssl.truststore.location": str(TLS / "ca.pem"),
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.elsewhere.ssl.keystore.location": str(TLS / "elsewhere.pem"),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.short.connections.max.reauth.ms": "1500",
    **{
        f"listener.name.{name}.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        f'required user_alice="{USERS["alice"]}";'
        for name in ("login", "open", "short")
    },
}


class ClientCluster(ListenerCluster):
    def __init__(self) -> None:
        super().__init__(LISTENERS, settings=SETTINGS, settings_of=self._advertise, brokers=1)

    def _advertise(self, node_id: int) -> Mapping[str, str]:
        ports = {name: self.ports[name][node_id] for name in self.listeners}
        ports["ASTRAY"] = ports["PLAINTEXT"]
        return {"advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())}

    def _write_nodes(self) -> None:
        super()._write_nodes()
        records = []
        for mechanism in HASHES:
            users = {name: make_credential(mechanism, word, name.encode(), 4_096) for name, word in USERS.items()}
            users[DUPED] = replace(users["alice"], server_key=bytes(32))
            records += [to_scram_record(mechanism, name, credential) for name, credential in users.items()]
        path = data_directory(self.directory, 1) / BOOTSTRAP_CHECKPOINT
        path.write_bytes(bootstrap_metadata.encode(tuple(records)))

    def count(self, name: str, listener: str) -> Callable[[], int]:
        """How often the metric was counted since now."""

        def total() -> int:
            return int(metric(self.nodes[1], f'{name}_total{{listener="{listener}"}}'))

        before = total()
        return lambda: total() - before


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClientCluster]:
    with ClientCluster() as made:
        Topic(made, "orders")
        yield made


def login(
    user: str = "alice", password: str = "", mechanism: str = "SCRAM-SHA-512", tls: bool = True
) -> dict[str, str]:
    word = (password or USERS.get(user, USERS["alice"])).replace('"', '\\"')
    return {
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'org.apache.kafka.Any.ScramLoginModule required username="{user}" password="{word}";',
        **(CA if tls else {}),
    }


def refusal(bootstrap: str, settings: dict[str, str]) -> str:
    """The error, which must come soon, with uvloop and with asyncio's own loop."""
    error = login_error(bootstrap, settings)
    message = str(error)

    async def connect() -> None:
        async with Client.connect(bootstrap, timeout_s=TIMEOUT_S, settings=ClientSettings.of(settings)):
            pass

    started = time.monotonic()
    with pytest.raises(type(error)) as other:
        asyncio.run(connect())
    assert str(other.value) == message
    assert time.monotonic() - started < QUICK_S
    assert USERS["alice"] not in message
    return message


# --- what works ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trust",
    [
        CA,
        {"ssl.ca.location": str(TLS / "ca.pem")},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": (TLS / "ca.pem").read_text()},
    ],
)
def test_tls_with_an_authority_from_a_file_or_inline(cluster: ClientCluster, trust: dict[str, str]) -> None:
    assert list_topics(cluster.bootstrap_of("TLS"), {"security.protocol": "SSL", **trust}) == ["orders"]


@pytest.mark.parametrize(
    ("user", "mechanism"),
    [("alice", "PLAIN"), *((user, mechanism) for user in USERS for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"))],
)
def test_users_log_in(cluster: ClientCluster, mechanism: str, user: str) -> None:
    logins = cluster.count("successful_authentications", "LOGIN")
    assert list_topics(cluster.bootstrap_of("LOGIN"), login(user, mechanism=mechanism)) == ["orders"]
    assert logins() >= 1


def test_users_log_in_without_tls(cluster: ClientCluster) -> None:
    assert list_topics(cluster.bootstrap_of("OPEN"), login(tls=False)) == ["orders"]


@pytest.mark.parametrize(
    "identity",
    [
        {"ssl.keystore.location": str(TLS / "client.pem")},
        {"ssl.keystore.location": str(TLS / "client-locked.pem"), "ssl.key.password": "open sesame"},
        {
            "ssl.keystore.key": (TLS / "client.pem").read_text().partition("-----BEGIN CERTIFICATE")[0],
            "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE"
            + (TLS / "client.pem").read_text().partition("-----BEGIN CERTIFICATE")[2],
        },
    ],
    ids=["file", "locked file", "inline"],
)
def test_brokers_may_require_a_client_certificate(cluster: ClientCluster, identity: dict[str, str]) -> None:
    assert list_topics(cluster.bootstrap_of("MUTUAL"), {"security.protocol": "SSL", **CA, **identity}) == ["orders"]


def test_a_name_that_is_not_in_the_certificate_can_be_allowed(cluster: ClientCluster) -> None:
    settings = {"security.protocol": "SSL", **CA, "ssl.endpoint.identification.algorithm": ""}
    assert list_topics(cluster.bootstrap_of("ELSEWHERE"), settings) == ["orders"]


def test_a_busy_client_reauthenticates_before_the_session_ends(cluster: ClientCluster) -> None:
    """The node closes the connection at any other request after the end of a session or during a login. The client
    would then log in on a new connection, but there must be only one to each address."""
    logins = cluster.count("successful_authentications", "SHORT")
    renewals = cluster.count("successful_reauthentications", "SHORT")

    async def work() -> None:
        settings = ClientSettings.of(login())
        async with Client.connect(cluster.bootstrap_of("SHORT"), timeout_s=60.0, settings=settings) as client:
            topic = await topics.describe_one(client, "orders")
            writer = producer.Producer(client, topic)
            await writer.start()
            sent = 0
            while renewals() < 2:
                await asyncio.gather(*(topics.describe(client) for _ in range(5)), writer.send(0, [record(sent)], 1))
                sent += 1
            reader = Reader(client, topic, {0: 0}, {0: sent})
            assert [consumed.record.value async for consumed in reader.records()] == [b"%d" % i for i in range(sent)]

    asyncio.run(work())
    assert logins() == 1


def record(number: int) -> NewRecord:
    return NewRecord(None, b"%d" % number)


def test_commands_accept_the_file_of_kafkas_tools(cluster: ClientCluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in login(mechanism="PLAIN").items()))
    arguments = ["topic", "list", "--json", "--bootstrap", cluster.bootstrap_of("LOGIN")]
    result = CliRunner().invoke(app, [*arguments, "--client-config", str(file)])
    assert (result.exit_code, '"orders"' in result.output) == (0, True)
    assert CliRunner().invoke(app, arguments, env={"INSYNC_CLIENT_CONFIG": str(file)}).exit_code == 0
    assert CliRunner().invoke(app, arguments).exit_code == 1


@pytest.mark.parametrize(
    ("content", "message"), [("security.protocol=TLS\n", "security.protocol"), (None, "No such file")]
)
def test_a_bad_file_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_text(content)
    result = CliRunner().invoke(app, ["topic", "list", "--client-config", str(file)])
    assert result.exit_code == 2
    assert str(file) in result.output
    assert message in result.output


# --- what fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("mallory", "guess")])
def test_a_wrong_password_is_tried_once(cluster: ClientCluster, mechanism: str, user: str, password: str) -> None:
    failures = cluster.count("failed_authentications", "LOGIN")
    message = refusal(cluster.bootstrap_of("LOGIN"), login(user, password, mechanism))
    assert failures() == 2, "one with each kind of loop"
    assert f"rejected user '{user}' with {mechanism}" in message
    assert "sasl.jaas.config" in message
    assert "guess" not in message


def test_a_server_that_does_not_know_the_password_is_refused(cluster: ClientCluster) -> None:
    assert "its signature is wrong" in refusal(cluster.bootstrap_of("LOGIN"), login(DUPED))


def test_a_mechanism_that_is_not_offered(cluster: ClientCluster) -> None:
    message = refusal(cluster.bootstrap_of("SCRAM"), login(mechanism="PLAIN"))
    assert "sasl.mechanism is PLAIN" in message
    assert "offers SCRAM-SHA-256" in message


def test_a_listener_without_sasl(cluster: ClientCluster) -> None:
    assert "set security.protocol to PLAINTEXT" in refusal(cluster.bootstrap, login(tls=False))


def test_a_listener_that_requires_sasl(cluster: ClientCluster) -> None:
    message = refusal(cluster.bootstrap_of("LOGIN"), {"security.protocol": "SSL", **CA})
    assert "it probably requires authentication" in message


@pytest.mark.parametrize("trust", [{"ssl.ca.location": str(TLS / "stranger.pem")}, {}], ids=["another", "none"])
def test_an_untrusted_authority(cluster: ClientCluster, trust: dict[str, str]) -> None:
    message = refusal(cluster.bootstrap_of("TLS"), {"security.protocol": "SSL", **trust})
    assert "the certificate of 127.0.0.1:" in message
    assert ("ssl.ca.location" if trust else "ssl.truststore.location") in message


def test_a_certificate_of_another_name(cluster: ClientCluster) -> None:
    message = refusal(cluster.bootstrap_of("ELSEWHERE"), {"security.protocol": "SSL", **CA})
    assert "not for the name '127.0.0.1'" in message
    assert "ssl.endpoint.identification.algorithm" in message


def test_a_missing_client_certificate(cluster: ClientCluster) -> None:
    assert "ssl.keystore.location" in refusal(cluster.bootstrap_of("MUTUAL"), {"security.protocol": "SSL", **CA})


def test_a_client_without_tls_at_a_listener_with_tls(cluster: ClientCluster) -> None:
    assert "security.protocol" in refusal(cluster.bootstrap_of("TLS"), {})


def test_a_client_with_tls_at_a_listener_without(cluster: ClientCluster) -> None:
    message = refusal(cluster.bootstrap, {"security.protocol": "SSL", **CA})
    assert "does not speak TLS" in message
    assert "security.protocol" in message


def test_a_broker_that_denies_access_is_not_retried_while_others_answer(cluster: ClientCluster) -> None:
    """The bootstrap address accepts the client; the address that it names for the broker does not."""
    settings = ClientSettings.of({"security.protocol": "SSL", **CA})
    started = time.monotonic()
    with SyncClient(cluster.bootstrap_of("ASTRAY"), timeout_s=60.0, settings=settings) as client:
        topic = client.call(lambda cluster: topics.describe_one(cluster, "orders"))
        with pytest.raises(AccessDeniedError, match="does not speak TLS"):
            list(
                client.fetch_batches(topic, {0: 0}, {0: 1}, next_offset_of=lambda _: 1, isolation=0, partition_bytes=1)
            )
    assert time.monotonic() - started < QUICK_S


def test_without_settings_a_client_has_the_defaults() -> None:
    assert Client.connect("localhost:1").settings is DEFAULT_SETTINGS
