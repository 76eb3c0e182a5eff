"""ARCHITECTURE.md shows how many functions and files the walks pass through, and it stays near the truth."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from insync.cluster import cluster  # noqa: F401  the Spark walk starts one

REPOSITORY = Path(__file__).parents[2]
TOLERANCE = 0.1


def test_the_counts_in_architecture_are_near_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "bench"))
    import count_calls

    shown = count_calls.read_table((REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    counted = count_calls.count_walks()
    assert list(shown) == list(counted)
    for walk, numbers in counted.items():
        assert numbers == pytest.approx(shown[walk], rel=TOLERANCE), f"{walk}: python bench/count_calls.py"
    assert sys.getprofile() is None
