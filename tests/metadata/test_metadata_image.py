"""The image of the metadata log: applying records, indexes, merged changes, snapshots (M1, M2, Q6, Q7)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from insync.errors import InvariantError
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.metadata.snapshot import to_records
from insync.wire import metadata_records as records

T, U = UUID(int=101), UUID(int=102)


def registration(broker: int, epoch: int, **fields: Any) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=UUID(int=broker),
        broker_epoch=epoch,
        end_points=(records.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        **fields,
    )


def new_partition(topic: UUID, index: int, replicas: tuple[int, ...], **fields: Any) -> records.PartitionRecord:
    values: dict[str, Any] = {"isr": replicas, "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0} | fields
    return records.PartitionRecord(partition_id=index, topic_id=topic, replicas=replicas, **values)


def change(topic: UUID, index: int, **fields: Any) -> records.PartitionChangeRecord:
    return records.PartitionChangeRecord(partition_id=index, topic_id=topic, **fields)


def built(*extra: records.MetadataRecord) -> Image:
    image = Image()
    base = (
        registration(1, 0),
        registration(2, 1, fenced=False),
        records.TopicRecord(name="t", topic_id=T),
        new_partition(T, 0, (1, 2)),
        new_partition(T, 1, (2, 3)),
        records.TopicRecord(name="u", topic_id=U),
        new_partition(U, 0, (3, 1)),
    )
    for offset, record in enumerate((*base, *extra)):
        image.apply(record, offset)
    return image


def keys(partitions: list[Partition]) -> list[tuple[str, int]]:
    return [(partition.topic, partition.index) for partition in partitions]


def test_a_change_keeps_what_it_does_not_name_and_raises_the_partition_epoch() -> None:
    """M2"""
    image = built(change(T, 0, isr=(1,), eligible_leader_replicas=(2,)))
    partition = image.find("t", 0)
    assert partition is not None
    assert (partition.isr, partition.elr, partition.replicas, partition.leader) == ((1,), (2,), (1, 2), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)


def test_naming_a_leader_raises_the_leader_epoch_even_if_it_is_the_same_or_none() -> None:
    """M2"""
    image = built(change(T, 0, leader=1), change(T, 0, leader=NO_LEADER, isr=()), change(T, 0, leader=2, isr=(2,)))
    partition = image.find("t", 0)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 3, 3)


def test_recovery_state_and_reassignment_are_part_of_a_partition() -> None:
    """M1"""
    image = built(change(T, 0, leader_recovery_state=1, adding_replicas=(4,), replicas=(1, 2, 4)))
    partition = image.find("t", 0)
    assert partition is not None
    assert partition.recovering
    assert partition.reassigning
    assert keys(image.reassigning()) == [("t", 0)]
    image.apply(change(T, 0, leader_recovery_state=0, adding_replicas=()), 20)
    assert image.reassigning() == []


def test_a_change_of_an_unknown_partition_stops_the_node() -> None:
    """S7: the log and the image disagree."""
    with pytest.raises(InvariantError, match="S7"):
        built(change(T, 9, leader=1))
    with pytest.raises(InvariantError, match="S7"):
        built(records.FenceBrokerRecord(id=9, epoch=0))


def test_a_record_of_an_unknown_topic_stops_the_node() -> None:
    """S7: a partition of it, and its removal."""
    unknown = UUID(int=99)
    with pytest.raises(InvariantError, match="S7"):
        built(records.RemoveTopicRecord(topic_id=unknown))
    with pytest.raises(InvariantError, match="S7"):
        built(records.TopicRecord(name="x", topic_id=None))  # type: ignore[arg-type]
    with pytest.raises(InvariantError, match="S7"):
        built(records.PartitionRecord(partition_id=0, topic_id=unknown, replicas=(1,), isr=(1,)))


def test_an_epoch_that_no_message_can_hold_is_refused() -> None:
    """S7, M2: the earlier change stays."""
    image = built(new_partition(T, 2, (1, 2), partition_epoch=2**31 - 1))
    with pytest.raises(InvariantError, match=r"S7.*t-2"):
        image.apply(change(T, 2, isr=(1,)), 10)
    with pytest.raises(InvariantError, match=r"S7.*t-3"):
        image.apply(new_partition(T, 3, (1, 2), leader_epoch=2**31), 11)
    partition = image.find("t", 2)
    assert partition is not None
    assert partition.isr == (1, 2)


def test_a_partition_that_names_a_replica_twice_can_still_be_removed() -> None:
    image = built(change(T, 0, replicas=(1, 1, 2)))
    image.apply(change(T, 0, replicas=(2,)), 20)
    assert ("t", 0) not in keys(image.partitions_of(1))
    assert ("t", 0) in keys(image.partitions_of(2))


def test_the_partitions_of_a_broker_are_found_by_index() -> None:
    """Q7: also after replicas and leaders have changed."""
    image = built()
    assert keys(image.partitions_of(1)) == [("t", 0), ("u", 0)]
    image.apply(change(T, 1, replicas=(2, 1), leader=1), 20)
    assert keys(image.partitions_of(1)) == [("t", 0), ("u", 0), ("t", 1)]
    assert keys(image.partitions_of(3)) == [("u", 0)]
    assert image.leads_any(1)
    assert not image.leads_any(2)
    image.apply(change(T, 1, leader=NO_LEADER), 21)
    assert keys(image.leaderless()) == [("t", 1)]
    image.apply(records.RemoveTopicRecord(topic_id=T), 22)
    assert keys(image.partitions_of(1)) == [("u", 0)]
    assert (image.leads_any(1), image.leaderless(), image.has_leaderless) == (False, [], False)


def test_brokers_are_fenced_and_unfenced_by_either_kind_of_record() -> None:
    """B3, B4: Kafka has an older and a newer kind."""
    image = built()
    image.apply(records.UnfenceBrokerRecord(id=1, epoch=0), 10)
    assert not image.brokers[1].fenced
    image.apply(records.FenceBrokerRecord(id=1, epoch=0), 11)
    assert image.brokers[1].fenced
    image.apply(records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1), 12)
    assert image.brokers[1].is_active
    image.apply(records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, in_controlled_shutdown=1), 13)
    assert (image.brokers[1].fenced, image.brokers[1].is_active) == (False, False)
    image.apply(registration(1, 14), 14)
    assert (image.brokers[1].epoch, image.brokers[1].in_controlled_shutdown) == (14, False)
    image.apply(records.UnregisterBrokerRecord(broker_id=1, broker_epoch=14), 15)
    assert 1 not in image.brokers


def test_several_changes_of_one_partition_are_merged() -> None:
    """Q7: the reader sees the outcome only."""
    image = built()
    image.take_changes()
    assert not image.take_changes()
    image.apply(change(T, 0, isr=(1,)), 10)
    image.apply(change(T, 0, isr=(1, 2)), 11)
    image.apply(records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"), 12)
    image.apply(registration(1, 13), 13)
    changes = image.take_changes()
    assert list(changes.partitions) == [(T, 0)]
    assert list(changes.configs) == [(2, "t")]
    assert list(changes.brokers) == [1]


def test_a_topic_created_or_changed_and_then_deleted_is_only_deleted() -> None:
    """Q7"""
    image = built()
    image.take_changes()
    image.apply(change(T, 0, isr=(1,)), 10)
    image.apply(records.RemoveTopicRecord(topic_id=T), 11)
    changes = image.take_changes()
    assert list(changes.deleted) == [(T, 0), (T, 1)]
    assert changes.deleted_topics == {T: "t"}
    assert not changes.partitions


def test_a_copy_is_independent() -> None:
    """Q2: the pending image must not affect the committed one."""
    image = built()
    other = image.copy()
    assert not other.take_changes()
    other.apply(change(T, 0, leader=2, replicas=(2, 4)), 20)
    other.apply(records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"), 21)
    other.apply(records.RemoveTopicRecord(topic_id=U), 22)
    other.apply(records.UnregisterBrokerRecord(broker_id=2, broker_epoch=1), 23)
    assert to_records(image) == to_records(built())
    assert keys(image.partitions_of(3)) == [("t", 1), ("u", 0)]


def test_a_snapshot_rebuilds_the_same_image() -> None:
    """Q6: encoded and decoded."""
    image = built(
        records.FeatureLevelRecord(name="metadata.version", feature_level=25),
        records.ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2"),
        records.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="3"),
        change(T, 0, isr=(), leader=NO_LEADER, eligible_leader_replicas=(2,), last_known_elr=(1,)),
        change(T, 1, adding_replicas=(1,), removing_replicas=(3,), replicas=(2, 1, 3), leader_recovery_state=1),
        records.ProducerIdsRecord(broker_id=1, next_producer_id=3000),
    )
    loaded = Image()
    for record in to_records(image):
        loaded.apply(records.decode(records.encode(record)), 99)
    assert to_records(loaded) == to_records(image)
    assert loaded.partitions == image.partitions
    assert loaded.brokers == image.brokers
    assert loaded.raised_min_isr == {}
    assert loaded.next_producer_id == 3000
    assert (loaded.min_isr("t"), loaded.min_isr("u")) == (2, 3)


def test_a_clear_elr_record_changes_only_partitions_that_have_an_elr() -> None:
    """E8: Kafka writes this record; insync only reads it."""
    image = built(change(T, 0, isr=(1,), eligible_leader_replicas=(2,)), change(U, 0, last_known_elr=(1,)))
    image.apply(records.ClearElrRecord(topic_name="t"), 20)
    first, second, other = image.find("t", 0), image.find("t", 1), image.find("u", 0)
    assert first is not None
    assert second is not None
    assert other is not None
    assert (first.elr, first.partition_epoch, second.partition_epoch) == ((), 2, 0)
    assert other.last_known_elr == (1,)
    image.apply(records.ClearElrRecord(topic_name=""), 21)
    cleared = image.find("u", 0)
    assert cleared is not None
    assert cleared.last_known_elr == ()


def test_configs_fall_back_to_the_clusters_synonym_and_then_to_the_built_in_default() -> None:
    """M1"""
    image = built()
    assert image.config("t", "retention.ms") == 604_800_000
    image.apply(records.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="7"), 20)
    assert image.config("t", "retention.ms") == 7
    image.apply(records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="8"), 21)
    assert (image.config("t", "retention.ms"), image.config("u", "retention.ms")) == (8, 7)
    image.apply(records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=None), 22)
    assert image.config("t", "retention.ms") == 7
    assert (2, "t") not in image.configs


def test_a_raised_min_isr_is_remembered_with_the_value_before() -> None:
    """E8: the lowest value that a broker behind that offset may still use."""
    image = built()

    def set_min_isr(value: str, offset: int) -> None:
        image.apply(
            records.ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value=value), offset
        )

    set_min_isr("2", 20)
    set_min_isr("3", 25)
    set_min_isr("2", 26)
    raised = image.raised_min_isr[2, "t"]
    assert (raised.offset, raised.before) == (25, 1)
    image.apply(records.RemoveTopicRecord(topic_id=T), 30)
    assert image.raised_min_isr == {}


def test_a_feature_at_level_zero_is_off() -> None:
    """Q1"""
    image = built(records.FeatureLevelRecord(name="x", feature_level=1))
    assert image.features == {"x": 1}
    image.apply(records.FeatureLevelRecord(name="x", feature_level=0), 20)
    assert image.features == {}


def test_records_without_effect_only_move_the_offset() -> None:
    """Q7"""
    image = built()
    before = to_records(image)
    image.apply(records.NoOpRecord(), 40)
    assert image.offset == 40
    assert to_records(image) == before
