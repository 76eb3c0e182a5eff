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
from insync.client.settings import ClientSettings
from insync.client.sync_client import SyncClient
from insync.testing import Cluster
from tests.spark.spark_data import read, values

pytestmark = pytest.mark.xdist_group("spark")

TIMEOUT_S = 120
PASSWORD = "open sesame"
COUNT = 2_000


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster(brokers=1, security="sasl_ssl", users={"alice": PASSWORD}) as cluster:
        yield cluster


def options_of(cluster: Cluster) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in cluster.client_config("alice", "java").items()}


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, COUNT, 1, 2).selectExpr("cast(id as string) as key", "concat('v', id) as value")


def expected() -> list[bytes]:
    return sorted(b"v%d" % i for i in range(COUNT))


def write(frame: DataFrame, cluster: Cluster, topic: str, **extra: str) -> None:
    options = {"topic": topic, **options_of(cluster), **extra}
    frame.write.format("insync").mode("append").options(**options).save()


def stored(spark: SparkSession, cluster: Cluster, topic: str) -> list[bytes]:
    frame = read(spark, cluster.bootstrap, {"subscribe": topic, **options_of(cluster)})
    return sorted(value or b"" for value in values(frame))


def test_sink_source_and_stream_log_in(spark: SparkSession, secured: Cluster, tmp_path: Path) -> None:
    """A stream copies the first topic to the second, and commits its offsets to a group."""
    for topic in ("secured", "secured-copy"):
        secured.create_topic(topic, partitions=2)
    write(numbers(spark), secured, "secured")
    assert stored(spark, secured, "secured") == expected()
    options = options_of(secured)
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
    assert stored(spark, secured, "secured-copy") == expected()
    settings = ClientSettings.of(secured.client_config("admin", "java"))
    with SyncClient(secured.bootstrap, settings=settings) as client:
        committed = client.call(lambda cluster: groups.list_committed_offsets(cluster, "watchers"))
    assert sum(committed.values()) == COUNT


def test_archive_and_replay_log_in_with_a_client_properties_file(
    spark: SparkSession, secured: Cluster, tmp_path: Path
) -> None:
    secured.create_topic("archived", partitions=2)
    write(numbers(spark), secured, "archived")
    secured.create_topic("archived-again", partitions=2)
    file, lake = tmp_path / "client.properties", tmp_path / "lake"
    settings = secured.client_config("alice", "java")
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def insync(command: str, *arguments: str) -> dict[str, Any]:
        options = ("--client-config", str(file), "--bootstrap", secured.bootstrap, "--lake", str(lake), "--json")
        completed = CliRunner().invoke(app, ["pipeline", command, *arguments, *options])
        assert completed.exit_code == 0, completed.output
        report: dict[str, Any] = json.loads(completed.stdout)
        return report

    assert insync("archive", "archived")["rows"] == COUNT
    assert insync("archive", "--verify")["ok"]
    assert insync("replay", "archived=archived-again")["rows"] == COUNT
    assert stored(spark, secured, "archived-again") == expected()
    contents = [path.read_text(errors="replace") for path in lake.rglob("*") if path.is_file()]
    assert contents
    assert not any("sesame" in text for text in contents)


def test_a_mirror_logs_in_to_both_clusters_with_settings_of_their_own(
    spark: SparkSession, secured: Cluster, tmp_path: Path
) -> None:
    secured.create_topic("mirrored", partitions=2)
    write(numbers(spark), secured, "mirrored")
    for user, name in (("alice", "source"), ("admin", "target")):
        settings = secured.client_config(user, "java")
        (tmp_path / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    state = tmp_path / "state"
    clusters = ["--bootstrap", secured.bootstrap, "--to", secured.bootstrap, "--state", str(state), "--json"]
    command = ["pipeline", "mirror", "mirrored=mirrored-again", "--client-config", str(tmp_path / "source"), *clusters]
    completed = CliRunner().invoke(app, [*command, "--to-config", str(tmp_path / "target")])
    assert completed.exit_code == 0, completed.output
    assert json.loads(completed.stdout)["rows"] == COUNT
    assert stored(spark, secured, "mirrored-again") == expected()
    assert "sesame" not in (state / "mirror.json").read_text()
    missing = CliRunner().invoke(app, [*command, "--to-config", str(tmp_path / "absent")])
    assert (missing.exit_code, missing.stderr) == (
        2,
        f"insync: --to-config {tmp_path / 'absent'}: No such file or directory\n",
    )


def test_a_wrong_password_fails_a_query_soon_with_a_clear_error(spark: SparkSession, secured: Cluster) -> None:
    secured.create_topic("closed", partitions=1)
    options = options_of(secured)
    wrong = {"kafka.sasl.jaas.config": options["kafka.sasl.jaas.config"].replace("sesame", "barley")}
    started = time.monotonic()
    for attempt in (
        lambda: read(spark, secured.bootstrap, {"subscribe": "closed", **options, **wrong}).collect(),
        lambda: write(numbers(spark).limit(1), secured, "closed", **wrong),
    ):
        with pytest.raises(PySparkException, match="rejected user 'alice' with SCRAM-SHA-512") as caught:
            attempt()
        assert "barley" not in str(caught.value)
    assert time.monotonic() - started < TIMEOUT_S / 2


def test_plans_show_no_secrets(spark: SparkSession, secured: Cluster) -> None:
    """Spark redacts options by name and by pattern, but not a private key. Plans show no options of this source."""
    secrets = {"kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----sesame", "kafka.sasl.password": "sesame"}
    frame = spark.read.format("insync").options(subscribe="secured", **options_of(secured), **secrets).load()
    plan = str(frame._jdf.queryExecution().toString())
    assert "insync" in plan
    assert "sesame" not in plan
