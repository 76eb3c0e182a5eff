"""The report of functions that no simulated run executes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simulator_coverage

SOURCE = '''
class Log:
    def append(self):
        return 1

    def declared(self):
        """Only this."""
        raise NotImplementedError

    @property
    def leo(self):
        def inner():
            return 2
        return inner()

class View(Protocol):
    def leo(self): return 0
'''


def test_functions_are_listed_with_their_class_and_without_declarations() -> None:
    functions = dict(simulator_coverage._functions(ast.parse(SOURCE), ""))
    assert functions == {"Log.append": 3, "Log.leo": 10, "Log.leo.inner": 12}


def test_a_run_reaches_the_heart_of_the_protocol() -> None:
    """With one seed; what a run calls is known by file and line."""
    executed = simulator_coverage.run_seeds([3], str(Path("src/insync").resolve()))
    functions = simulator_coverage.defined_functions()
    for name in (
        "replication/leader.py:Leader.advance_hwm",
        "quorum/leader.py:Leader.propose",
        "storage/log.py:Log.read",
    ):
        assert functions[name] in executed


def test_what_did_not_run_is_named_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulator_coverage, "PACKAGES", ("groups",))
    monkeypatch.setattr(simulator_coverage, "NOT_RUN", {"groups/a.py:Old": "kept for old clients"})
    functions = {"groups/a.py:f": ("groups/a.py", 1), "groups/a.py:Old.g": ("groups/a.py", 9)}
    assert simulator_coverage.report(functions, set(), list_excused=True) == 1
    output = capsys.readouterr().out
    assert "not run: groups/a.py:f" in output
    assert "excused: groups/a.py:Old.g: kept for old clients" in output
    assert simulator_coverage.report(functions, {("groups/a.py", 1)}, list_excused=False) == 0
    assert "1 of 1 functions run" in capsys.readouterr().out
