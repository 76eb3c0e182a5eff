"""The numbers of functions and files per walk in ARCHITECTURE.md are about right."""

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

    documented = count_calls.read_table((REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    counted = count_calls.count_walks()
    assert list(documented) == list(counted)
    for walk, numbers in counted.items():
        assert numbers == pytest.approx(documented[walk], rel=TOLERANCE), f"{walk}: python bench/count_calls.py"
    assert sys.getprofile() is None
