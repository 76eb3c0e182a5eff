"""An image as the records that rebuild it (Q6), in an order in which each refers only to earlier ones.

Configs come before topics: a MinISR after its topic's partitions would count as one that was just raised (E8).
"""

from __future__ import annotations

from collections.abc import Iterator

from insync.metadata import security_records
from insync.metadata.broker import Broker
from insync.metadata.image import Image
from insync.metadata.partition import Partition
from insync.wire import metadata_records as records


def to_records(image: Image) -> list[records.MetadataRecord]:
    return list(iter_records(image))


def iter_records(image: Image) -> Iterator[records.MetadataRecord]:
    """The image must not change until the iteration ends."""
    for name, level in sorted(image.features.items()):
        yield records.FeatureLevelRecord(name=name, feature_level=level)
    for broker_id in sorted(image.brokers):
        yield _broker_record(image.brokers[broker_id])
    yield from _config_records(image)
    for name, topic_id in sorted(image.topic_ids.items()):
        yield records.TopicRecord(name=name, topic_id=topic_id)
        partitions = image.partitions.get(topic_id, {})
        for index in sorted(partitions):
            yield _partition_record(partitions[index])
    if image.next_producer_id:
        yield records.ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)
    for entity in sorted(image.client_quotas, key=repr):
        for key, value in sorted(image.client_quotas[entity].items()):
            yield security_records.to_quota_record(entity, key, value)
    for acl_id in sorted(image.acls):
        yield security_records.to_acl_record(acl_id, image.acls[acl_id])
    for mechanism, user in sorted(image.scram_credentials):
        yield security_records.to_scram_record(mechanism, user, image.scram_credentials[mechanism, user])


def _broker_record(broker: Broker) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            records.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ),
        features=tuple(
            records.BrokerFeature(
                name=f.name, min_supported_version=f.min_supported, max_supported_version=f.max_supported
            )
            for f in broker.features
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def _partition_record(partition: Partition) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=partition.index,
        topic_id=partition.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=int(partition.recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=(records.UNASSIGNED_DIRECTORY,) * len(partition.replicas),
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _config_records(image: Image) -> list[records.ConfigRecord]:
    return [
        records.ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)
        for resource in sorted(image.configs)
        for name, value in sorted(image.configs[resource].items())
    ]
