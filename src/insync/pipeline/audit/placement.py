"""Whether every replica that should be there is there, and nothing else (B9).

The metadata log says which broker has which partitions, and in which directories (by their ids) it stores them.
Checkpoints and the record of a clean stop name the logs that a directory had. `meta.properties` and
`partition.metadata` say to which node, cluster, topic and partition a directory belongs.

A replica is missing if a file of its broker names its log, or if it is in the ISR while another replica has a high
watermark above 0. Not missing are replicas that may never have been created: of a new topic without records, or of a
broker that was not in the ISR. A broker that stopped before the others is judged by its own metadata log too: what that
one assigns to it is not stray.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from insync.logdir.files import Replica
from insync.metadata.image import Image
from insync.metadata.partition import Partition
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.cluster_metadata import ClusterMetadata
from insync.pipeline.audit.findings import Finding, make_finding
from insync.pipeline.audit.inventory import (
    NodeDirectory,
    Root,
    holds_log,
    read_if_exists,
    read_partition_metadata,
)
from insync.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    TopicPartition,
    decode_partition_metadata,
    decode_uuid,
    encode_uuid,
)
from insync.storage.file_names import DROPPED, parse_directory
from insync.storage.strays import DELETE, is_stray
from insync.wire.types import METADATA_TOPIC

FUTURE = "-future"
"""Suffix of a directory into which Apache Kafka copies a log from another disk."""


@dataclass
class Placement:
    findings: list[Finding] = field(default_factory=list)
    brokers: dict[str, int] = field(default_factory=dict)
    """By log directory: the broker that it really belongs to."""
    unusable: dict[str, None] = field(default_factory=dict)
    """Directories of logs that are not those of the partition that their names say: they are not compared."""


def check_identities(nodes: Sequence[NodeDirectory], metadata: ClusterMetadata) -> Placement:
    """Which node and cluster each directory belongs to."""
    placement = Placement(brokers={node.path: node.broker for node in nodes})
    foreign = _find_foreign(nodes)
    for node in nodes:
        problem = foreign.get(node.path) or _check_node_id(node, metadata, placement)
        if problem:
            placement.findings.append(
                make_finding(kinds.IDENTITY, broker=node.broker, file=node.meta_file, detail=problem)
            )
    for node in nodes:
        if node.path in foreign:
            placement.unusable.update(dict.fromkeys(root.path for root in node.roots))
    _check_copies(nodes, placement)
    return placement


def _find_foreign(nodes: Sequence[NodeDirectory]) -> dict[str, str]:
    """Directories of another cluster than most: (path, problem)."""
    ids = Counter(node.cluster_id for node in nodes)
    if len(ids) < 2:
        return {}
    usual = ids.most_common(1)[0][0]
    others = "the other directories have" if len(ids) == 2 else "most directories have"
    return {
        node.path: f"cluster id {node.cluster_id or 'missing'}, {others} {usual}; its replicas are not compared"
        for node in nodes
        if node.cluster_id != usual
    }


def _check_node_id(node: NodeDirectory, metadata: ClusterMetadata, placement: Placement) -> str:
    image = metadata.image
    if image is None or node.given or not any(root.partitions for root in node.roots):
        return ""
    directory_id = decode_uuid(node.directory_id)
    owners = [broker.id for broker in image.brokers.values() if directory_id in broker.log_dirs]
    if owners and node.broker not in owners:
        placement.brokers[node.path] = owners[0]
        return f"node id {node.broker}, the metadata has this directory's id for broker {owners[0]}"
    if node.broker not in image.brokers:
        placement.unusable.update(dict.fromkeys(root.path for root in node.roots))
        return f"node id {node.broker}, and no broker with that id is registered; its replicas are not compared"
    return ""


def _check_copies(nodes: Sequence[NodeDirectory], placement: Placement) -> None:
    """One broker has one log of a partition, and each of its directories has an id of its own."""
    holders: dict[tuple[int, TopicPartition], str] = {}
    for node in nodes:
        broker = placement.brokers[node.path]
        copied: dict[str, None] = {}
        for root in node.roots:
            if root.path in placement.unusable:
                continue
            for key, name in root.partitions.items():
                if not holds_log(os.path.join(root.path, name)):
                    continue
                other = holders.setdefault((broker, key), root.path)
                if other != root.path:
                    copied[other] = None
                    placement.unusable[os.path.join(root.path, name)] = None
        for other in copied:
            detail = (
                f"this directory and {other} both say that they are node {broker}, and both hold the same partitions"
            )
            placement.findings.append(
                make_finding(
                    kinds.IDENTITY, broker=broker, file=node.meta_file, detail=f"{detail}; one is not compared"
                )
            )


# --- directories -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    node: NodeDirectory
    root: Root
    broker: int


def check_placement(
    nodes: Sequence[NodeDirectory], metadata: ClusterMetadata, placement: Placement, topics: Collection[str]
) -> None:
    """Adds findings about directories that are missing, stray, misplaced or of another topic."""
    places = [
        _Place(replace(node, broker=placement.brokers[node.path]), root, placement.brokers[node.path])
        for node in nodes
        for root in node.roots
        if root.path not in placement.unusable
    ]
    claimed: dict[tuple[int, TopicPartition], None] = {}
    """Replicas that are there under another name."""
    for place in places:
        for name in place.root.names:
            placement.findings += _check_entry(place, name, metadata, placement, claimed, topics)
    placement.findings += _find_missing(places, metadata, claimed, topics)


def _check_entry(
    place: _Place,
    name: str,
    metadata: ClusterMetadata,
    placement: Placement,
    claimed: dict[tuple[int, TopicPartition], None],
    topics: Collection[str],
) -> Iterator[Finding]:
    path = os.path.join(place.root.path, name)
    key = parse_directory(name)
    if key is not None and (key[0] == METADATA_TOPIC or not _is_wanted(key[0], topics)):
        return
    if not os.path.isdir(path):
        return
    if key is None:
        yield from _check_odd_name(place, name, path, metadata, claimed, topics)
        return
    for dropped in (file for file in sorted(os.listdir(path)) if file.endswith(DROPPED)):
        detail = "a segment that recovery took out of the log; `insync strays` removes it"
        yield _finding(kinds.STRAY, place, key, os.path.join(path, dropped), detail)
    data = read_if_exists(os.path.join(path, PARTITION_METADATA))
    own = None if data is None else decode_partition_metadata(data)
    file = os.path.join(path, PARTITION_METADATA)
    if own is None:
        if data is not None:
            yield _finding(kinds.IDENTITY, place, key, file, "cannot be read: the topic's id is unknown")
        elif holds_log(path) and (place.root.offset(RECOVERY_POINTS, key) or 0) > 0:
            yield _finding(kinds.IDENTITY, place, key, file, "is missing: the topic's id is unknown")
        expected_id = metadata.image.topic_ids.get(key[0]) if metadata.image is not None else None
        own_id, own_partition = expected_id, key[1]
    else:
        own_id, own_partition = own.topic_id, key[1] if own.partition is None else own.partition
    yield from _check_assignment(place, key, path, own_id, own_partition, metadata, placement, claimed)


def _check_assignment(
    place: _Place,
    key: TopicPartition,
    path: str,
    topic_id: UUID | None,
    index: int,
    metadata: ClusterMetadata,
    placement: Placement,
    claimed: dict[tuple[int, TopicPartition], None],
) -> Iterator[Finding]:
    """`topic_id` and `index` are what the directory's partition.metadata says, or if that is lost, its name."""
    topic, image = key[0], metadata.image
    named = image.topics.get(topic_id) if image is not None and topic_id is not None else None
    if index != key[1] or (named is not None and named != topic):
        claimed[place.broker, (named or topic, index)] = None
        placement.unusable[path] = None
        detail = f"holds the log of {named or topic}-{index}, by its {PARTITION_METADATA}"
        yield _finding(kinds.MISPLACED, place, key, path, detail)
        return
    if image is None or topic_id is None:
        if image is not None:
            placement.unusable[path] = None
            if not _is_assigned(metadata.image_of(place.node), place.broker, key, None):
                yield _finding(kinds.STRAY, place, key, path, f"the metadata has no topic {topic}")
        return
    if _is_assigned(image, place.broker, key, topic_id):
        return
    placement.unusable[path] = None
    current_topic_known = topic_id in image.topics
    if _is_assigned(metadata.image_of(place.node), place.broker, key, topic_id):
        return  # the broker stopped before it learnt of the change
    if current_topic_known and metadata.is_own_log_damaged(place.node):
        return  # it may have
    current = image.topic_ids.get(topic)
    if current is not None and current != topic_id:
        assigned = _is_assigned(image, place.broker, key, current)
        detail = f"topic id {encode_uuid(topic_id)}, the metadata has {encode_uuid(current)} for {topic}"
        file = os.path.join(path, PARTITION_METADATA)
        yield _finding(kinds.IDENTITY if assigned else kinds.STRAY, place, key, file, detail)
        return
    partition = image.partition((topic_id, index))
    if current is None:
        detail = f"the metadata has no topic {topic}"
    elif partition is None:
        detail = f"the metadata has no partition {index} of {topic}"
    else:
        detail = f"the metadata has its replicas on brokers {', '.join(map(str, partition.replicas))}"
    yield _finding(kinds.STRAY, place, key, path, detail)


