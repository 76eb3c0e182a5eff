"""Archive, compact, replay and the option `lake` on an S3-compatible server, as on a directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from insync import lake
from insync.cli.main import app
from insync.lake.directory import load_ledger
from insync.testing import Cluster
from tests.lake.s3_server import BUCKET, run_s3_server
from tests.pipeline.lake_data import delete_records, numbered, produce, table, values

pytestmark = pytest.mark.xdist_group("spark")
PLACE = f"s3://{BUCKET}/pipelines/lake"


@pytest.fixture(scope="module")
def server() -> Iterator[Mapping[str, str]]:
    with run_s3_server() as variables:
        yield variables


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["pipeline", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_pipeline_works_on_a_lake_in_an_object_store(
    spark: SparkSession,
    cluster: Cluster,
    server: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the driver's environment names the server: the session and its workers were started before."""
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    bootstrap = ("--bootstrap", cluster.bootstrap)
    cluster.create_topic("orders")
    produce(cluster.bootstrap, "orders", numbered(0, 500))
    assert "500 rows in" in run("archive", "orders", "--lake", PLACE, "--rows-per-file", "50", *bootstrap)
    local = str(tmp_path / "lake")
    run("archive", "orders", "--lake", local, *bootstrap)
    assert table(PLACE, "orders").equals(table(local, "orders"))
    before = lake.read(spark, PLACE)
    assert "10 files merged into 1 file" in run("compact", "--lake", PLACE, "--grace", "1h")
    for frame in (before, lake.read(spark, PLACE, ["orders"])):
        assert frame.select("offset").distinct().count() == frame.count() == 500
        assert frame.schema == lake.read(spark, local).schema
    assert "10 replaced files deleted" in run("compact", "--lake", PLACE)
    assert len(load_ledger(PLACE).files()) == 1

    produce(cluster.bootstrap, "orders", numbered(500, 600))
    delete_records(cluster.bootstrap, "orders", before=300)
    settings = {
        "lake": PLACE,
        "lake.endpoint": server["AWS_ENDPOINT_URL"],
        "lake.region": server["AWS_REGION"],
        "lake.access_key_id": server["AWS_ACCESS_KEY_ID"],
        "lake.secret_access_key": server["AWS_SECRET_ACCESS_KEY"],
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": "orders",
    }
    rows = spark.read.format("insync").options(**settings).load().select("offset", "value").orderBy("offset").collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == [(i, b"v%06d" % i) for i in range(600)]
    stream = (
        spark.readStream.format("insync")
        .options(**settings)
        .load()
        .writeStream.format("memory")
        .queryName("from_s3")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination(120)
    assert spark.table("from_s3").select("offset").distinct().count() == spark.table("from_s3").count() == 600

    replay = ("replay", "orders=again", "--lake", PLACE, "--create", *bootstrap)
    assert "500 records" in run(*replay)
    assert f"state in {PLACE}/_replay/" in run(*replay)
    assert "500 rows in" in run("archive", "again", "--lake", PLACE, *bootstrap)
    assert values(PLACE, "again") == [b"v%06d" % i for i in range(500)]
    assert "all files intact" in run("archive", "--lake", PLACE, "--verify", *bootstrap)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_are_archived_to_in_an_object_store(
    spark: SparkSession,
    cluster: Cluster,
    server: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_format: str,
) -> None:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    topic = f"users-{table_format}"
    cluster.create_topic(topic)
    produce(cluster.bootstrap, topic, numbered(0, 100))
    options = ["--lake", f"s3://{BUCKET}/{table_format}", "--format", table_format, "--bootstrap", cluster.bootstrap]
    if table_format == "iceberg":
        options += ["--catalog", f"sqlite:///{tmp_path}/catalog.db"]
    assert "100 rows in" in run("archive", topic, *options, "--rows-per-file", "40")
    assert "0 rows in" in run("archive", topic, *options)
