"""From one role to the next, by materialised metadata (T1-T7, M3, Q7).

A replica sees only the merged result of what happened, so the old and the new state alone decide what it does: a
leader that finds itself leader in a later epoch may have been deposed in between.

Notes: became_leader(partition, epoch, leso, isr), became_follower(partition, epoch, leader), became_idle(partition,
epoch), replica_deleted(partition), replica_set_aside(partition, cause).
"""

from __future__ import annotations

from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.replication import isr, isr_changes
from insync.replication.core import Core
from insync.replication.fetcher import Fetchers
from insync.replication.follower import Follower
from insync.replication.leader import Leader
from insync.replication.replica import IDLE, Replica
from insync.wire.errors import ErrorCode

NOT_ASSIGNED = "the metadata does not assign this partition to this broker"


def apply(core: Core, fetchers: Fetchers, partition: Partition, now: int) -> None:
    """Act on one partition's newest registration."""
    replica = core.replicas.get(partition.key)
    if core.broker_id not in partition.replicas:
        remove(core, fetchers, partition.key)
    elif replica is None:
        _become(core, fetchers, _create(core, fetchers, partition), partition, now)
    elif isr.is_newer(partition.partition_epoch, replica.partition.partition_epoch):  # M3
        _become(core, fetchers, replica, partition, now)


def remove(core: Core, fetchers: Fetchers, key: PartitionKey) -> None:
    """T7: the metadata log says that the replica moved away or the topic was deleted: leave the fetcher, delete the
    log. At start there may be a log without a replica."""
    _retire(core, fetchers, key)
    log = core.logs.get(*key)
    if log is not None:
        core.logs.delete(*key)
        core.out.note("replica_deleted", partition=log.name)


def set_aside(core: Core, fetchers: Fetchers, key: PartitionKey, cause: str) -> None:
    """B9: the metadata no longer names the partition, and nothing says that it was deleted: its log is a stray."""
    _retire(core, fetchers, key)
    log = core.logs.get(*key)
    if log is not None:
        core.logs.set_aside(*key, cause)
        core.out.note("replica_set_aside", partition=log.name, cause=cause)


def set_aside_strays(core: Core) -> None:
    """B9, at start: logs of partitions that this broker should not hold. Those whose deletion or move it has seen in
    the metadata log are gone by now (T7)."""
    for key in core.logs.names().values():
        if key not in core.replicas:
            log = core.logs.logs[key]
            core.logs.set_aside(*key, cause=NOT_ASSIGNED)
            core.out.note("replica_set_aside", partition=log.name, cause=NOT_ASSIGNED)


def _retire(core: Core, fetchers: Fetchers, key: PartitionKey) -> None:
    replica = core.replicas.pop(key, None)
    if replica is None:
        return
    fetchers.remove(key)
    _stop_leading(core, replica, ErrorCode.not_leader_or_follower)
    replica.role = IDLE
    replica.disturbed(core.woken)
    for cached in list(replica.watchers):
        cached.unwatch()
    partition = replica.partition
    if core.by_name.get((partition.topic, partition.index)) is replica:
        del core.by_name[partition.topic, partition.index]
    core.changed.pop(replica, None)


def _create(core: Core, fetchers: Fetchers, partition: Partition) -> Replica:
    """A replica on the log it left here, or on an empty one (T7).

    A log of another topic of this name, whose deletion was not seen, is set aside: here, or found on disk by `create`.
    """
    name = (partition.topic, partition.index)
    namesake = core.by_name.get(name)
    if namesake is not None:
        set_aside(core, fetchers, namesake.key, "the metadata names another topic with this name")
    config = core.cluster.log_config(partition.topic)
    log = core.logs.create(*name, partition.topic_id, config)
    log.config = config
    replica = Replica(partition, log)
    core.replicas[partition.key] = core.by_name[name] = replica
    return replica


def _become(core: Core, fetchers: Fetchers, replica: Replica, partition: Partition, now: int) -> None:
    core.changed[replica] = None
    if partition.leader == core.broker_id:
        _lead(core, fetchers, replica, partition, now)
    elif partition.leader == NO_LEADER:
        _idle(core, fetchers, replica, partition)
    else:
        _follow(core, fetchers, replica, partition)


def _lead(core: Core, fetchers: Fetchers, replica: Replica, partition: Partition, now: int) -> None:
    leader = replica.role
    if isinstance(leader, Leader) and leader.epoch == partition.leader_epoch:
        pending = leader.state
        leader.adopt(partition)  # T2
        isr_changes.learnt(leader, pending)
    else:
        fetchers.remove(replica.key)
        if not isinstance(leader, Leader):
            leader = replica.role = Leader(core, replica)  # T1
        leader.start_epoch(partition, now)  # T1, T3
        replica.disturbed(core.woken)
        core.out.note(
            "became_leader", partition=partition.name, epoch=leader.epoch, leso=leader.leso, isr=partition.isr
        )
    isr_changes.settled(leader, now)


def _follow(core: Core, fetchers: Fetchers, replica: Replica, partition: Partition) -> None:
    role = replica.role
    replica.partition = partition
    if isinstance(role, Follower) and role.epoch == partition.leader_epoch:
        return  # T5
    _stop_leading(core, replica, ErrorCode.not_leader_or_follower)
    replica.role = Follower(partition.leader, partition.leader_epoch)
    replica.disturbed(core.woken)
    fetchers.add(replica, partition.leader, partition.leader_epoch)  # T4, T6, F6
    core.out.note("became_follower", partition=partition.name, epoch=partition.leader_epoch, leader=partition.leader)


def _idle(core: Core, fetchers: Fetchers, replica: Replica, partition: Partition) -> None:
    replica.partition = partition
    fetchers.remove(replica.key)
    _stop_leading(core, replica, ErrorCode.not_leader_or_follower)
    if replica.role is not IDLE:
        core.out.note("became_idle", partition=partition.name, epoch=partition.leader_epoch)
    replica.role = IDLE
    replica.disturbed(core.woken)


def _stop_leading(core: Core, replica: Replica, error: ErrorCode) -> None:
    """T4: whoever waits for the high watermark here will not see it move."""
    core.under_replicated.pop(replica, None)
    core.proposed.pop(replica, None)
    core.purgatory.fail_all(replica, error)
