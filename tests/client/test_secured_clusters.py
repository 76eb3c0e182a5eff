"""The client with a real node behind TLS and SASL: what works, and clear errors for what does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insync import Cluster
from insync.cli.main import app
from insync.client import producer, topics
from insync.client.client import Client
from insync.client.consumer import Reader
from insync.client.errors import AccessDeniedError, ClientError
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.client.sync_client import SyncClient
from insync.wire.batch import NewRecord
from tests.secured_front import TLS, SecuredFront

USERS = {"alice": "wonder land", "a=b,c": 'p"ä,=s'}
CA = {"ssl.truststore.location": str(TLS / "ca.pem")}
QUICK_S = 20.0
"""Far below the clients' timeout of 60 s: the error was not retried."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, topics=["orders"]) as made:
        yield made


def login(
    user: str = "alice", password: str = "", mechanism: str = "SCRAM-SHA-512", tls: bool = True
) -> dict[str, str]:
    word = (password or USERS[user]).replace('"', '\\"')
    return {
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'org.apache.kafka.Any.ScramLoginModule required username="{user}" password="{word}";',
        **(CA if tls else {}),
    }


def describe(bootstrap: str, settings: dict[str, str]) -> list[str]:
    with SyncClient(bootstrap, timeout_s=60.0, settings=ClientSettings.of(settings)) as client:
        return [topic.name for topic in client.call(topics.describe)]


def refusal(bootstrap: str, settings: dict[str, str]) -> str:
    """The error, which must come soon, with uvloop and with asyncio's own loop."""
    started = time.monotonic()
    with pytest.raises(ClientError) as caught:
        describe(bootstrap, settings)
    message = str(caught.value)

    async def connect() -> None:
        async with Client.connect(bootstrap, timeout_s=60.0, settings=ClientSettings.of(settings)):
            pass

    with pytest.raises(type(caught.value)) as other:
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
def test_tls_with_an_authority_from_a_file_or_inline(cluster: Cluster, trust: dict[str, str]) -> None:
    with SecuredFront(cluster.bootstrap) as front:
        assert describe(front.bootstrap, {"security.protocol": "SSL", **trust}) == ["orders"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_log_in_on_every_connection(cluster: Cluster, mechanism: str, user: str) -> None:
    with SecuredFront(cluster.bootstrap, users=USERS) as front:
        assert describe(front.bootstrap, login(user, mechanism=mechanism)) == ["orders"]
        assert set(front.logins) == {(user, mechanism)}


def test_users_log_in_without_tls(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap, certificate=None, users=USERS) as front:
        assert describe(front.bootstrap, login(tls=False)) == ["orders"]


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
def test_brokers_may_require_a_client_certificate(cluster: Cluster, identity: dict[str, str]) -> None:
    with SecuredFront(cluster.bootstrap, client_ca="ca.pem") as front:
        assert describe(front.bootstrap, {"security.protocol": "SSL", **CA, **identity}) == ["orders"]


def test_a_name_that_is_not_in_the_certificate_can_be_allowed(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap, certificate="elsewhere.pem") as front:
        unchecked = {"ssl.endpoint.identification.algorithm": ""}
        assert describe(front.bootstrap, {"security.protocol": "SSL", **CA, **unchecked}) == ["orders"]


def test_a_busy_client_reauthenticates_before_the_session_ends(cluster: Cluster) -> None:
    """The front closes the connection at any other request after the end of a session or during a login. The client
    would then log in on a new connection, but there must be only one to each address."""

    async def work(front: SecuredFront) -> int:
        settings = ClientSettings.of(login())
        async with Client.connect(front.bootstrap, timeout_s=60.0, settings=settings) as client:
            topic = await topics.describe_one(client, "orders")
            writer = producer.Producer(client, topic)
            await writer.start()
            sent = 0
            while len(front.logins) < 4:
                await asyncio.gather(*(topics.describe(client) for _ in range(5)), writer.send(0, [record(sent)], 1))
                sent += 1
            reader = Reader(client, topic, {0: 0}, {0: sent})
            assert [consumed.record.value async for consumed in reader.records()] == [b"%d" % i for i in range(sent)]
        return front.handshakes

    with SecuredFront(cluster.bootstrap, users=USERS, lifetime_s=1.0) as front:
        assert asyncio.run(work(front)) == 1


def record(number: int) -> NewRecord:
    return NewRecord(None, b"%d" % number)


def test_commands_accept_the_file_of_kafkas_tools(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in login(mechanism="PLAIN").items()))
    with SecuredFront(cluster.bootstrap, users=USERS) as front:
        arguments = ["topic", "list", "--json", "--bootstrap", front.bootstrap]
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
def test_a_wrong_password_is_tried_once(cluster: Cluster, mechanism: str, user: str, password: str) -> None:
    with SecuredFront(cluster.bootstrap, users=USERS) as front:
        message = refusal(front.bootstrap, login(user, password, mechanism))
        assert front.handshakes == 2  # one with each kind of loop
    assert f"rejected user '{user}' with {mechanism}" in message
    assert "sasl.jaas.config" in message
    assert "guess" not in message


