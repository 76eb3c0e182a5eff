"""The state of the cluster by the metadata log: brokers, topics, partitions, configs, features, producer ids.

Only `apply` changes it: one record, one change, at a cost that does not grow with the cluster. Values are frozen, the
maps are not; `copy` shares the values. A reader that acts on the outcome of several changes takes the merged `Changes`
(Q7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from insync.errors import InvariantError
from insync.metadata import configs
from insync.metadata.broker import Broker, Endpoint, Feature
from insync.metadata.changes import Changes
from insync.metadata.configs import Resource
from insync.metadata.partition import Partition, PartitionKey
from insync.metadata.partition_map import PartitionMap
from insync.wire import metadata_records as records
from insync.wire.types import one_uuid

MAX_EPOCH = 2**31 - 1
"""The largest epoch that a message can hold. At a thousand changes a second a partition reaches it in a month; with a
damaged record, at once."""

ConfigResource = tuple[int, str]
"""(resource type, resource name); the broker with the empty name means the cluster's defaults."""

CLUSTER_DEFAULTS: ConfigResource = (Resource.BROKER, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedMinIsr:
    """E8: a broker that has not read up to `offset` may still go by `before`."""

    offset: int
    before: int


class Image:
    __slots__ = (
        "_changes",
        "_map",
        "brokers",
        "configs",
        "defaults",
        "features",
        "incomplete_topics",
        "next_producer_id",
        "offset",
        "raised_min_isr",
        "snapshot_end",
        "topic_ids",
        "topics",
    )

    def __init__(self, defaults: Mapping[str, str] | None = None) -> None:
        self.defaults: Mapping[str, str] = defaults or {}
        """Settings of this node, under the broker's names, for configs that the log does not set."""
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[UUID, str] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.incomplete_topics: dict[UUID, None] = {}
        """Topics without partition 0, which is created last: until then, the topic is not complete."""
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.offset = -1
        """The offset of the last record applied."""
        self.raised_min_isr: dict[ConfigResource, RaisedMinIsr] = {}
        self.snapshot_end = -1
        """E8: the last offset that a loaded snapshot covers. It does not say which MinISR was raised before."""
        self._map = PartitionMap()
        self._changes = Changes()

    def copy(self) -> Image:
        """An independent image without pending changes."""
        other = Image(self.defaults)
        other.brokers = dict(self.brokers)
        other.topics = dict(self.topics)
        other.topic_ids = dict(self.topic_ids)
        other.incomplete_topics = dict(self.incomplete_topics)
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other.offset = self.offset
        other.raised_min_isr = dict(self.raised_min_isr)
        other.snapshot_end = self.snapshot_end
        other._map = self._map.copy()
        return other

    def copy_for_snapshot(self) -> Image:
        """A copy of what `snapshot.iter_records` reads. Copying the indexes would take as long again."""
        other = Image(self.defaults)
        other.brokers = dict(self.brokers)
        other.topic_ids = dict(self.topic_ids)
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other._map.by_topic = {topic_id: dict(partitions) for topic_id, partitions in self._map.by_topic.items()}
        return other

    # --- reading -------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not (self.features or self.brokers or self.topics)

    @property
    def partitions(self) -> dict[UUID, dict[int, Partition]]:
        return self._map.by_topic

    def complete_topic(self, name: str) -> UUID | None:
        """The id of the topic if it exists and is complete: clients see no other."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id in self.incomplete_topics else topic_id

    def partition(self, key: PartitionKey) -> Partition | None:
        return self._map.get(key)

    def find(self, topic: str, index: int) -> Partition | None:
        topic_id = self.topic_ids.get(topic)
        return None if topic_id is None else self._map.get((topic_id, index))

    def all_partitions(self) -> list[Partition]:
        return list(self._map)

    def partitions_of(self, broker: int) -> list[Partition]:
        return self._map.of_broker(broker)

    def leads_any(self, broker: int) -> bool:
        return self._map.leads_any(broker)

    def leaderless(self) -> list[Partition]:
        return self._map.without_leader()

    @property
    def has_leaderless(self) -> bool:
        return bool(self._map.leaderless)

    def reassigning(self) -> list[Partition]:
        return self._map.under_reassignment()

    def config(self, topic: str, name: str) -> configs.Value:
        """The value for a topic: its own, else the cluster's default, this node's, or the built-in one."""
        return self.config_with(topic, name, {})

    def config_at(self, broker: int, topic: str, name: str) -> configs.Value:
        """The value for a topic at one broker: the broker's own default takes precedence over the cluster's."""
        key = configs.TOPIC_KEYS[name]
        own = self.configs.get((Resource.TOPIC, topic), {})
        local = self.configs.get((Resource.BROKER, str(broker)), {})
        if name not in own and key.synonym in local:
            return configs.value_of(key, local[key.synonym])
        return self.config(topic, name)

    def broker_config(self, broker: int, name: str) -> configs.Value:
        """The value for a broker: its own, else the cluster's default, this node's, or the built-in one."""
        local = self.configs.get((Resource.BROKER, str(broker)), {})
        shared = self.configs.get(CLUSTER_DEFAULTS, {})
        value = local.get(name, shared.get(name, self.defaults.get(name)))
        return configs.value_of(configs.BROKER_KEYS[name], value)

    def config_with(self, topic: str, name: str, overlay: dict[ConfigResource, dict[str, str]]) -> configs.Value:
        """As `config`, with configs in `overlay` that are decided but not applied yet."""
        key = configs.TOPIC_KEYS[name]
        own = overlay.get((Resource.TOPIC, topic), self.configs.get((Resource.TOPIC, topic), {}))
        shared = overlay.get(CLUSTER_DEFAULTS, self.configs.get(CLUSTER_DEFAULTS, {}))
        return configs.value_of(key, own.get(name, shared.get(key.synonym, self.defaults.get(key.synonym))))

    def min_isr(self, topic: str) -> int:
        """The configured MinISR; the effective one also depends on the number of replicas (H1)."""
        return int(self.config(topic, configs.MIN_ISR))  # type: ignore[arg-type]

    def take_changes(self) -> Changes:
        changes, self._changes = self._changes, Changes()
        return changes

    # --- applying ------------------------------------------------------------------------------------------------

    def apply(self, record: records.MetadataRecord, offset: int) -> None:
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(self, record, offset)
        self.offset = offset

    def _register_broker(self, record: records.RegisterBrokerRecord, offset: int) -> None:
        self._put_broker(
            Broker(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                endpoints=tuple(
                    Endpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                    for e in record.end_points
                ),
                rack=record.rack,
                features=tuple(
                    Feature(name=f.name, min_supported=f.min_supported_version, max_supported=f.max_supported_version)
                    for f in record.features
                ),
                log_dirs=tuple(d for d in record.log_dirs if d is not None),
            )
        )

    def _unregister_broker(self, record: records.UnregisterBrokerRecord, offset: int) -> None:
        self.brokers.pop(record.broker_id, None)
        self._changes.brokers[record.broker_id] = None

    def _fence(self, record: records.FenceBrokerRecord, offset: int) -> None:
        self._put_broker(replace(self._broker(record.id), fenced=True))

    def _unfence(self, record: records.UnfenceBrokerRecord, offset: int) -> None:
        self._put_broker(replace(self._broker(record.id), fenced=False))

    def _change_broker(self, record: records.BrokerRegistrationChangeRecord, offset: int) -> None:
        broker = self._broker(record.broker_id)
        fenced = broker.fenced if record.fenced == records.FENCE_UNCHANGED else record.fenced == records.FENCED
        stopping = broker.in_controlled_shutdown or record.in_controlled_shutdown == 1
        self._put_broker(replace(broker, fenced=fenced, in_controlled_shutdown=stopping))

    def _create_topic(self, record: records.TopicRecord, offset: int) -> None:
        topic_id = _topic_id_of(record, offset)
        self.topics[topic_id] = record.name
        self.topic_ids[record.name] = topic_id
        if 0 not in self._map.by_topic.setdefault(topic_id, {}):
            self.incomplete_topics[topic_id] = None
        self._changes.topics[topic_id] = None

    def _remove_topic(self, record: records.RemoveTopicRecord, offset: int) -> None:
        name = self._name_of(record.topic_id, offset)
        del self.topics[record.topic_id]
        self.incomplete_topics.pop(record.topic_id, None)
        self.topic_ids.pop(name, None)
        resource = (Resource.TOPIC, name)
        self.configs.pop(resource, None)
        self.raised_min_isr.pop(resource, None)
        for key in self._map.remove_topic(record.topic_id):
            self._changes.partition_deleted(key)
        self._changes.topics.pop(record.topic_id, None)
        self._changes.deleted_topics[record.topic_id] = name

    def _create_partition(self, record: records.PartitionRecord, offset: int) -> None:
        self._put_partition(
            Partition(
                topic_id=_topic_id_of(record, offset),
                topic=self._name_of(record.topic_id, offset),
                index=record.partition_id,
                replicas=tuple(record.replicas),
                isr=tuple(record.isr),
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                elr=tuple(record.eligible_leader_replicas or ()),
                last_known_elr=tuple(record.last_known_elr or ()),
                adding=tuple(record.adding_replicas),
                removing=tuple(record.removing_replicas),
                recovering=record.leader_recovery_state == records.RECOVERING,
            )
        )
        if record.partition_id == 0:
            self.incomplete_topics.pop(record.topic_id, None)
            self._map.sort_topic(record.topic_id)

    def _change_partition(self, record: records.PartitionChangeRecord, offset: int) -> None:
        key = (record.topic_id, record.partition_id)
        partition = self._map.get(key)
        if partition is None:
            raise InvariantError("S7", f"the record at offset {offset} changes the unknown partition {key}")
        self._put_partition(partition.changed_by(record))

    def _clear_elr(self, record: records.ClearElrRecord, offset: int) -> None:
        named = self._map.by_topic.get(self.topic_ids.get(record.topic_name, UUID(int=0)), {})
        partitions = self._map if not record.topic_name else named.values()
        for partition in [p for p in partitions if p.elr or p.last_known_elr]:
            epoch = partition.partition_epoch + 1
            self._put_partition(replace(partition, elr=(), last_known_elr=(), partition_epoch=epoch))

    def _set_config(self, record: records.ConfigRecord, offset: int) -> None:
        resource = (record.resource_type, record.resource_name)
        before = self._min_isr_of(resource)
        values = self.configs.setdefault(resource, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configs[resource]
        if record.name == configs.MIN_ISR:
            self._record_raised_min_isr(resource, before, offset)
        self._changes.configs[resource] = None

    def _min_isr_of(self, resource: ConfigResource) -> int:
        return self.min_isr(resource[1] if resource[0] == Resource.TOPIC else "")

    def _record_raised_min_isr(self, resource: ConfigResource, before: int, offset: int) -> None:
        """E8: only a topic that has partitions has leaders that may go by the old value."""
        if not self._has_partitions(resource) or self._min_isr_of(resource) <= before:
            return
        earlier = self.raised_min_isr.get(resource)
        lowest = before if earlier is None else min(before, earlier.before)
        self.raised_min_isr[resource] = RaisedMinIsr(offset=offset, before=lowest)

    def _has_partitions(self, resource: ConfigResource) -> bool:
        if resource == CLUSTER_DEFAULTS:
            return bool(self._map.by_topic)
        return bool(self._map.by_topic.get(self.topic_ids.get(resource[1], UUID(int=0))))

    def _set_feature(self, record: records.FeatureLevelRecord, offset: int) -> None:
        self.features[record.name] = record.feature_level
        if record.feature_level == 0:
            del self.features[record.name]
        self._changes.features[record.name] = None

    def _set_next_producer_id(self, record: records.ProducerIdsRecord, offset: int) -> None:
        self.next_producer_id = record.next_producer_id

    def _name_of(self, topic_id: UUID, offset: int) -> str:
        name = self.topics.get(topic_id)
        if name is None:
            raise InvariantError("S7", f"the record at offset {offset} refers to the unknown topic {topic_id}")
        return name

    def _broker(self, broker_id: int) -> Broker:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise InvariantError("S7", f"a record changes broker {broker_id}, which is not registered")
        return broker

    def _put_broker(self, broker: Broker) -> None:
        self.brokers[broker.id] = broker
        self._changes.brokers[broker.id] = None

    def _put_partition(self, partition: Partition) -> None:
        if max(partition.leader_epoch, partition.partition_epoch) > MAX_EPOCH:
            raise InvariantError("S7", f"{partition.name} has used up its epochs")
        self._map.put(partition)
        self._changes.partition_changed(partition.key)


def _topic_id_of(record: records.TopicRecord | records.PartitionRecord, offset: int) -> UUID:
    topic_id: UUID | None = record.topic_id  # the zero one reads as None
    if topic_id is None:
        raise InvariantError("S7", f"the record at offset {offset} has a topic without an id")
    return one_uuid(topic_id)


_HANDLERS: dict[type[Any], Callable[[Image, Any, int], None]] = {
    records.RegisterBrokerRecord: Image._register_broker,
    records.UnregisterBrokerRecord: Image._unregister_broker,
    records.FenceBrokerRecord: Image._fence,
    records.UnfenceBrokerRecord: Image._unfence,
    records.BrokerRegistrationChangeRecord: Image._change_broker,
    records.TopicRecord: Image._create_topic,
    records.RemoveTopicRecord: Image._remove_topic,
    records.PartitionRecord: Image._create_partition,
    records.PartitionChangeRecord: Image._change_partition,
    records.ClearElrRecord: Image._clear_elr,
    records.ConfigRecord: Image._set_config,
    records.FeatureLevelRecord: Image._set_feature,
    records.ProducerIdsRecord: Image._set_next_producer_id,
}
