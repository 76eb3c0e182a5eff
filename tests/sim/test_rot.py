"""Simulated clusters with bit rot (D6): no client reads changed bytes, and every replica is intact in the end."""

from __future__ import annotations

import pytest

from insync.sim.run import run_seed


@pytest.mark.parametrize("seed", [28, 76])
def test_bit_rot_is_repaired_while_roles_change(seed: int) -> None:
    """D6, S2, S8, S9, L6: the run ends only when all replicas are intact and no finding is left."""
    outcome = run_seed(seed)
    assert outcome.violation is None
    assert outcome.stats["rot"] >= 10
    assert outcome.stats["note:batch_repaired"] >= 10
