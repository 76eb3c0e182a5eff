"""The protocol's named properties, each once, on plain data: for the simulator, for live clusters, for Spark.

A check returns None when the property holds, else a sentence about what is wrong. `ALL` lists every property by id.
"""

from __future__ import annotations

from insync.properties import (
    candidate_completeness,
    hwm_monotonicity,
    idempotence,
    leader_completeness,
    linearizable,
    liveness,
    log_matching,
    metadata_matching,
    no_loss,
    quorum_superset,
    read_consistency,
    recovery_quorum,
    single_leader,
    unclean_exclusion,
)
from insync.properties.violation import Property, Violation

SAFETY: tuple[Property, ...] = (
    leader_completeness.PROPERTY,
    log_matching.PROPERTY,
    candidate_completeness.PROPERTY,
    quorum_superset.PROPERTY,
    unclean_exclusion.PROPERTY,
    hwm_monotonicity.PROPERTY,
    metadata_matching.PROPERTY,
    read_consistency.PROPERTY,
    no_loss.PROPERTY,
    recovery_quorum.PROPERTY,
    linearizable.PROPERTY,
    single_leader.PROPERTY,
    idempotence.PROPERTY,
)
LIVENESS: tuple[Property, ...] = liveness.PROPERTIES

ALL: dict[str, Property] = {each.id: each for each in (*SAFETY, *LIVENESS)}

__all__ = ["ALL", "LIVENESS", "SAFETY", "Property", "Violation"]
