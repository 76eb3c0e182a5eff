"""`insync sim run` in several processes finds what it finds in one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def run_seeds(jobs: int) -> dict[str, Any]:
    code = "from insync.cli.main import app; app()"
    command = [
        sys.executable,
        "-c",
        code,
        "sim",
        "run",
        "--seeds",
        "0:4",
        "--steps",
        "300",
        "--jobs",
        str(jobs),
        "--json",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    summary: dict[str, Any] = json.loads(completed.stdout)
    return summary


def test_two_jobs_have_the_summary_of_one() -> None:
    one, two = run_seeds(1), run_seeds(2)
    assert one["seeds"] == 4
    for field in ("seeds", "steps", "violations", "failures", "probes"):
        assert two[field] == one[field]
