"""A fresh log for each storage test."""

from __future__ import annotations

import pytest

from tests.storage.storage_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
