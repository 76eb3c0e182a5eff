"""Our source and sink on Apache Kafka with TLS, users and certificates; Spark's connector takes the same options.

And the errors of our client when its settings do not match Kafka's listener."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from insync.client import apis, connection, topics
from insync.client.client import BROKERS_ONLY, Client
from insync.client.errors import ConnectionLostError
from insync.client.settings import ClientSettings
from insync.client.sync_client import SyncClient
from interop.spark.secured_kafka import MECHANISMS, SESSION_MS, TLS, SecuredKafka, login_settings, tls_settings
from tests.client.login_errors import list_topics, login_error

COUNT = 1_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka() as broker:
        yield broker


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_source_and_sparks_connector_read_what_our_sink_wrote_with_the_same_options(
    spark: SparkSession, kafka: SecuredKafka, mechanism: str
) -> None:
    topic = f"rows-{mechanism}"
    options = {
        "kafka.bootstrap.servers": kafka.users,
        **{f"kafka.{k}": v for k, v in login_settings(mechanism).items()},
    }
    with SyncClient(kafka.users, settings=ClientSettings.of(login_settings(mechanism))) as client:
        client.call(lambda cluster: topics.create(cluster, topic, partitions=2, replication_factor=1))
    rows = spark.range(0, COUNT, 1, 2).selectExpr("concat('v', id) as value")
    rows.write.format("insync").mode("append").options(topic=topic, **options).save()
    for source in ("insync", "kafka"):
        stored = spark.read.format(source).options(subscribe=topic, **options).load().select("value").collect()
        assert sorted(bytes(row.value) for row in stored) == sorted(b"v%d" % i for i in range(COUNT))


def send_requests_for_two_sessions(kafka: SecuredKafka) -> None:
    """On one connection: it is an error if Kafka closes it."""

    async def send_requests(cluster: Client) -> None:
        used = await cluster.any_connection()
        deadline = time.monotonic() + 2.5 * SESSION_MS / 1_000
        while time.monotonic() < deadline:
            await asyncio.gather(*(used.call(apis.METADATA, BROKERS_ONLY) for _ in range(4)))
            await asyncio.sleep(0.05)

    with SyncClient(kafka.users, timeout_s=60.0, settings=ClientSettings.of(login_settings("SCRAM-SHA-512"))) as client:
        client.submit(send_requests).result(60)


def test_a_session_is_renewed_on_its_connection(kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that renews too late loses the connection."""
    send_requests_for_two_sessions(kafka)
    monkeypatch.setattr(connection, "_RENEW_AFTER", 10.0)
    with pytest.raises(ConnectionLostError):
        send_requests_for_two_sessions(kafka)


def test_a_client_needs_a_certificate_if_the_listener_asks_for_one(kafka: SecuredKafka) -> None:
    certificate = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(TLS / "client.pem")}
    with_certificate = list_topics(kafka.certificates, {**tls_settings(), **certificate})
    assert with_certificate == list_topics(kafka.bootstrap, {})
    assert "ssl.keystore.location" in str(login_error(kafka.certificates, tls_settings()))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_an_error_that_does_not_show_it(kafka: SecuredKafka, mechanism: str) -> None:
    message = str(login_error(kafka.users, login_settings(mechanism, "guess")))
    assert f"rejected user 'alice' with {mechanism}" in message
    assert "guess" not in message


def test_errors_for_the_wrong_listener_name_the_setting(kafka: SecuredKafka) -> None:
    stranger = {"ssl.truststore.location": str(TLS / "stranger.pem")}
    plain = {**login_settings("PLAIN"), "security.protocol": "SASL_PLAINTEXT"}
    assert "does not speak TLS" in str(login_error(kafka.bootstrap, tls_settings()))
    assert "does not use SASL" in str(login_error(kafka.bootstrap, plain))
    assert "security.protocol" in str(login_error(kafka.users, {}))
    assert "requires authentication (set security.protocol)" in str(login_error(kafka.users, tls_settings()))
    assert "ssl.truststore.location" in str(login_error(kafka.users, {**login_settings("PLAIN"), **stranger}))
