"""The state of the cluster by the metadata log: brokers, topics, partitions, configs, features, producer ids, ACLs,
users and quotas.

Only `apply` changes it: one record, one change, at a cost that does not grow with the cluster. Values are frozen, the
maps are not; `copy` shares the values. A reader that acts on the outcome of several changes takes the merged `Changes`
(Q7). Indexes make the cost of a broker's event depend on that broker's partitions only. Sets are dicts with None for
values: they iterate in insertion order, which is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from insync.errors import InvariantError
from insync.metadata import configs, security_records
from insync.metadata.broker import Broker, Endpoint, Feature
from insync.metadata.changes import Changes
from insync.metadata.configs import Resource
from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.security.acl import Acl
from insync.security.quotas import QuotaEntity
from insync.security.scram import ScramCredential, Shape, count_shape
from insync.wire import metadata_records as records
from insync.wire.types import ZERO_UUID, one_uuid

MAX_EPOCH = 2**31 - 1
"""The largest epoch that a message can hold. At a thousand changes a second a partition reaches it in a month; with a
damaged record, at once."""

ConfigResource = tuple[int, str]
"""(resource type, resource name); the broker with the empty name means the cluster's defaults."""

CLUSTER_DEFAULTS: ConfigResource = (Resource.BROKER, "")

ConfigOverlay = Mapping[ConfigResource, dict[str, str]]
_NOTHING: ConfigOverlay = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedMinIsr:
    """E8: a broker that has not read up to `offset` may still go by `before`."""

    offset: int
    before: int


