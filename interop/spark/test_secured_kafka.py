"""Our source and sink on Apache Kafka behind TLS, with users and with certificates; Java's connector takes the same
options. And what Kafka's own listeners answer to those who come in by the wrong door."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from insync.client import apis, connection, topics
from insync.client.client import BROKERS_ONLY, Client
from insync.client.errors import ClientError, ConnectionLostError
from insync.client.settings import ClientSettings
from insync.client.sync_client import SyncClient
from interop.spark.secured_kafka import MECHANISMS, SESSION_MS, TLS, SecuredKafka, login, trusting

COUNT = 1_000
QUICK_S = 20.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka() as made:
        yield made


def names(bootstrap: str, settings: dict[str, str]) -> list[str]:
    with SyncClient(bootstrap, timeout_s=60.0, settings=ClientSettings.of(settings)) as client:
        return [topic.name for topic in client.call(topics.describe)]


def refusal(bootstrap: str, settings: dict[str, str]) -> str:
    started = time.monotonic()
    with pytest.raises(ClientError) as caught:
        names(bootstrap, settings)
    assert time.monotonic() - started < QUICK_S
    return str(caught.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_our_sink_writes_our_source_and_javas_connector_read_with_the_same_options(
    spark: SparkSession, kafka: SecuredKafka, mechanism: str
) -> None:
    topic = f"rows-{mechanism}"
    options = {"kafka.bootstrap.servers": kafka.users, **{f"kafka.{k}": v for k, v in login(mechanism).items()}}
    with SyncClient(kafka.users, settings=ClientSettings.of(login(mechanism))) as client:
        client.call(lambda cluster: topics.create(cluster, topic, partitions=2, replication_factor=1))
    rows = spark.range(0, COUNT, 1, 2).selectExpr("concat('v', id) as value")
    rows.write.format("insync").mode("append").options(topic=topic, **options).save()
    for name in ("insync", "kafka"):
        found = spark.read.format(name).options(subscribe=topic, **options).load().select("value").collect()
        assert sorted(bytes(row.value) for row in found) == sorted(b"v%d" % i for i in range(COUNT))


def ask_for_a_while(kafka: SecuredKafka) -> None:
    """Longer than two sessions, on one connection: if Kafka closes it, that is an error."""

    async def ask(cluster: Client) -> None:
        opened = await cluster.any_connection()
        until = time.monotonic() + 2.5 * SESSION_MS / 1_000
        while time.monotonic() < until:
            await asyncio.gather(*(opened.call(apis.METADATA, BROKERS_ONLY) for _ in range(4)))
            await asyncio.sleep(0.05)

    with SyncClient(kafka.users, timeout_s=60.0, settings=ClientSettings.of(login("SCRAM-SHA-512"))) as client:
        client.submit(ask).result(60)


def test_a_session_is_renewed_on_its_connection(kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for_a_while(kafka)
    monkeypatch.setattr(connection, "_LATE", 10.0)
    with pytest.raises(ConnectionLostError):
        ask_for_a_while(kafka)


def test_a_clients_certificate_is_asked_for(kafka: SecuredKafka) -> None:
    known = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(TLS / "client.pem")}
    names(kafka.certificates, {**trusting(), **known})
    assert "ssl.keystore.location" in refusal(kafka.certificates, trusting())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password(kafka: SecuredKafka, mechanism: str) -> None:
    told = refusal(kafka.users, login(mechanism, "guess"))
    assert f"rejected user 'alice' with {mechanism}" in told
    assert "guess" not in told


def test_wrong_doors(kafka: SecuredKafka) -> None:
    plain = {**login("PLAIN"), "security.protocol": "SASL_PLAINTEXT"}
    assert "does not speak TLS" in refusal(kafka.bootstrap, trusting())
    assert "does not use SASL" in refusal(kafka.bootstrap, plain)
    assert "security.protocol" in refusal(kafka.users, {})
    assert "ask for a user and a password" in refusal(kafka.users, trusting())
    assert "ssl.truststore.location" in refusal(kafka.users, {**login("PLAIN"), **_strange()})


def _strange() -> dict[str, str]:
    return {"ssl.truststore.location": str(TLS / "stranger.pem")}
