"""The protocol's named properties, each defined once, on plain data: the simulator, live clusters and Spark use them.

A check returns None if the property holds, else a sentence that says what is wrong. `ALL` has every property by id.
"""

from __future__ import annotations

from insync.properties import (
    availability,
    candidate_completeness,
    denied_requests,
    explained_changes,
    group_offsets,
    hwm_monotonicity,
    idempotence,
    leader_completeness,
    linearizable,
    liveness,
    log_matching,
    metadata_matching,
    min_isr_gate,
    no_loss,
    offset_queries,
    quorum_superset,
    read_consistency,
    recovery_quorum,
    safe_reassignment,
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
    safe_reassignment.PROPERTY,
    denied_requests.PROPERTY,
    min_isr_gate.PROPERTY,
    explained_changes.PROPERTY,
    group_offsets.PROPERTY,
    offset_queries.PROPERTY,
)
LIVENESS: tuple[Property, ...] = (*liveness.PROPERTIES, *availability.PROPERTIES)

ALL: dict[str, Property] = {prop.id: prop for prop in (*SAFETY, *LIVENESS)}

__all__ = ["ALL", "LIVENESS", "SAFETY", "Property", "Violation"]
