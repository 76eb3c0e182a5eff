"""A user's own script with a session of its own, started by the interpreter that insync is installed in.

Nothing else is prepared: no virtual environment is active, so the PATH leads to another Python."""

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
    elsewhere = tmp_path / "bin"
    elsewhere.mkdir()
    for name in ("python", "python3"):
        (elsewhere / name).write_text("#!/bin/sh\nexit 9\n")
        (elsewhere / name).chmod(0o755)
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["PATH"] = f"{elsewhere}:{env['PATH']}"
    done = subprocess.run([sys.executable, str(job), str(LOGS)], env=env, capture_output=True, text=True, check=False)
    assert "rows 136" in done.stdout, done.stderr
