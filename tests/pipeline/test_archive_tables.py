"""`archive --format delta` and `iceberg`: every record once in a table that other engines read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from insync.cli.main import app
from insync.testing import Cluster
from tests.pipeline.lake_data import numbered, produce

pytestmark = pytest.mark.xdist_group("spark")


def read_delta(root: Path, topic: str) -> list[bytes]:
    values: list[bytes] = DeltaTable(str(root / topic)).to_pyarrow_table().column("value").to_pylist()
    return sorted(values)


def read_iceberg(root: Path, topic: str) -> list[bytes]:
    table = load_catalog("insync", uri=f"sqlite:///{root}/catalog.db").load_table(("insync", topic))
    values: list[bytes] = table.scan().to_arrow().column("value").to_pylist()
    return sorted(values)


@pytest.mark.parametrize(("table_format", "read"), [("delta", read_delta), ("iceberg", read_iceberg)])
def test_each_run_adds_the_new_records_to_a_table_per_topic(
    spark: SparkSession,
    cluster: Cluster,
    tmp_path: Path,
    table_format: str,
    read: Callable[[Path, str], list[bytes]],
) -> None:
    def archive(*arguments: str) -> Result:
        options = ["--lake", str(tmp_path), "--format", table_format, "--bootstrap", cluster.bootstrap]
        return CliRunner().invoke(app, ["pipeline", "archive", *options, *arguments])

    orders, users = f"orders-{table_format}", f"users-{table_format}"
    cluster.create_topic(orders, partitions=2)
    cluster.create_topic(users)
    produce(cluster.bootstrap, orders, numbered(0, 400, partitions=2))
    produce(cluster.bootstrap, users, numbered(0, 50))
    run = archive(orders, users, "--rows-per-file", "100")
    assert run.exit_code == 0, run.output
    assert read(tmp_path, users) == [record["value"] for record in numbered(0, 50)]
    produce(cluster.bootstrap, orders, numbered(400, 500, partitions=2))
    for expected in ("100 rows in", "0 rows in"):
        assert expected in archive(orders, users).stdout
    assert read(tmp_path, orders) == [record["value"] for record in numbered(0, 500)]
    refused = archive("--verify")
    assert refused.exit_code == 2
    assert "--verify checks lakes of format parquet" in refused.stderr