def test_a_server_that_does_not_know_the_password_is_refused(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap, users=USERS, impostor=True) as front:
        assert "its signature is wrong" in refusal(front.bootstrap, login())


def test_a_mechanism_that_is_not_offered(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap, users=USERS, mechanisms=("SCRAM-SHA-256", "GSSAPI")) as front:
        message = refusal(front.bootstrap, login(mechanism="PLAIN"))
    assert "sasl.mechanism is PLAIN" in message
    assert "offers GSSAPI, SCRAM-SHA-256" in message


def test_a_listener_without_sasl(cluster: Cluster) -> None:
    assert "set security.protocol to PLAINTEXT" in refusal(cluster.bootstrap, login(tls=False))


def test_a_listener_that_requires_sasl(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap, users=USERS) as front:
        assert "it probably requires authentication" in refusal(front.bootstrap, {"security.protocol": "SSL", **CA})


@pytest.mark.parametrize("trust", [{"ssl.ca.location": str(TLS / "stranger.pem")}, {}], ids=["another", "none"])
def test_an_untrusted_authority(cluster: Cluster, trust: dict[str, str]) -> None:
    with SecuredFront(cluster.bootstrap) as front:
        message = refusal(front.bootstrap, {"security.protocol": "SSL", **trust})
    assert "the certificate of 127.0.0.1:" in message
    assert ("ssl.ca.location" if trust else "ssl.truststore.location") in message


def test_a_certificate_of_another_name(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap, certificate="elsewhere.pem") as front:
        message = refusal(front.bootstrap, {"security.protocol": "SSL", **CA})
    assert "not for the name '127.0.0.1'" in message
    assert "ssl.endpoint.identification.algorithm" in message


def test_a_missing_client_certificate(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap, client_ca="ca.pem") as front:
        assert "ssl.keystore.location" in refusal(front.bootstrap, {"security.protocol": "SSL", **CA})


def test_a_client_without_tls_at_a_listener_with_tls(cluster: Cluster) -> None:
    with SecuredFront(cluster.bootstrap) as front:
        assert "security.protocol" in refusal(front.bootstrap, {})


def test_a_client_with_tls_at_a_listener_without(cluster: Cluster) -> None:
    message = refusal(cluster.bootstrap, {"security.protocol": "SSL", **CA})
    assert "does not speak TLS" in message
    assert "security.protocol" in message


def test_a_broker_that_denies_access_is_not_retried_while_others_answer(cluster: Cluster) -> None:
    """The bootstrap address accepts the client; the broker that it names, by its own port, does not."""
    settings = {"security.protocol": "SSL", **CA}
    with SecuredFront(cluster.bootstrap) as front:
        bootstrap = front.bootstrap
        front.ports = {}
        started = time.monotonic()
        with SyncClient(bootstrap, timeout_s=60.0, settings=ClientSettings.of(settings)) as client:
            topic = client.call(lambda cluster: topics.describe_one(cluster, "orders"))
            with pytest.raises(AccessDeniedError, match="does not speak TLS"):
                list(
                    client.fetch_batches(
                        topic, {0: 0}, {0: 1}, next_offset_of=lambda _: 1, isolation=0, partition_bytes=1
                    )
                )
        assert time.monotonic() - started < QUICK_S


def test_without_settings_a_client_has_the_defaults() -> None:
    assert Client.connect("localhost:1").settings is DEFAULT_SETTINGS