class Image:
    __slots__ = (
        "_acl_ids",
        "_changes",
        "_hosted",
        "_leaderless",
        "_led",
        "_reassigning",
        "acls",
        "brokers",
        "client_quotas",
        "configs",
        "defaults",
        "features",
        "incomplete_topics",
        "next_producer_id",
        "offset",
        "partitions",
        "raised_min_isr",
        "scram_credentials",
        "scram_shapes",
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
        self.acls: dict[UUID, Acl] = {}
        self.scram_credentials: dict[tuple[str, str], ScramCredential] = {}
        """By mechanism and user."""
        self.scram_shapes: dict[str, dict[Shape, int]] = {}
        """By mechanism: how many credentials there are of each shape."""
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        """By entity and quota name."""
        self.offset = -1
        """The offset of the last record applied."""
        self.raised_min_isr: dict[ConfigResource, RaisedMinIsr] = {}
        self.snapshot_end = -1
        """E8: the last offset that a loaded snapshot covers. It does not say which MinISR was raised before."""
        self.partitions: dict[UUID, dict[int, Partition]] = {}
        """By topic id and index."""
        self._leaderless: dict[PartitionKey, None] = {}
        self._reassigning: dict[PartitionKey, None] = {}
        self._hosted: dict[int, dict[PartitionKey, None]] = {}
        """By broker: the partitions that have a replica there."""
        self._led: dict[int, dict[PartitionKey, None]] = {}
        """By broker: the partitions that it leads."""
        self._acl_ids: dict[Acl, UUID] = {}
        self._changes = Changes()

    def copy(self) -> Image:
        """An independent image without pending changes."""
        other = self.copy_for_snapshot()
        other.topics = dict(self.topics)
        other.incomplete_topics = dict(self.incomplete_topics)
        other.offset = self.offset
        other.raised_min_isr = dict(self.raised_min_isr)
        other.snapshot_end = self.snapshot_end
        other.scram_shapes = {mechanism: dict(counts) for mechanism, counts in self.scram_shapes.items()}
        other._acl_ids = dict(self._acl_ids)
        other._leaderless = dict(self._leaderless)
        other._reassigning = dict(self._reassigning)
        other._hosted = {broker: dict(keys) for broker, keys in self._hosted.items()}
        other._led = {broker: dict(keys) for broker, keys in self._led.items()}
        return other

    def copy_for_snapshot(self) -> Image:
        """A copy of what `snapshot.iter_records` reads. Copying the indexes would take as long again."""
        other = Image(self.defaults)
        other.brokers = dict(self.brokers)
        other.topic_ids = dict(self.topic_ids)
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other.acls = dict(self.acls)
        other.scram_credentials = dict(self.scram_credentials)
        other.client_quotas = {entity: dict(limits) for entity, limits in self.client_quotas.items()}
        other.partitions = {topic_id: dict(partitions) for topic_id, partitions in self.partitions.items()}
        return other

    # --- reading -------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not (self.features or self.brokers or self.topics)

    def complete_topic(self, name: str) -> UUID | None:
        """The id of the topic if it exists and is complete: clients see no other."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id in self.incomplete_topics else topic_id

    def partition(self, key: PartitionKey) -> Partition | None:
        partitions = self.partitions.get(key[0])
        return None if partitions is None else partitions.get(key[1])

    def find(self, topic: str, index: int) -> Partition | None:
        topic_id = self.topic_ids.get(topic)
        return None if topic_id is None else self.partition((topic_id, index))

    def all_partitions(self) -> list[Partition]:
        return [partition for partitions in self.partitions.values() for partition in partitions.values()]

    def partitions_of(self, broker: int) -> list[Partition]:
        """Every partition that has a replica on this broker."""
        return [self.partitions[topic_id][index] for topic_id, index in self._hosted.get(broker, {})]

    def leads_any(self, broker: int) -> bool:
        return bool(self._led.get(broker))

    def leaderless(self) -> list[Partition]:
        return [self.partitions[topic_id][index] for topic_id, index in self._leaderless]

    @property
    def has_leaderless(self) -> bool:
        return bool(self._leaderless)

    def reassigning(self) -> list[Partition]:
        return [self.partitions[topic_id][index] for topic_id, index in self._reassigning]

    def config(self, topic: str, name: str, overlay: ConfigOverlay = _NOTHING) -> configs.Value:
        """The value for a topic: its own, else the cluster's default, this node's, or the built-in one.

        `overlay` has configs that are decided but not applied yet.
        """
        key = configs.TOPIC_KEYS[name]
        own = overlay.get((Resource.TOPIC, topic), self.configs.get((Resource.TOPIC, topic), {}))
        shared = overlay.get(CLUSTER_DEFAULTS, self.configs.get(CLUSTER_DEFAULTS, {}))
        return configs.value_of(key, own.get(name, shared.get(key.synonym, self.defaults.get(key.synonym))))

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

    def has_acl(self, acl: Acl) -> bool:
        return acl in self._acl_ids

    def min_isr(self, topic: str, overlay: ConfigOverlay = _NOTHING) -> int:
        """The configured MinISR; the effective one also depends on the number of replicas (H1)."""
        return int(self.config(topic, configs.MIN_ISR, overlay))  # type: ignore[arg-type]

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
        if 0 not in self.partitions.setdefault(topic_id, {}):
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
        for partition in self.partitions.pop(record.topic_id, {}).values():
            self._index_replicas(partition.key, partition.replicas, ())
            self._led.get(partition.leader, {}).pop(partition.key, None)
            self._leaderless.pop(partition.key, None)
            self._reassigning.pop(partition.key, None)
            self._changes.partition_deleted(partition.key)
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
            partitions = self.partitions[record.topic_id]
            if len(partitions) > 1:  # in the order of their indexes, in whatever order they were created
                self.partitions[record.topic_id] = dict(sorted(partitions.items()))

    def _change_partition(self, record: records.PartitionChangeRecord, offset: int) -> None:
        key = (record.topic_id, record.partition_id)
        partition = self.partition(key)
        if partition is None:
            raise InvariantError("S7", f"the record at offset {offset} changes the unknown partition {key}")
        self._put_partition(partition.changed_by(record))

    def _clear_elr(self, record: records.ClearElrRecord, offset: int) -> None:
        named = self.partitions.get(self.topic_ids.get(record.topic_name, ZERO_UUID), {})
        partitions = named.values() if record.topic_name else self.all_partitions()
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
            return bool(self.partitions)
        return bool(self.partitions.get(self.topic_ids.get(resource[1], ZERO_UUID)))

    def _set_feature(self, record: records.FeatureLevelRecord, offset: int) -> None:
        self.features[record.name] = record.feature_level
        if record.feature_level == 0:
            del self.features[record.name]
        self._changes.features[record.name] = None

    def _set_next_producer_id(self, record: records.ProducerIdsRecord, offset: int) -> None:
        self.next_producer_id = record.next_producer_id

    def _set_acl(self, record: records.AccessControlEntryRecord, offset: int) -> None:
        acl_id: UUID | None = record.id  # the zero one reads as None
        if acl_id is None:
            raise InvariantError("S7", f"the record at offset {offset} has an ACL without an id")
        before = self.acls.get(acl_id)
        self._changes.acls.setdefault(acl_id, before)
        if before is not None:
            self._forget_acl(acl_id, before)
        acl = self.acls[acl_id] = security_records.to_acl(record)
        self._acl_ids[acl] = acl_id

    def _remove_acl(self, record: records.RemoveAccessControlEntryRecord, offset: int) -> None:
        acl = self.acls.pop(record.id, None)
        if acl is None:
            raise InvariantError("S7", f"the record at offset {offset} removes the unknown ACL {record.id}")
        self._changes.acls.setdefault(record.id, acl)
        self._forget_acl(record.id, acl)

    def _forget_acl(self, acl_id: UUID, acl: Acl) -> None:
        if self._acl_ids.get(acl) == acl_id:
            del self._acl_ids[acl]

    def _set_scram_credential(self, record: records.UserScramCredentialRecord, offset: int) -> None:
        mechanism = security_records.MECHANISMS.get(record.mechanism)
        if mechanism is not None:
            self._forget_scram_credential(mechanism, record.name)
            credential = security_records.to_scram_credential(record)
            self.scram_credentials[mechanism, record.name] = credential
            count_shape(self.scram_shapes, mechanism, record.name, credential, 1)
            self._changes.scram_credentials[mechanism, record.name] = None

    def _remove_scram_credential(self, record: records.RemoveUserScramCredentialRecord, offset: int) -> None:
        """As in Kafka, a credential may be removed that does not exist."""
        mechanism = security_records.MECHANISMS.get(record.mechanism)
        if mechanism is not None:
            self._forget_scram_credential(mechanism, record.name)
            self._changes.scram_credentials[mechanism, record.name] = None

    def _forget_scram_credential(self, mechanism: str, user: str) -> None:
        credential = self.scram_credentials.pop((mechanism, user), None)
        if credential is not None:
            count_shape(self.scram_shapes, mechanism, user, credential, -1)

    def _set_client_quota(self, record: records.ClientQuotaRecord, offset: int) -> None:
        """As in Kafka, a quota may be removed that does not exist."""
        entity = security_records.to_quota_entity(record)
        if entity is None:
            return
        limits = self.client_quotas.setdefault(entity, {})
        if record.remove:
            limits.pop(record.key, None)
        else:
            limits[record.key] = record.value
        if not limits:
            del self.client_quotas[entity]
        self._changes.client_quotas[entity] = None

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
        partitions, key = self.partitions.setdefault(partition.topic_id, {}), partition.key
        old = partitions.get(partition.index)
        if old is None or old.replicas != partition.replicas:
            self._index_replicas(key, () if old is None else old.replicas, partition.replicas)
        if old is None or old.leader != partition.leader:
            if old is not None:
                self._led.get(old.leader, {}).pop(key, None)
            if partition.leader == NO_LEADER:
                self._leaderless[key] = None
            else:
                self._led.setdefault(partition.leader, {})[key] = None
                self._leaderless.pop(key, None)
        if partition.reassigning:
            self._reassigning[key] = None
        else:
            self._reassigning.pop(key, None)
        partitions[partition.index] = partition
        self._changes.partition_changed(key)

    def _index_replicas(self, key: PartitionKey, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        for broker in old:
            if broker not in new:
                self._hosted[broker].pop(key, None)  # already gone if a record names the broker twice
        for broker in new:
            self._hosted.setdefault(broker, {})[key] = None


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
    records.AccessControlEntryRecord: Image._set_acl,
    records.RemoveAccessControlEntryRecord: Image._remove_acl,
    records.UserScramCredentialRecord: Image._set_scram_credential,
    records.RemoveUserScramCredentialRecord: Image._remove_scram_credential,
    records.ClientQuotaRecord: Image._set_client_quota,
}
