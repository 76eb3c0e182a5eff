"""`insync demo`: the whole story, with real nodes, a stock client and real Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("spark")

INSYNC = Path(sys.executable).parent / "insync"


def test_the_whole_story_ends_well_and_leaves_a_report(tmp_path: Path) -> None:
    report, kept = tmp_path / "pages" / "report.html", tmp_path / "kept"
    command = [str(INSYNC), "demo", "--report", str(report), "--keep", str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = dict(re.findall(r"^ {11}(\S.*?)  +([\d,]+)(?: ms)? *$", done.stdout, re.MULTILINE))
    assert figures["lost"] == figures["duplicated"] == figures["reordered"] == "0"
    assert figures["archived by Spark"] == figures["in the log at the end"] != "0"
    assert "Nothing was lost" in done.stdout
    assert report.read_text().startswith("<!doctype html>")
    assert {"cluster", "lake", "history.jsonl"} <= {path.name for path in kept.iterdir()}
    assert "WARN" not in done.stderr


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([str(INSYNC), "demo"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "default-jre-headless" in done.stderr


@pytest.mark.parametrize(
    ("option", "told"),
    [("--keep", "--keep {0}: {0} is not empty"), ("--report", "--report {0}/mine.txt: the file exists")],
)
def test_what_is_there_stays_as_it_is(tmp_path: Path, option: str, told: str) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    given = tmp_path if option == "--keep" else mine
    done = subprocess.run([str(INSYNC), "demo", option, str(given)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert told.format(tmp_path) in done.stderr
    assert mine.read_text() == "mine"
