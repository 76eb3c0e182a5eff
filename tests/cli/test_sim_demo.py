"""`insync sim demo`: a scenario that checks itself, and always ends the same way."""

from __future__ import annotations

import dataclasses

import pytest
from typer.testing import CliRunner

from insync.cli import sim_demo
from insync.cli.main import app
from insync.cli.sim_demo_chapters import CHAPTERS


def test_the_demo_loses_nothing_and_says_so() -> None:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["sim", "demo"])
    assert result.exit_code == 0
    for number, chapter in enumerate(CHAPTERS, 1):
        assert f"{number}. {chapter.title}" in result.output
    assert "8 records acknowledged, 0 lost" in result.output
    assert "properties S1..S19 held after each of" in result.output


def test_the_demo_shows_both_leaders_and_the_truncated_record() -> None:
    output = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["sim", "demo"]).output
    assert "zombie leader" in output
    assert "A B C D E F Z" in output
    assert "cuts its log from 7 to 6" in output
    assert max(len(line) for line in output.splitlines()) <= 100


def test_a_demo_that_does_not_go_as_expected_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = dataclasses.replace(CHAPTERS[1], steps="produce orders-0 A\nexpect answer A=pending")
    monkeypatch.setattr(sim_demo, "CHAPTERS", (CHAPTERS[0], wrong, CHAPTERS[2]))
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["sim", "demo"])
    assert result.exit_code == 1
    assert "EXPECTED answer A=pending, found A=none" in result.output
    assert "held after each" not in result.output
    assert CHAPTERS[2].title not in result.output
