"""S17: a committed change of a partition is consistent in itself, and one that starts a leader epoch has a cause.

A needless election loses nothing, but every producer, consumer and follower of the partition pays for it. The causes
can be read off the change: there was no leader, the leader left the ISR, the preferred replica took over, or replicas
left with a reassignment.
"""

from __future__ import annotations

from insync.metadata.partition import NO_LEADER, Partition
from insync.properties.violation import Property

PROPERTY = Property(
    "S17",
    "Explained Changes",
    "ISR and ELR are disjoint subsets of the replicas, the leader is in the ISR, and a new leader epoch has a cause.",
)


def check(before: Partition, after: Partition) -> str | None:
    return check_consistent(after) or check_election(before, after) or check_joined(before, after)


def check_consistent(partition: Partition) -> str | None:
    """M1: what no change may leave behind."""
    replicas, isr, elr = partition.replicas, partition.isr, partition.elr
    if len(set(replicas)) != len(replicas) or len(set(isr)) != len(isr) or len(set(elr)) != len(elr):
        return f"a replica is named twice: replicas {replicas}, ISR {isr}, ELR {elr}"
    for name in ("isr", "elr", "last_known_elr", "adding", "removing"):
        members = getattr(partition, name)
        outside = [member for member in members if member not in replicas]
        if outside:
            return f"{name} {members} has {outside}, which are not in the replicas {replicas}"
    if any(member in isr for member in elr):
        return f"ISR {isr} and ELR {elr} overlap"
    if any(replica in partition.removing for replica in partition.adding):
        return f"a replica is in adding {partition.adding} and in removing {partition.removing}"
    if partition.leader != NO_LEADER and partition.leader not in isr:
        return f"leader {partition.leader} is not in the ISR {isr}"
    return None


def check_election(before: Partition, after: Partition) -> str | None:
    """E1, M2: why there is a new leader epoch, and that there is one if replicas left. Another leader is a cause here;
    whether it is one depends on the broker of the old leader (`was_leader_replaced`)."""
    removed = [replica for replica in before.replicas if replica not in after.replicas]
    if after.leader_epoch == before.leader_epoch:
        return f"replicas {removed} left, but leader epoch {after.leader_epoch} goes on" if removed else None
    was_leaderless = before.leader == NO_LEADER != after.leader
    has_leader_left = before.leader != NO_LEADER and before.leader not in after.isr
    is_reassigned = bool(removed) or (before.reassigning and not after.reassigning)
    if was_leaderless or has_leader_left or is_reassigned or after.leader != before.leader:
        return None
    return (
        f"leader epoch {after.leader_epoch} has no cause: leader {before.leader} -> {after.leader}, "
        f"ISR {before.isr} -> {after.isr}, replicas {after.replicas}"
    )


def was_leader_replaced(before: Partition, after: Partition) -> bool:
    """The leader stays in the ISR and leads no more, though not in favour of the preferred replica, and no reassignment
    ends. So its broker may not lead any more: it shuts down (B7), or is being fenced in slices (B4)."""
    return (
        before.leader not in (NO_LEADER, after.leader)
        and before.leader in after.isr
        and after.leader != after.replicas[0]
        and (after.reassigning or not before.reassigning)
    )


def describe_replaced(before: Partition, after: Partition) -> str:
    return (
        f"leader {before.leader} was replaced by {after.leader} in epoch {after.leader_epoch} without a cause: "
        f"it is in the ISR {after.isr}, and its broker was neither shutting down nor fenced"
    )


def check_joined(before: Partition, after: Partition) -> str | None:
    """I5: only a leader adds to the ISR; where there is none, only the elected replica joins."""
    joined = [member for member in after.isr if member not in before.isr and member != after.leader]
    if joined and before.leader == NO_LEADER:
        return f"{joined} joined the ISR while the partition had no leader"
    return None
