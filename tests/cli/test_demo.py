"""`insync demo` with real nodes, a stock client and real Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

INSYNC = Path(sys.executable).parent / "insync"


def test_the_demo_loses_nothing_and_writes_a_report(tmp_path: Path) -> None:
    report, kept = tmp_path / "pages" / "report.html", tmp_path / "kept"
    command = [str(INSYNC), "demo", "--report", str(report), "--keep", str(kept)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    figures = dict(re.findall(r"^ {11}(\S.*?)  +([\d,]+)(?: ms)? *$", completed.stdout, re.MULTILINE))
    assert figures["lost"] == figures["duplicated"] == figures["reordered"] == "0"
    assert figures["archived by Spark"] == figures["in the log at the end"] != "0"
    assert "Nothing was lost" in completed.stdout
    assert report.read_text().startswith("<!doctype html>")
    assert {"cluster", "lake", "history.jsonl"} <= {path.name for path in kept.iterdir()}
    assert "WARN" not in completed.stderr


def test_without_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    completed = subprocess.run([str(INSYNC), "demo"], env=environment, capture_output=True, text=True, check=False)
    assert completed.returncode == 2
    assert "default-jre-headless" in completed.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [("--keep", "--keep {0}: {0} is not empty"), ("--report", "--report {0}/mine.txt: the file exists")],
)
def test_existing_files_are_not_overwritten(tmp_path: Path, option: str, message: str) -> None:
    existing = tmp_path / "mine.txt"
    existing.write_text("mine")
    path = tmp_path if option == "--keep" else existing
    completed = subprocess.run([str(INSYNC), "demo", option, str(path)], capture_output=True, text=True, check=False)
    assert completed.returncode == 2
    assert message.format(tmp_path) in completed.stderr
    assert existing.read_text() == "mine"
