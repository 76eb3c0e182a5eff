"""How tests are marked and spread over processes: see tests/conftest.py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import kinds_of_tests

TESTS = Path(__file__).parent.parent
MARK = 'pytestmark = pytest.mark.xdist_group("spark")'
USES_SPARK = re.compile(r"^def test_\w+\([^)]*\b(spark: SparkSession|master: Standalone)\b", re.MULTILINE)
TEST_FILE = """
import os
import pytest
{mark}
@pytest.mark.parametrize("number", range(3))
def test_where(number, request):
    with open("where", "a") as out:
        print(request.path.stem, os.environ["PYTEST_XDIST_WORKER"], file=out)
"""


def test_a_file_and_a_group_of_files_run_in_one_process(tmp_path: Path) -> None:
    directory = _make_tests(tmp_path)
    for name, mark in {"one": MARK, "alone": "", "other": "", "two": MARK}.items():
        (directory / f"test_{name}.py").write_text(TEST_FILE.format(mark=mark))
    completed = _run_pytest(tmp_path, "-n", "2", "--no-loadscope-reorder")
    assert completed.returncode == 0, completed.stdout
    runs = [line.split() for line in (tmp_path / "where").read_text().splitlines()]
    processes_by_file: dict[str, set[str]] = {}
    for file, process in runs:
        processes_by_file.setdefault("group" if file in ("test_one", "test_two") else file, set()).add(process)
    assert len(runs) == 12
    assert sorted(processes_by_file) == ["group", "test_alone", "test_other"]
    assert [processes for processes in processes_by_file.values() if len(processes) > 1] == []


def _make_tests(directory: Path) -> Path:
    """A directory of tests with our conftest.py."""
    tests = directory / "tests"
    tests.mkdir()
    for name in ("conftest.py", "kinds_of_tests.py"):
        shutil.copy(TESTS / name, tests)
    return tests


def _run_pytest(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_every_file_with_spark_is_in_its_group() -> None:
    spark_files = [file for file in sorted(TESTS.rglob("test_*.py")) if USES_SPARK.search(file.read_text())]
    assert len(spark_files) > 8
    assert [file.name for file in spark_files if MARK not in file.read_text()] == []


@pytest.mark.parametrize(
    ("source", "fixtures", "kind"),
    [
        ("import struct\n", (), "unit"),
        ("import subprocess\n", (), "cluster"),
        ("from insync.cluster.cluster import Cluster\n", (), "cluster"),
        ("from tests.server import server_harness\n", (), "cluster"),
        ("from tests.spark.spark_session import start\n", (), "spark"),
        ("from insync import (\n    Cluster,\n)\n", (), "cluster"),
        ("import struct, wheel_smoke as smoke\n", (), "cluster"),
        ("", ("insync_cluster",), "cluster"),
        ("from pyspark.sql import SparkSession\n", (), "spark"),
        ("import subprocess\n", ("spark",), "spark"),
    ],
)
def test_a_test_is_marked_by_what_its_file_and_its_helpers_need(
    tmp_path: Path, source: str, fixtures: tuple[str, ...], kind: str
) -> None:
    (tmp_path / "test_it.py").write_text(source)
    assert kinds_of_tests.kind_of_test(tmp_path / "test_it.py", fixtures) == kind


def test_a_unit_test_that_starts_a_process_fails(tmp_path: Path) -> None:
    source = "import os\ndef test_it():\n    os.posix_spawn('/bin/true', ['true'], {})\n"
    (_make_tests(tmp_path) / "test_it.py").write_text(source)
    completed = _run_pytest(tmp_path)
    assert completed.returncode == 1
    assert "test_it.py::test_it is a unit test and starts a process (os.posix_spawn)" in completed.stdout


def test_unit_tests_include_the_core_and_no_real_nodes() -> None:
    kinds = {file: kinds_of_tests.kind_of_test(file) for file in sorted(TESTS.rglob("test_*.py"))}
    assert kinds[TESTS / "wire" / "test_batch.py"] == "unit"
    assert kinds[TESTS / "server" / "test_real_cluster.py"] == "cluster"
    assert kinds[TESTS / "spark" / "test_source_batch.py"] == "spark"
