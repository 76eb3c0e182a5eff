"""Role changes of replicas, driven by materialised metadata (T1-T7, M3, Q7).

A replica sees only the merged result of what happened, so the old and the new state alone decide what it does: a
leader that finds itself leader in a later epoch may have been deposed in between.

Notes: became_leader(partition, epoch, leso, isr), became_follower(partition, epoch, leader), became_idle(partition,
epoch), replica_deleted(partition), replica_set_aside(partition, cause).
"""

from __future__ import annotations

from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.replication import isr
from insync.replication.fetcher import Fetchers
from insync.replication.follower import Follower
from insync.replication.leader import Leader
from insync.replication.replica import IDLE, Replica
from insync.replication.state import ReplicationState
from insync.wire.errors import ErrorCode

NOT_ASSIGNED = "the metadata does not assign this partition to this broker"


def apply_partition(state: ReplicationState, fetchers: Fetchers, partition: Partition, now: int) -> None:
    """Act on the newest metadata of one partition."""
    replica = state.replicas.get(partition.key)
    if state.broker_id not in partition.replicas:
        delete_replica(state, fetchers, partition.key)
        return
    if replica is None:
        replica = _create(state, fetchers, partition)
    elif not isr.is_newer(partition.partition_epoch, replica.partition.partition_epoch):  # M3
        return
    state.changed[replica] = None
    if partition.leader == state.broker_id:
        _become_leader(state, fetchers, replica, partition, now)
    elif partition.leader == NO_LEADER:
        _become_idle(state, fetchers, replica, partition)
    else:
        _become_follower(state, fetchers, replica, partition)


def delete_replica(state: ReplicationState, fetchers: Fetchers, key: PartitionKey) -> None:
    """T7: the metadata log says that the replica moved away or the topic was deleted: stop fetching, delete the log.

    At start there may be a log without a replica.
    """
    _retire(state, fetchers, key)
    log = state.logs.get(*key)
    if log is not None:
        state.logs.delete(*key)
        state.out.note("replica_deleted", partition=log.name)


def set_aside(state: ReplicationState, fetchers: Fetchers, key: PartitionKey, cause: str) -> None:
    """B9: the metadata no longer has the partition, but no record says that it was deleted: its log is a stray."""
    _retire(state, fetchers, key)
    log = state.logs.get(*key)
    if log is not None:
        state.logs.set_aside(*key, cause)
        state.out.note("replica_set_aside", partition=log.name, cause=cause)


def set_aside_strays(state: ReplicationState) -> None:
    """B9: at start, set aside the logs of partitions that this broker should not hold. Those whose deletion or move is
    in the metadata log have been deleted by now (T7)."""
    for key in state.logs.names().values():
        if key not in state.replicas:
            log = state.logs.logs[key]
            state.logs.set_aside(*key, cause=NOT_ASSIGNED)
            state.out.note("replica_set_aside", partition=log.name, cause=NOT_ASSIGNED)


def _retire(state: ReplicationState, fetchers: Fetchers, key: PartitionKey) -> None:
    replica = state.replicas.pop(key, None)
    if replica is None:
        return
    fetchers.remove(key)
    _stop_leading(state, replica)
    replica.role = IDLE
    replica.wake_fetches(state.woken)
    for cached in list(replica.watchers):
        cached.unwatch()
    partition = replica.partition
    if state.by_name.get((partition.topic, partition.index)) is replica:
        del state.by_name[partition.topic, partition.index]
    state.changed.pop(replica, None)


def _create(state: ReplicationState, fetchers: Fetchers, partition: Partition) -> Replica:
    """Create a replica on the log that it left here, or on an empty one (T7).

    The log of an earlier topic of this name, whose deletion was not seen, is set aside: here, or by `LogStore.create`
    if it is only on disk.
    """
    name = (partition.topic, partition.index)
    namesake = state.by_name.get(name)
    if namesake is not None:
        set_aside(state, fetchers, namesake.key, "the metadata names another topic with this name")
    config = state.cluster.log_config(partition.topic)
    log = state.logs.create(*name, partition.topic_id, config)
    log.config = config
    replica = Replica(partition, log)
    state.replicas[partition.key] = state.by_name[name] = replica
    return replica


def _become_leader(
    state: ReplicationState, fetchers: Fetchers, replica: Replica, partition: Partition, now: int
) -> None:
    leader = replica.role
    if isinstance(leader, Leader) and leader.epoch == partition.leader_epoch:
        leader.apply_metadata(partition)  # T2
    else:
        fetchers.remove(replica.key)
        if not isinstance(leader, Leader):
            leader = replica.role = Leader(state, replica)  # T1
        leader.start_epoch(partition, now)  # T1, T3
        replica.wake_fetches(state.woken)
        state.out.note(
            "became_leader", partition=partition.name, epoch=leader.epoch, leso=leader.leso, isr=partition.isr
        )
    leader.on_isr_changed(now)


def _become_follower(state: ReplicationState, fetchers: Fetchers, replica: Replica, partition: Partition) -> None:
    role = replica.role
    replica.partition = partition
    if isinstance(role, Follower) and role.epoch == partition.leader_epoch:
        return  # T5
    _stop_leading(state, replica)
    replica.role = Follower(partition.leader, partition.leader_epoch)
    replica.wake_fetches(state.woken)
    fetchers.add(replica, partition.leader, partition.leader_epoch)  # T4, T6, F6
    state.out.note("became_follower", partition=partition.name, epoch=partition.leader_epoch, leader=partition.leader)


def _become_idle(state: ReplicationState, fetchers: Fetchers, replica: Replica, partition: Partition) -> None:
    replica.partition = partition
    fetchers.remove(replica.key)
    _stop_leading(state, replica)
    if replica.role is not IDLE:
        state.out.note("became_idle", partition=partition.name, epoch=partition.leader_epoch)
    replica.role = IDLE
    replica.wake_fetches(state.woken)


def _stop_leading(state: ReplicationState, replica: Replica) -> None:
    """T4: the high watermark does not move here any more, so fail the requests that wait for it."""
    state.under_replicated.pop(replica, None)
    state.proposed.pop(replica, None)
    state.purgatory.fail_all(replica.waiting, ErrorCode.not_leader_or_follower)
