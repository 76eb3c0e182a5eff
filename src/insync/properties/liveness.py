"""L1-L7: once faults stop, the cluster comes to rest in the one state that is right.

These are asked of a cluster that had time to heal, and answer why it has not come to rest yet. A partition that has to
wait for a person is left out (`waits_for_operator`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insync.metadata.partition import NO_LEADER, Partition
from insync.properties.violation import Property

L1 = Property("L1", "Brokers Run", "A broker that starts reaches the running state.")
L2 = Property("L2", "Brokers Are Unfenced", "A fenced broker that runs becomes unfenced.")
L3 = Property("L3", "AlterPartition Settles", "A proposed ISR change is accepted or refused.")
L4 = Property("L4", "Metadata Converges", "Every node applies all committed metadata.")
L5 = Property("L5", "Produces Are Answered", "Every produce is acknowledged or refused.")
L6 = Property("L6", "Acknowledged Records Are Replicated", "Every committed record reaches every replica.")
L7 = Property("L7", "Reassignments Complete", "A reassignment that can complete does.")


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What one broker holds of a partition, and as what it sees itself."""

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
    """L2: broker id to whether the controller holds it fenced."""
    late = [broker for broker, is_fenced in fenced.items() if is_fenced]
    return f"brokers are still fenced: {late}" if late else None


def check_isr_stable(name: str, replicas: Sequence[ReplicaState]) -> str | None:
    """L3: nobody waits for an answer about the ISR."""
    late = [replica.broker for replica in replicas if replica.pending_isr_change]
    return f"{name}: the ISR change that {late} proposed is not settled" if late else None


def check_metadata(applied: Mapping[int, int], committed_end: int) -> str | None:
    """L4: node id to the offset up to which it applied the metadata log."""
    late = {node: offset for node, offset in applied.items() if offset < committed_end}
    return f"metadata is committed to {committed_end}, applied only to {late}" if late else None


def check_answered(waiting: Sequence[int]) -> str | None:
    """L5: operations that have no answer."""
    return f"{len(waiting)} produces were never answered, first {waiting[0]}" if waiting else None


def check_replicated(partition: Partition, replicas: Sequence[ReplicaState]) -> str | None:
    """L6: everyone holds what the leader holds, and is in sync."""
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
            return f"{partition.name}: replica {broker} is in epoch {replica.leader_epoch}, {partition.leader_epoch} is"
    return None


def check_reassigned(partition: Partition) -> str | None:
    """L7: nothing is still being moved."""
    if not partition.reassigning:
        return None
    return f"{partition.name} is still adding {partition.adding} and removing {partition.removing}"


def waits_for_operator(partition: Partition, *, strategy: str, unclean_enabled: bool) -> bool:
    """E6: nobody is left who is known to be complete, and the topic is set to leave the choice to a person."""
    nobody = partition.leader == NO_LEADER and not partition.isr and not partition.elr
    return nobody and strategy == "manual" and not unclean_enabled


PROPERTIES = (L1, L2, L3, L4, L5, L6, L7)
