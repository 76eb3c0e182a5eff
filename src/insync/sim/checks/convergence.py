"""Why a healed cluster has not converged (L1-L7), in the order in which the properties have to become true.

Partitions that wait for an operator are left out: no leader, ISR and ELR empty, strategy manual and unclean elections
off. With `balanced` or `proactive` the recovery has to end, because every broker answers after the healing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from insync.metadata.image import Image
from insync.metadata.partition import Partition
from insync.properties import liveness, log_matching
from insync.properties.liveness import ReplicaState
from insync.replication.leader import leader_of
from insync.sim.checks.ghost_image import GhostImage
from insync.wire import batch

READ_BYTES = 1 << 20


def why_not_converged(cluster: Any, truth: GhostImage, waiting: list[int]) -> str | None:
    """The first reason, with the id of the property that is not met yet."""
    return next((f"{name}: {reason}" for name, reason in _reasons(cluster, truth, waiting)), None)


def _reasons(cluster: Any, truth: GhostImage, waiting: list[int]) -> Iterator[tuple[str, str]]:
    image = truth.image
    nodes = [(node_id, cluster.node(node_id)) for node_id in cluster.hosts]
    yield from _reason("L1", liveness.check_running({n: _state(node) for n, node in nodes}))
    yield from _reason("L2", liveness.check_unfenced({n: _fenced(image, n) for n, node in nodes if node.lifecycle}))
    yield from _reason(
        "L4", liveness.check_metadata({n: node.metadata_loader.applied for n, node in nodes}, truth.log.end)
    )
    for node_id, node in nodes:
        yield from _reason("L4", _find_difference(node_id, node.image, image))
    for partition in image.all_partitions():
        if not _waits_for_operator(truth, partition):
            yield from _partition_reasons(cluster, partition)
    yield from _reason("L5", liveness.check_answered(waiting))


def _partition_reasons(cluster: Any, partition: Partition) -> Iterator[tuple[str, str]]:
    replicas = [state for broker in partition.replicas if (state := _replica_state(cluster, broker, partition))]
    yield from _reason("L3", liveness.check_isr_stable(partition.name, replicas))
    yield from _reason("L7", liveness.check_reassigned(partition))
    yield from _reason("L6", liveness.check_replicated(partition, replicas))
    if cluster.corrupted_batches:
        for broker in partition.replicas:
            yield from _reason("L6", _damage(cluster, broker, partition))


def _damage(cluster: Any, broker: int, partition: Partition) -> str | None:
    """D6: all bit rot is repaired, and no finding of it is left."""
    node = cluster.node(broker) if broker in cluster.hosts else None
    replica = node.replicas.replicas.get(partition.key) if node is not None and node.replicas else None
    if node is None or replica is None:
        return None
    for finding in node.findings.current():
        if finding.kind.startswith("corrupt"):
            return f"replica {broker} of {partition.name} reports {finding.kind}: {finding.text}"
    log = replica.log
    offset = log.log_start
    while offset < log.leo:
        records = log.read(offset, READ_BYTES, limit_offset=log.leo)
        wrong = log_matching.check_bytes(broker, records, log.hwm)
        if wrong is not None:
            return wrong
        offset = max(offset + 1, *(header.next_offset for _, header in batch.iter_headers(records)))
    return None


def _reason(property_id: str, wrong: str | None) -> Iterator[tuple[str, str]]:
    if wrong:
        yield property_id, wrong


def _state(node: Any) -> str:
    if node is None:
        return "down"
    return str(node.lifecycle.state) if node.lifecycle else "running"


def _fenced(image: Image, node_id: int) -> bool:
    broker = image.brokers.get(node_id)
    return broker is None or broker.fenced


def _replica_state(cluster: Any, broker: int, partition: Partition) -> ReplicaState | None:
    node = cluster.node(broker) if broker in cluster.hosts else None
    replica = node.replicas.replicas.get(partition.key) if node is not None and node.replicas else None
    if replica is None:
        return None
    leader = leader_of(replica)
    return ReplicaState(
        broker=broker,
        leo=replica.log.leo,
        hwm=replica.log.hwm,
        leader_epoch=replica.partition.leader_epoch,
        pending_isr_change=leader is not None and leader.isr_state.maximal_isr != leader.isr_state.isr,
    )


def _waits_for_operator(truth: GhostImage, partition: Partition) -> bool:
    topic = partition.topic
    return liveness.waits_for_operator(
        partition, strategy=truth.strategy(topic), unclean_enabled=truth.unclean_enabled(topic)
    )


_NOT_COMPARED = ("_changes", "defaults", "offset", "raised_min_isr", "snapshot_end")
"""What depends on how a node came to its state: its settings, whether it loaded a snapshot and of which offset, and
changes that were not taken. Every other field is compared, also one that is added later."""
_COMPARED = sorted((n for n in Image.__slots__ if n not in _NOT_COMPARED), key=lambda n: (n.startswith("_"), n))
"""The fields, before the indexes that follow from them."""


def _find_difference(node_id: int, image: Image, truth: Image) -> str | None:
    """L4: nodes that have applied the same offset have the same state."""
    for name in _COMPARED:
        if _without_empty(getattr(image, name)) != _without_empty(getattr(truth, name)):
            return f"node {node_id} has applied everything but its {name.lstrip('_')} differ"
    return None


def _without_empty(value: Any) -> Any:
    """An index without entries for a broker, or with an empty one, says the same."""
    return {key: item for key, item in value.items() if item != {}} if isinstance(value, dict) else value
