"""Pipelines without the packages of insync[spark]: help is shown, and what needs no Spark runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from insync.cli.pipeline import COMMANDS

WITHOUT = """
import sys
MISSING = {missing!r}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
sys.modules["hypothesis"] = None
from insync.cli.main import app
for arguments in {commands!r}:
    try:
        app(arguments, prog_name="insync")
    except SystemExit as ended:
        print("exit code", ended.code)
"""
SPARK = ("pyspark", "py4j", "pandas")
EVERYTHING = (*SPARK, "pyarrow", "numba", "numpy", "llvmlite")


def run_without(missing: tuple[str, ...], *commands: list[str]) -> tuple[str, str]:
    code = WITHOUT.format(missing=missing, commands=commands)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


@pytest.mark.parametrize("missing", [SPARK, EVERYTHING], ids=["no Spark", "no extra"])
def test_every_pipeline_shows_its_help(missing: tuple[str, ...]) -> None:
    jobs = tuple(COMMANDS)
    shown, problems = run_without(missing, *(["pipeline", job, "--help"] for job in jobs))
    assert problems == ""
    assert shown.count("exit code 0") == len(jobs)
    assert all(f"Usage: insync pipeline {job}" in shown for job in jobs)


def test_a_pipeline_names_the_packages_and_the_extra() -> None:
    shown, problems = run_without(EVERYTHING, ["pipeline", "audit", "/nowhere"])
    assert problems == "insync: this pipeline needs pyarrow, numba, numpy: pip install 'insync[spark]'\n"
    assert shown == "exit code 2\n"
    _, problems = run_without(SPARK, ["pipeline", "campaign", "--seeds", "0:1"])
    assert problems == "insync: this pipeline needs pyspark, py4j, pandas: pip install 'insync[spark]'\n"


def test_what_needs_no_spark_runs_without_it() -> None:
    _, problems = run_without(
        SPARK,
        ["pipeline", "archive", "--verify", "--offline", "--lake", "/nowhere"],
        ["pipeline", "health", "/nowhere"],
    )
    assert "/nowhere is not a lake" in problems
    assert "pip install" not in problems
