"""Source, stream, sink and pipelines with TLS and SCRAM: connections from the driver and from the executors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from insync.cli.main import app
from insync.client import groups
from insync.client.sync_client import SyncClient
from insync.testing import Cluster
from tests.secured_front import TLS, SecuredFront
from tests.spark.spark_data import read, values

pytestmark = pytest.mark.xdist_group("spark")

TIMEOUT_S = 120
PASSWORD = 'open "sesame"'
COUNT = 2_000
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="open \\"sesame\\"";'
    ),
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": str(TLS / "ca.pem"),
}
OPTIONS = {f"kafka.{name}": value for name, value in LOGIN.items()}


@pytest.fixture(scope="module")
def front(spark_cluster: Cluster) -> Iterator[SecuredFront]:
    with SecuredFront(spark_cluster.bootstrap, users={"alice": PASSWORD}) as secured:
        yield secured


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, COUNT, 1, 2).selectExpr("cast(id as string) as key", "concat('v', id) as value")


def expected() -> list[bytes]:
    return sorted(b"v%d" % i for i in range(COUNT))


def write(frame: DataFrame, front: SecuredFront, topic: str, **extra: str) -> None:
    options = {"kafka.bootstrap.servers": front.bootstrap, "topic": topic, **OPTIONS, **extra}
    frame.write.format("insync").mode("append").options(**options).save()


def stored(spark: SparkSession, front: SecuredFront, topic: str) -> list[bytes]:
    return sorted(value or b"" for value in values(read(spark, front.bootstrap, {"subscribe": topic, **OPTIONS})))


def test_sink_source_and_stream_log_in(
    spark: SparkSession, spark_cluster: Cluster, front: SecuredFront, tmp_path: Path
) -> None:
    """A stream copies the first topic to the second, and commits its offsets to a group."""
    for topic in ("secured", "secured-copy"):
        spark_cluster.create_topic(topic, partitions=2)
    write(numbers(spark), front, "secured")
    assert stored(spark, front, "secured") == expected()
    options = {"kafka.bootstrap.servers": front.bootstrap, **OPTIONS}
    stream = spark.readStream.format("insync").options(
        subscribe="secured", startingOffsets="earliest", groupId="watchers", **options
    )
    query = (
        stream.load()
        .select("key", "value")
        .writeStream.format("insync")
        .options(topic="secured-copy", checkpointLocation=str(tmp_path), **options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)
    assert stored(spark, front, "secured-copy") == expected()
    with SyncClient(spark_cluster.bootstrap) as client:
        committed = client.call(lambda cluster: groups.list_committed_offsets(cluster, "watchers"))
    assert sum(committed.values()) == COUNT
    assert set(front.logins) == {("alice", "SCRAM-SHA-512")}


def test_archive_and_replay_log_in_with_a_client_properties_file(
    spark: SparkSession, spark_cluster: Cluster, front: SecuredFront, tmp_path: Path
) -> None:
    spark_cluster.create_topic("archived", partitions=2)
    write(numbers(spark), front, "archived")
    file, lake = tmp_path / "client.properties", tmp_path / "lake"
    file.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()).replace("\\", "\\\\"))

    def insync(command: str, *arguments: str) -> dict[str, Any]:
        options = ("--bootstrap", front.bootstrap, "--client-config", str(file), "--lake", str(lake), "--json")
        completed = CliRunner().invoke(app, ["pipeline", command, *arguments, *options])
        assert completed.exit_code == 0, completed.output
        report: dict[str, Any] = json.loads(completed.stdout)
        return report

    assert insync("archive", "archived")["rows"] == COUNT
    assert insync("archive", "--verify")["ok"]
    assert insync("replay", "archived=archived-again", "--create")["rows"] == COUNT
    assert stored(spark, front, "archived-again") == expected()
    contents = [path.read_text(errors="replace") for path in lake.rglob("*") if path.is_file()]
    assert contents
    assert not any("sesame" in text for text in contents)


def test_a_wrong_password_fails_a_query_soon_with_a_clear_error(
    spark: SparkSession, spark_cluster: Cluster, front: SecuredFront
) -> None:
    spark_cluster.create_topic("closed", partitions=1)
    wrong = {"kafka.sasl.jaas.config": OPTIONS["kafka.sasl.jaas.config"].replace("sesame", "barley")}
    started = time.monotonic()
    for attempt in (
        lambda: read(spark, front.bootstrap, {"subscribe": "closed", **OPTIONS, **wrong}).collect(),
        lambda: write(numbers(spark).limit(1), front, "closed", **wrong),
    ):
        with pytest.raises(PySparkException, match="rejected user 'alice' with SCRAM-SHA-512") as caught:
            attempt()
        assert "barley" not in str(caught.value)
    assert time.monotonic() - started < TIMEOUT_S / 2


def test_plans_show_no_secrets(spark: SparkSession, front: SecuredFront) -> None:
    """Spark redacts options by name and by pattern, but not a private key. Plans show no options of this source."""
    secrets = {"kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----sesame", "kafka.sasl.password": "sesame"}
    reader = spark.read.format("insync").option("kafka.bootstrap.servers", front.bootstrap)
    frame = reader.options(subscribe="secured", **OPTIONS, **secrets).load()
    plan = str(frame._jdf.queryExecution().toString())
    assert "insync" in plan
    assert "sesame" not in plan