def _is_assigned(image: Image | None, broker: int, key: TopicPartition, topic_id: UUID | None) -> bool:
    if image is None:
        return False
    partition = image.partition((topic_id or image.topic_ids.get(key[0]) or UUID(int=0), key[1]))
    return partition is not None and partition.topic == key[0] and broker in partition.replicas


def _check_odd_name(
    place: _Place,
    name: str,
    path: str,
    metadata: ClusterMetadata,
    claimed: dict[tuple[int, TopicPartition], None],
    topics: Collection[str],
) -> Iterator[Finding]:
    if name.endswith((DELETE, FUTURE)):
        return
    topic = name.rpartition(".")[0].rpartition("-")[0]
    if is_stray(name):
        if _is_wanted(topic, topics):
            detail = "a log that the broker set aside; `insync strays` says why, and restores or removes it"
            yield make_finding(kinds.STRAY, broker=place.broker, file=path, detail=detail)
        return
    if not holds_log(path) or topics:
        return
    own, image = read_partition_metadata(path), metadata.image
    owner = image.topics.get(own.topic_id) if own is not None and image is not None else None
    what = "holds a log, and its name is not that of a partition"
    if own is not None and owner is not None and own.partition is not None:
        claimed[place.broker, (owner, own.partition)] = None
        what += f": it is the log of {owner}-{own.partition}"
    yield make_finding(kinds.MISPLACED, broker=place.broker, file=path, detail=what)


