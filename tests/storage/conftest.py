"""A fresh log for each storage test."""

from __future__ import annotations

import pytest

from tests.storage.storage_harness import LogHarness


@pytest.fixture
def harness() -> LogHarness:
    return LogHarness()
