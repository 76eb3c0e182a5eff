"""A user's script with its own session, run by the interpreter that insync is installed in.

No virtual environment is active, so the first Python on the PATH is another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("spark")

LOGS = Path(__file__).parents[1] / "data" / "apache-kafka-logs" / "broker-1"
JOB = """
import sys
from pyspark.sql import SparkSession
import insync.spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
insync.spark.register(spark)
print("rows", spark.read.format("insync-log").load(sys.argv[1]).count())
"""


def test_spark_works_with_the_interpreter_that_started_it(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    other_python = tmp_path / "bin"
    other_python.mkdir()
    for name in ("python", "python3"):
        (other_python / name).write_text("#!/bin/sh\nexit 9\n")
        (other_python / name).chmod(0o755)
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["PATH"] = f"{other_python}:{env['PATH']}"
    command = [sys.executable, str(job), str(LOGS)]
    completed = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "rows 136" in completed.stdout, completed.stderr