# --- missing replicas ------------------------------------------------------------------------------------------------


def _find_missing(
    places: Sequence[_Place],
    metadata: ClusterMetadata,
    claimed: Collection[tuple[int, TopicPartition]],
    topics: Collection[str],
) -> Iterator[Finding]:
    present = {
        (place.broker, key)
        for place in places
        for key, name in place.root.partitions.items()
        if os.path.isdir(os.path.join(place.root.path, name))
    }
    image = metadata.image
    for place in places:
        root = place.root
        deleted = {parse_directory(name.rpartition(".")[0]) for name in root.names if name.endswith((DELETE, "-stray"))}
        keys = {
            key for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS) for key in root.checkpoints.get(name, {})
        }
        keys |= set((root.clean.logs or {}) if root.clean is not None else {})
        for key in sorted(keys):
            replica = (place.broker, key)
            if replica in present or replica in claimed or not _is_wanted(key[0], topics):
                continue
            evidence = root.find_evidence(key)
            if not evidence or (image is None and key in deleted):
                continue
            if image is not None and not _is_assigned(image, place.broker, key, None):
                continue
            present.add(replica)
            yield _missing(place, key, evidence)
    if image is not None:
        yield from _find_missing_members(places, image, present, claimed, topics)


def _find_missing_members(
    places: Sequence[_Place],
    image: Image,
    present: Collection[tuple[int, TopicPartition]],
    claimed: Collection[tuple[int, TopicPartition]],
    topics: Collection[str],
) -> Iterator[Finding]:
    """Members of an ISR without any trace, if all directories of their broker were audited."""
    roots: dict[int, list[_Place]] = {}
    for place in places:
        roots.setdefault(place.broker, []).append(place)
    hwms: dict[TopicPartition, tuple[int, int]] = {}
    for place in places:
        for key, hwm in place.root.checkpoints.get(HIGH_WATERMARKS, {}).items():
            if (place.broker, key) in present:
                hwms[key] = max(hwms.get(key, (0, -1)), (hwm, place.broker))
    partitions: list[Partition] = sorted(
        image.all_partitions(), key=lambda partition: (partition.topic, partition.index)
    )
    for partition in partitions:
        key = (partition.topic, partition.index)
        hwm, holder = hwms.get(key, (0, -1))
        if not hwm or not _is_wanted(partition.topic, topics):
            continue
        for broker in partition.isr:
            is_absent = broker in roots and (broker, key) not in present and (broker, key) not in claimed
            if is_absent and _are_all_audited(image, broker, roots[broker]):
                evidence = f"it is in the ISR, and the high watermark on broker {holder} is {hwm}"
                home = next((place for place in roots[broker] if place.root.checkpoints), roots[broker][-1])
                yield _missing(home, key, evidence)


def _are_all_audited(image: Image, broker: int, places: Sequence[_Place]) -> bool:
    known = {decode_uuid(place.node.directory_id) for place in places}
    registered = image.brokers.get(broker)
    return registered is not None and all(directory in known for directory in registered.log_dirs)


def _missing(place: _Place, key: TopicPartition, evidence: str) -> Finding:
    path = os.path.join(place.root.path, f"{key[0]}-{key[1]}")
    what = "is not a directory" if os.path.lexists(path) else "there is no such directory"
    return _finding(kinds.MISSING, place, key, path, f"{what}: {evidence}")


def _finding(kind: str, place: _Place, key: TopicPartition, file: str, detail: str) -> Finding:
    return make_finding(kind, broker=place.broker, topic=key[0], partition=key[1], file=file, detail=detail)


def _is_wanted(topic: str, topics: Collection[str]) -> bool:
    return topic in topics if topics else topic != METADATA_TOPIC


def select_replicas(replicas: Sequence[Replica], nodes: Sequence[NodeDirectory], placement: Placement) -> list[Replica]:
    """The replicas that are what their names say, each with the broker that it belongs to."""
    owners = {root.path: placement.brokers[node.path] for node in nodes for root in node.roots}
    chosen = []
    for replica in replicas:
        root = os.path.dirname(replica.directory)
        if root not in placement.unusable and replica.directory not in placement.unusable:
            chosen.append(replace(replica, broker=owners.get(root, replica.broker)))
    return sorted(chosen, key=lambda replica: (replica.broker, replica.topic, replica.partition))
