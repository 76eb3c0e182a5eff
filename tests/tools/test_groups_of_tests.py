"""What shares something expensive runs in one process of `pytest -n`: whole files, and files of one group."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
MARK = 'pytestmark = pytest.mark.xdist_group("spark")'
USES_SPARK = re.compile(r"^def test_\w+\([^)]*\b(spark: SparkSession|master: Standalone)\b", re.MULTILINE)
A_FILE = """
import os
import pytest
{mark}
@pytest.mark.parametrize("number", range(3))
def test_where(number, request):
    with open("where", "a") as out:
        print(request.path.stem, os.environ["PYTEST_XDIST_WORKER"], file=out)
"""


def test_a_file_and_a_group_of_files_run_in_one_process(tmp_path: Path) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    for name, mark in {"one": MARK, "alone": "", "other": "", "two": MARK}.items():
        (tmp_path / f"test_{name}.py").write_text(A_FILE.format(mark=mark))
    command = [sys.executable, "-m", "pytest", "-n", "2", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    ran = [line.split() for line in (tmp_path / "where").read_text().splitlines()]
    places: dict[str, set[str]] = {}
    for file, process in ran:
        places.setdefault("group" if file in ("test_one", "test_two") else file, set()).add(process)
    assert len(ran) == 12
    assert sorted(places) == ["group", "test_alone", "test_other"]
    assert [processes for processes in places.values() if len(processes) > 1] == []


def test_every_file_with_spark_is_in_its_group() -> None:
    using = [file for file in sorted(TESTS.rglob("test_*.py")) if USES_SPARK.search(file.read_text())]
    assert len(using) > 8
    assert [file.name for file in using if MARK not in file.read_text()] == []
