"""Simulated clusters whose disks change bytes (D6): no client reads them, and every replica is intact in the end."""

from __future__ import annotations

import pytest

from insync.sim.run import run_seed


@pytest.mark.parametrize("seed", [28, 76])
def test_whatever_rots_is_repaired_while_roles_change(seed: int) -> None:
    """D6, S2, S8, S9, L6: the run ends only when all bytes of all replicas are sound and no finding is left."""
    outcome = run_seed(seed)
    assert outcome.violation is None
    assert outcome.stats["rot"] >= 10
    assert outcome.stats["note:batch_repaired"] >= 10
