"""L1-L7 distinguish a converged cluster from one that is not."""

from __future__ import annotations

from insync.properties import liveness
from insync.properties.liveness import ReplicaState
from tests.properties.property_harness import partition


def states(*leos: int, hwm: int = 5, epoch: int = 1, pending: bool = False) -> list[ReplicaState]:
    return [ReplicaState(i + 1, leo, hwm, epoch, pending) for i, leo in enumerate(leos)]


def test_all_brokers_have_to_run() -> None:
    """L1"""
    assert liveness.check_running({1: "running"}) is None
    assert liveness.check_running({1: "running", 2: "recovery"})


def test_all_brokers_have_to_be_unfenced() -> None:
    """L2"""
    assert liveness.check_unfenced({1: False}) is None
    assert liveness.check_unfenced({1: False, 2: True})


def test_no_isr_change_stays_pending() -> None:
    """L3"""
    assert liveness.check_isr_stable("t-0", states(5, 5)) is None
    assert liveness.check_isr_stable("t-0", states(5, 5, pending=True))


def test_all_nodes_apply_all_metadata() -> None:
    """L4"""
    assert liveness.check_metadata({1: 7, 2: 7}, 7) is None
    assert liveness.check_metadata({1: 7, 2: 6}, 7)


def test_all_produces_are_answered() -> None:
    """L5"""
    assert liveness.check_answered([]) is None
    assert liveness.check_answered([4])


def test_every_replica_has_everything_and_is_in_sync() -> None:
    """L6"""
    assert liveness.check_replicated(partition(), states(5, 5, 5)) is None
    assert liveness.check_replicated(partition(leader=-1), states(5, 5, 5))
    assert liveness.check_replicated(partition(isr=(1, 2)), states(5, 5, 5))
    assert liveness.check_replicated(partition(), states(5, 5))
    assert liveness.check_replicated(partition(), states(5, 5, 4))
    assert liveness.check_replicated(partition(), states(6, 6, 6))
    assert liveness.check_replicated(partition(leader_epoch=2), states(5, 5, 5))


def test_reassignments_complete() -> None:
    """L7"""
    assert liveness.check_reassigned(partition()) is None
    assert liveness.check_reassigned(partition(adding=(4,)))
    assert liveness.check_reassigned(partition(removing=(3,)))


def test_only_a_manual_topic_without_candidates_waits_for_an_operator() -> None:
    """L6, E6: the only exception."""
    lost = partition(leader=-1, isr=(), elr=())
    assert liveness.waits_for_operator(lost, strategy="manual", unclean_enabled=False)
    assert not liveness.waits_for_operator(lost, strategy="balanced", unclean_enabled=False)
    assert not liveness.waits_for_operator(lost, strategy="manual", unclean_enabled=True)
    kept = partition(leader=-1, isr=(), elr=(2,))
    assert not liveness.waits_for_operator(kept, strategy="manual", unclean_enabled=False)
