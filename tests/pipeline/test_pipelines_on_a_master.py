"""Every pipeline on a standalone master, whose executors are other processes in other directories, as a command and
through spark-submit."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

import insync.pipeline
from insync.lake.ledger import Ledger
from insync.pipeline.archive.verify import verify_lake
from insync.pipeline.campaign.seeds import RunOptions, make_row
from insync.testing import Cluster
from tests.pipeline.audit_data import make_batch, ten_batches, write_replica
from tests.pipeline.lake_data import numbered, produce, values
from tests.spark.sink_data import read_records
from tests.spark.standalone import Standalone, kill, standalone, start_driver, wait_for_driver, wait_for_output

pytestmark = pytest.mark.xdist_group("spark")

BIN = Path(sys.executable).parent
PIPELINES = Path(insync.pipeline.__file__).parent
RECORDS = 30_000
PER_FILE = 500
"""Offsets per file: so that there are many rounds, and one is interrupted."""


class Archived(NamedTuple):
    home: Path
    summary: dict[str, Any]

    @property
    def lake(self) -> Path:
        return self.home / "lake"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cluster's directories."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(nodes: Path) -> Iterator[Cluster]:
    with Cluster(brokers=1, topics={"orders": 2}, directory=nodes) as running:
        produce(running.bootstrap, "orders", numbered(0, RECORDS, partitions=2))
        yield running


@pytest.fixture(scope="module")
def archived(master: Standalone, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Archived:
    """Archived by the command; an executor is killed while there are uncommitted files."""
    home = tmp_path_factory.mktemp("archived")
    lake = home / "lake"
    options = ["--lake", "lake", "--rows-per-file", str(PER_FILE), "--bootstrap", cluster.bootstrap, "--json"]
    command = [BIN / "insync", "pipeline", "archive", "orders", "--master", master.address, *options]
    log = home / "driver.log"
    with start_driver(command, log) as driver:
        wait_for_driver(lambda: _files(lake) > _committed(lake) > 0, "a round is under way", driver)
        kill(wait_for_driver(master.executors, "there is an executor", driver)[0])
        left = RECORDS - _committed(lake) * PER_FILE
        summary = json.loads(wait_for_output(driver, log)[-1])
    assert left > 0
    return Archived(home, summary)


def _files(lake: Path) -> int:
    return sum(1 for _ in lake.glob("topic=*/date=*/part-*.parquet"))


def _committed(lake: Path) -> int:
    return len(Ledger.load(lake).files()) if lake.joinpath("_ledger").is_dir() else 0


def submit(name: str, *arguments: str, home: Path, master: str = "local[1]", exit_code: int = 0) -> list[str]:
    """The output of `spark-submit .../NAME/job.py ARGUMENTS` in directory `home`, with one executor."""
    log = home / "driver.log"
    spark = ["--master", master, "--total-executor-cores", "1"]
    command = [BIN / "spark-submit", *spark, PIPELINES / name / "job.py", *arguments]
    with start_driver(command, log) as driver:
        return wait_for_output(driver, log, exit_code)


def test_lake_and_ledger_agree_after_an_executor_is_lost(archived: Archived, cluster: Cluster) -> None:
    assert archived.summary["rows"] == RECORDS
    report = verify_lake(archived.lake, cluster.bootstrap)
    assert (report.problems, [partition.behind for partition in report.partitions]) == ([], [0, 0])
    rows = Counter(values(archived.lake, "orders"))
    assert [value for value, count in rows.items() if count > 1] == []
    assert sorted(rows) == [record["value"] for record in numbered(0, RECORDS)]


def test_a_replay_runs_through_spark_submit(archived: Archived, cluster: Cluster, master: Standalone) -> None:
    options = ["orders=again", "--create", "--lake", "lake", "--bootstrap", cluster.bootstrap, "--json"]
    lines = submit("replay", *options, home=archived.home, master=master.address)
    assert json.loads(lines[-1])["rows"] == RECORDS
    assert read_records(cluster.bootstrap, "again") == read_records(cluster.bootstrap, "orders")


def test_seeds_have_the_same_traces_on_executors(master: Standalone, tmp_path: Path) -> None:
    options = ["--seeds", "0:4", "--steps", "200", "--chunk", "1", "--out", "results", "--json"]
    lines = submit("campaign", *options, home=tmp_path, master=master.address)
    assert json.loads(lines[-1])["ran"] == 4
    parts = [pq.read_table(part, partitioning=None) for part in sorted(tmp_path.glob("results/build=*/*.parquet"))]
    hashes = [row["trace_hash"] for part in parts for row in part.to_pylist()]
    assert hashes == [make_row(seed, RunOptions(steps=200))["trace_hash"] for seed in range(4)]


def test_an_audit_on_executors_finds_the_differing_replica(master: Standalone, tmp_path: Path) -> None:
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches])
    write_replica(tmp_path, 2, [[*batches[:4], make_batch(12, word="other"), *batches[5:]]])
    write_replica(tmp_path, 3, [batches[:5], batches[5:]])
    options = ["broker-*", "--out", "findings", "--json"]
    lines = submit("audit", *options, home=tmp_path, master=master.address, exit_code=1)
    (finding,) = json.loads(lines[-1])["found"]
    assert (finding["kind"], finding["broker"], finding["offset"]) == ("diverged", 2, 12)
    (row,) = pq.read_table(tmp_path / "findings").to_pylist()
    assert row["detail"] == finding["detail"]


def test_health_runs_through_spark_submit(cluster: Cluster, nodes: Path, tmp_path: Path) -> None:
    summary = json.loads(submit("health", str(nodes), "--html", "page.html", "--json", home=tmp_path)[-1])
    assert (summary["sound"], summary["unclean_elections"], summary["partitions"] >= 2) == (True, 0, True)
    assert "</html>" in (tmp_path / "page.html").read_text()


def test_wrong_arguments_through_spark_submit_are_exit_code_2(tmp_path: Path) -> None:
    (line,) = submit("campaign", "--seeds", "5:2", home=tmp_path, exit_code=2)
    assert line.startswith("insync: seeds 5:2: need 0 <= A < B")
