"""The examples in the guide run as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import insync.cluster.cluster  # noqa: F401  loaded once for all suites that run here

pytest_plugins = ["pytester"]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"


def test_every_example_can_be_copied_and_run(pytester: pytest.Pytester) -> None:
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    pytester.makepyfile(**{f"test_example_{number}": text for number, text in enumerate(examples)})
    pytester.runpytest_inprocess().assert_outcomes(passed=3)
    assert len(examples) == 3
