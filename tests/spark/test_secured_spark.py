"""Source, stream, sink and pipelines on a cluster behind TLS and SCRAM: from the driver, and from the executors."""

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

PATIENCE_S = 120
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
    with SecuredFront(spark_cluster.bootstrap, users={"alice": PASSWORD}) as made:
        yield made


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, COUNT, 1, 2).selectExpr("cast(id as string) as key", "concat('v', id) as value")


def expected() -> list[bytes]:
    return sorted(b"v%d" % i for i in range(COUNT))


def write(frame: DataFrame, front: SecuredFront, topic: str, **more: str) -> None:
    options = {"kafka.bootstrap.servers": front.bootstrap, "topic": topic, **OPTIONS, **more}
    frame.write.format("insync").mode("append").options(**options).save()


def stored(spark: SparkSession, front: SecuredFront, topic: str) -> list[bytes]:
    return sorted(value or b"" for value in values(read(spark, front.bootstrap, {"subscribe": topic, **OPTIONS})))


def test_rows_go_in_through_the_sink_and_out_through_source_and_stream(
    spark: SparkSession, spark_cluster: Cluster, front: SecuredFront, tmp_path: Path
) -> None:
    """The second topic gets its rows from a stream, whose progress a group follows."""
    for topic in ("locked", "locked-copy"):
        spark_cluster.create_topic(topic, partitions=2)
    write(numbers(spark), front, "locked")
    assert stored(spark, front, "locked") == expected()
    options = {"kafka.bootstrap.servers": front.bootstrap, **OPTIONS}
    stream = spark.readStream.format("insync").options(
        subscribe="locked", startingOffsets="earliest", groupId="watchers", **options
    )
    query = (
        stream.load()
        .select("key", "value")
        .writeStream.format("insync")
        .options(topic="locked-copy", checkpointLocation=str(tmp_path), **options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    assert stored(spark, front, "locked-copy") == expected()
    with SyncClient(spark_cluster.bootstrap) as client:
        committed = client.call(lambda cluster: groups.list_committed_offsets(cluster, "watchers"))
    assert sum(offset for offset in committed.values()) == COUNT
    assert set(front.logins) == {("alice", "SCRAM-SHA-512")}


def test_archive_and_replay_get_in_with_a_file_of_settings(
    spark: SparkSession, spark_cluster: Cluster, front: SecuredFront, tmp_path: Path
) -> None:
    spark_cluster.create_topic("kept", partitions=2)
    write(numbers(spark), front, "kept")
    file, lake = tmp_path / "client.properties", tmp_path / "lake"
    file.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()).replace("\\", "\\\\"))

    def insync(command: str, *arguments: str) -> dict[str, Any]:
        options = ("--bootstrap", front.bootstrap, "--client-config", str(file), "--lake", str(lake), "--json")
        told = CliRunner().invoke(app, ["pipeline", command, *arguments, *options])
        assert told.exit_code == 0, told.output
        found: dict[str, Any] = json.loads(told.stdout)
        return found

    assert insync("archive", "kept")["rows"] == COUNT
    assert insync("archive", "--verify")["ok"]
    assert insync("replay", "kept=kept-again", "--create")["rows"] == COUNT
    assert stored(spark, front, "kept-again") == expected()
    written = [path.read_text(errors="replace") for path in lake.rglob("*") if path.is_file()]
    assert written
    assert not any("sesame" in text for text in written)


def test_a_wrong_password_ends_a_query_soon_and_in_one_sentence(
    spark: SparkSession, spark_cluster: Cluster, front: SecuredFront
) -> None:
    spark_cluster.create_topic("shut", partitions=1)
    wrong = {"kafka.sasl.jaas.config": OPTIONS["kafka.sasl.jaas.config"].replace("sesame", "barley")}
    started = time.monotonic()
    for attempt in (
        lambda: read(spark, front.bootstrap, {"subscribe": "shut", **OPTIONS, **wrong}).collect(),
        lambda: write(numbers(spark).limit(1), front, "shut", **wrong),
    ):
        with pytest.raises(PySparkException, match="rejected user 'alice' with SCRAM-SHA-512") as caught:
            attempt()
        assert "barley" not in str(caught.value)
    assert time.monotonic() - started < PATIENCE_S / 2


def test_plans_show_no_secret(spark: SparkSession, front: SecuredFront) -> None:
    """Spark hides options that are called a password or look like one. A private key does neither, and plans do not
    show options of this source at all."""
    identity = {"kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----sesame", "kafka.sasl.password": "sesame"}
    frame = spark.read.format("insync").option("kafka.bootstrap.servers", front.bootstrap)
    loaded = frame.options(subscribe="locked", **OPTIONS, **identity).load()
    shown = str(loaded._jdf.queryExecution().toString())
    assert "insync" in shown
    assert "sesame" not in shown
