"""`insync pipeline capacity` on Spark, on the directories of a skewed cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from insync.cli.main import app
from insync.pipeline.capacity import job
from insync.pipeline.capacity.job import CapacityOptions, read_capacity
from tests.pipeline.capacity_data import write_cluster

pytestmark = pytest.mark.xdist_group("spark")


def invoke(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["pipeline", "capacity", *arguments])


def test_a_report_on_spark_is_that_of_one_without_it(spark: SparkSession, tmp_path: Path) -> None:
    paths = write_cluster(tmp_path)
    report = job.run(spark, CapacityOptions(logs=tuple(paths)))
    assert report.cluster == read_capacity(CapacityOptions(logs=tuple(paths))).cluster


def test_the_command_prints_tables_and_writes_plan_and_page(spark: SparkSession, tmp_path: Path) -> None:
    paths = write_cluster(tmp_path)
    plan, page = tmp_path / "plan.json", tmp_path / "capacity.html"
    result = invoke(*paths, "--disk", "1MB", "--plan", str(plan), "--html", str(page))
    assert result.exit_code == 0, result.output
    for words in (
        "hottest partitions",
        "retention of",
        "half of retention.ms",
        "superseded",
        "full in",
        "preferred now",
    ):
        assert words in result.output
    assert f"insync reassign start {plan} --throttle 1000000" in result.output
    document = json.loads(plan.read_text())
    assert document["version"] == 1
    assert {entry["topic"] for entry in document["partitions"]} == {"orders", "users"}
    assert "<svg" in page.read_text()
    again = invoke(*paths, "--json", "--plan", str(plan), "--what-if", "retention.bytes=1000")
    report = json.loads(again.output)
    assert report["proposal"]["plan"] == json.loads(plan.read_text())
    assert report["retention"][0]["savings"][0]["change"] == "retention.bytes=1000"
    assert report["proposal"]["skew_after"] < report["skew"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--disk", "much"], "'much' is not a number of bytes"),
        (["--disk", "a=1GB"], "'a' is not a list of brokers"),
        (["--disk", "1GB", "--topics", "orders"], "--disk with --topics"),
        (["--what-if", "segment.ms=1"], "--what-if segment.ms=1: write retention.ms=MILLISECONDS"),
        (["--what-if", "retention.ms=soon"], "--what-if retention.ms=soon"),
        (["--topics", "none"], "topic 'none' is in none of the log directories"),
        (["--brokers", "1,2"], "2 ids for 4 directories"),
        (["--window", "long"], "'long' is not a duration"),
        (["--plan", "/nowhere/plan.json"], "name a file in a directory that exists"),
        (["--html", "/nowhere/page.html"], "there is no directory /nowhere"),
    ],
)
def test_invalid_arguments_are_refused_before_spark_starts(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str], message: str
) -> None:
    paths = write_cluster(tmp_path_factory.mktemp("refused"))
    result = invoke(*paths, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_file_that_is_no_plan_is_not_overwritten(tmp_path: Path) -> None:
    paths = write_cluster(tmp_path / "cluster")
    for content in ("[1]", "notes"):
        (tmp_path / "file").write_text(content)
        result = invoke(*paths, "--plan", str(tmp_path / "file"))
        assert result.exit_code == 2
        assert "is not a plan" in result.output
        assert (tmp_path / "file").read_text() == content
