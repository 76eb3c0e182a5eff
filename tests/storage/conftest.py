"""Lets the storage tests import `storage_bench`, and gives each of them a fresh log."""

from __future__ import annotations

import pytest
from storage_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
