"""`pytest --rewrite-golden` writes the golden outputs anew, to be reviewed as a diff."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden outputs instead of comparing them")
