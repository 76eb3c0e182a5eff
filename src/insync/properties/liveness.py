"""L1-L7: once faults stop, the cluster converges.

They are checked on a cluster that had time to heal, and say why it has not converged yet. A partition that has to wait
for an operator is left out (`waits_for_operator`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insync.metadata.partition import NO_LEADER, Partition
from insync.properties.violation import Property

L1 = Property("L1", "Brokers Run", "A broker that starts reaches the running state.")
L2 = Property("L2", "Brokers Are Unfenced", "A fenced broker that runs becomes unfenced.")
L3 = Property("L3", "AlterPartition Completes", "A proposed ISR change is accepted or refused.")
L4 = Property("L4", "Metadata Converges", "Every node applies all committed metadata.")
L5 = Property("L5", "Produces Are Answered", "Every produce is acknowledged or refused.")
L6 = Property("L6", "Acknowledged Records Are Replicated", "Every committed record reaches every replica.")
L7 = Property("L7", "Reassignments Complete", "A reassignment that can complete does.")


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One broker's replica of a partition."""

    broker: int
    leo: int
    hwm: int
    leader_epoch: int
    pending_isr_change: bool = False


def check_running(states: Mapping[int, str]) -> str | None:
    """L1: broker id to lifecycle state."""
    late = {broker: state for broker, state in states.items() if state != "running"}
    return f"brokers do not run: {late}" if late else None


def check_unfenced(fenced: Mapping[int, bool]) -> str | None:
    """L2: broker id to whether the controller has fenced it."""
    late = [broker for broker, is_fenced in fenced.items() if is_fenced]
    return f"brokers are still fenced: {late}" if late else None


def check_isr_stable(name: str, replicas: Sequence[ReplicaState]) -> str | None:
    """L3: no leader has an ISR change in flight."""
    late = [replica.broker for replica in replicas if replica.pending_isr_change]
    return f"{name}: the ISR change that {late} proposed is not completed" if late else None


def check_metadata(applied: Mapping[int, int], committed_end: int) -> str | None:
    """L4: node id to the offset up to which it applied the metadata log."""
    late = {node: offset for node, offset in applied.items() if offset < committed_end}
    return f"metadata is committed to {committed_end}, applied only to {late}" if late else None


def check_answered(waiting: Sequence[int]) -> str | None:
    """L5: the operations without a response."""
    return f"{len(waiting)} produces were never answered, first {waiting[0]}" if waiting else None


def check_replicated(partition: Partition, replicas: Sequence[ReplicaState]) -> str | None:
    """L6: every replica holds what the leader holds, and is in sync."""
    by_broker = {replica.broker: replica for replica in replicas}
    leader = by_broker.get(partition.leader)
    if partition.leader == NO_LEADER or leader is None:
        return f"{partition.name} has no leader"
    if sorted(partition.isr) != sorted(partition.replicas) or partition.elr:
        return f"{partition.name}: ISR {partition.isr}, ELR {partition.elr} of replicas {partition.replicas}"
    return _check_same(partition, leader, by_broker)


def _check_same(partition: Partition, leader: ReplicaState, by_broker: Mapping[int, ReplicaState]) -> str | None:
    if leader.hwm != leader.leo:
        return f"{partition.name}: leader {leader.broker} has {leader.leo}, committed {leader.hwm}"
    for broker in partition.replicas:
        replica = by_broker.get(broker)
        if replica is None or (replica.leo, replica.hwm) != (leader.leo, leader.hwm):
            return f"{partition.name}: replica {broker} is at {replica}, leader at {leader}"
        if replica.leader_epoch != partition.leader_epoch:
            return (
                f"{partition.name}: replica {broker} is in epoch {replica.leader_epoch}, not {partition.leader_epoch}"
            )
    return None


def check_reassigned(partition: Partition) -> str | None:
    """L7: no reassignment is in progress."""
    if not partition.reassigning:
        return None
    return f"{partition.name} is still adding {partition.adding} and removing {partition.removing}"


def waits_for_operator(partition: Partition, *, strategy: str, unclean_enabled: bool) -> bool:
    """E6: no replica is known to be complete, and the topic leaves the choice to an operator."""
    no_candidate = partition.leader == NO_LEADER and not partition.isr and not partition.elr
    return no_candidate and strategy == "manual" and not unclean_enabled


PROPERTIES = (L1, L2, L3, L4, L5, L6, L7)
