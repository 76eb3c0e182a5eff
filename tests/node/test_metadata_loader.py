"""How committed metadata reaches the replicas: in order, merged, from the log or from a snapshot (Q6, Q7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

from insync.metadata.image import Image
from insync.metadata.snapshot import to_records
from insync.node.config import BROKER
from insync.node.metadata_loader import MetadataLoader
from insync.quorum.quorum import Quorum
from insync.wire import metadata_records as records
from tests.node.node_harness import Net, config, create_request, three_brokers

TOPIC_ID = UUID(int=0x70)
ME = 1


class Log:
    """What a loader needs of the quorum: committed payloads, one per offset."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.snapshots: list[tuple[list[bytes], int, int]] = []
        self.hwm = 0

    @property
    def quorum(self) -> Quorum:
        return cast(Quorum, self)

    def write(self, *changes: Any) -> Log:
        self.payloads += [records.encode(change) for change in changes]
        self.hwm = len(self.payloads)
        return self

    def read_committed(self, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        for offset in range(start, end):
            yield offset, 3, self.payloads[offset]

    def begin_snapshot(self, offset: int, epoch: int) -> Builder:
        return Builder(offset, epoch)

    def write_snapshot(self, builder: Builder) -> None:
        self.snapshots.append((builder.payloads, builder.offset, builder.epoch))


class Builder:
    """Keeps the payloads of a snapshot as they come."""

    def __init__(self, offset: int, epoch: int) -> None:
        self.offset = offset
        self.epoch = epoch
        self.payloads: list[bytes] = []

    def add(self, payloads: list[bytes]) -> None:
        self.payloads += payloads


def topic(topic_id: UUID = TOPIC_ID, name: str = "t") -> Any:
    return records.TopicRecord(name=name, topic_id=topic_id)


def partition(index: int = 0, replicas: tuple[int, ...] = (1, 2), topic_id: UUID = TOPIC_ID) -> Any:
    return records.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        removing_replicas=(),
        adding_replicas=(),
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=(),
    )


def change(index: int = 0, **fields: Any) -> Any:
    return records.PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, **fields)


def caught_up(log: Log, snapshot_records: int = 1_000) -> MetadataLoader:
    loader = MetadataLoader(ME, snapshot_records)
    loader.catch_up(log.quorum)
    return loader


def test_several_changes_of_one_partition_merge_into_its_latest_state() -> None:
    """Q7: the replica never sees the leader in between."""
    log = Log().write(topic(), partition())
    loader = caught_up(log)
    loader.image.take_changes()
    log.write(change(leader=2), change(isr=(2,)), change(leader=1, isr=(1, 2)))
    assert loader.catch_up(log.quorum)
    (mine,), gone = loader.merge_changes(loader.image.take_changes())
    assert (mine.leader, mine.isr, mine.partition_epoch, gone) == (1, (1, 2), 3, [])


def test_a_replica_that_was_removed_and_added_again_counts_as_changed_not_as_gone() -> None:
    """Q7: the changes merge; the replica sees the result."""
    log = Log().write(topic(), partition())
    loader = caught_up(log)
    loader.image.take_changes()
    log.write(change(replicas=(2, 3)), change(replicas=(1, 2)))
    loader.catch_up(log.quorum)
    mine, gone = loader.merge_changes(loader.image.take_changes())
    assert ([p.replicas for p in mine], gone) == ([(1, 2)], [])


def test_partitions_that_moved_away_or_were_deleted_are_gone() -> None:
    """Q7, T7."""
    log = Log().write(topic(), partition(0), partition(1), partition(2))
    loader = caught_up(log)
    loader.image.take_changes()
    log.write(change(0, replicas=(2, 3)), change(1, isr=(1,)))
    loader.catch_up(log.quorum)
    mine, gone = loader.merge_changes(loader.image.take_changes())
    assert ([p.index for p in mine], gone) == ([1], [(TOPIC_ID, 0)])
    log.write(records.RemoveTopicRecord(topic_id=TOPIC_ID))
    loader.catch_up(log.quorum)
    mine, gone = loader.merge_changes(loader.image.take_changes())
    assert mine == []
    assert sorted(index for _, index in gone) == [0, 1, 2]


def test_metadata_is_applied_once() -> None:
    """Q7."""
    log = Log().write(topic(), partition(), change(leader=2))
    loader = caught_up(log)
    assert loader.applied == 3
    (partition_then,) = loader.image.all_partitions()
    assert partition_then.partition_epoch == 1
    assert not loader.catch_up(log.quorum)
    assert list(loader.image.all_partitions()) == [partition_then]


def test_a_snapshot_is_written_after_so_many_records_and_makes_the_same_image() -> None:
    """Q6."""
    log = Log().write(topic(), partition())
    loader = caught_up(log, snapshot_records=3)
    loader.maybe_snapshot(log.quorum)
    assert log.snapshots == []
    log.write(change(leader=2))
    loader.catch_up(log.quorum)
    loader.maybe_snapshot(log.quorum)
    loader.maybe_snapshot(log.quorum)
    ((payloads, offset, epoch),) = log.snapshots
    assert (offset, epoch) == (3, 3)
    again = Image()
    for payload in payloads:
        again.apply(records.decode(payload), offset - 1)
    assert again.partition((TOPIC_ID, 0)) == loader.image.partition((TOPIC_ID, 0))


def test_a_loaded_snapshot_replaces_the_image_and_counts_as_a_change_once() -> None:
    """Q6."""
    loader = caught_up(Log().write(topic(), partition(0), partition(1)))
    later = caught_up(Log().write(topic(), partition(1, replicas=(2, 1))))
    payloads = [records.encode(record) for record in to_records(later.image)]
    loader.load_snapshot(payloads, 100, 7)
    loader.finish_loading()
    assert loader.image.snapshot_end == loader.image.copy().snapshot_end == 99
    log = Log()
    log.hwm = 100
    assert loader.applied == 100
    assert loader.catch_up(log.quorum)
    assert not loader.catch_up(log.quorum)


def test_partitions_that_a_snapshot_no_longer_has_are_forgotten() -> None:
    """Q6, B9: a snapshot does not say whether they were deleted."""
    loader = caught_up(Log().write(topic(), partition(0), partition(1)))
    later = caught_up(Log().write(topic(), partition(1, replicas=(2, 1))))
    loader.load_snapshot([records.encode(record) for record in to_records(later.image)], 100, 7)
    loader.finish_loading()
    mine, gone = loader.merge_changes(loader.image.take_changes())
    assert [(p.index, p.replicas) for p in mine] == [(1, (2, 1))]
    assert gone == []
    assert loader.take_forgotten() == [(TOPIC_ID, 0)]
    assert loader.take_forgotten() == []


def test_a_broker_continues_from_its_own_metadata_log() -> None:
    """Q6: after a restart it fetches only what it does not have."""
    net = three_brokers().up()
    net.create("t", (1, 2, 3))
    net.crash(2)
    net.start(2)
    node = net.nodes[2]
    assert node.quorum.leo > 0
    net.advance(15_000)
    assert node.image.find("t", 0) == net.nodes[1].image.find("t", 0)


def test_a_lagging_broker_is_sent_a_snapshot_and_drops_what_is_gone() -> None:
    """Q6, T7: it was away while its topic was deleted and the log before the snapshot pruned."""
    net = Net(config(1, metadata_snapshot_records=5), config(2, roles=(BROKER,), metadata_snapshot_records=5)).up()
    net.create("old", (1, 2))
    net.crash(2)
    net.delete("old")
    for number in range(12):
        net.answered(1, create_request(f"new{number}", (1,)))
    assert net.nodes[1].quorum.log.log_start > 0
    net.start(2)
    assert list(net.broker(2).log_store.names()) == [("old", 0)]
    net.advance(15_000)
    assert net.nodes[2].image.topics == net.nodes[1].image.topics
    assert net.broker(2).log_store.names() == {}
    assert "quorum_snapshot_loaded" in net.kinds(2)


def test_replicas_take_up_their_roles_only_after_their_broker_saw_its_registration() -> None:
    """B3: an old log may say that it leads; by its registration it has been fenced out of that."""
    net = three_brokers().up()
    net.create("t", (2, 1))
    net.crash(2)
    net.hold = [(2, "heartbeat")]
    net.start(2)
    net.advance(1_000)
    assert net.partition("t", 2).leader == 2
    assert net.broker(2).replicas.replicas == {}
    net.release()
    net.advance(15_000)
    (replica,) = net.broker(2).replicas.replicas.values()
    assert replica.partition == net.nodes[1].image.find("t", 0)


# --- slices ----------------------------------------------------------------------------------------------------------


def test_committed_records_are_applied_some_at_a_time_and_in_order() -> None:
    """Q7: what reads the image in between sees a prefix of the log."""
    log = Log().write(topic(), *(partition(index) for index in range(1, 7)), partition(0))
    loader = MetadataLoader(1, 1_000, apply_records=3)
    seen = []
    while loader.has_more(log.quorum):
        assert loader.catch_up(log.quorum)
        seen.append((loader.applied, loader.image.complete_topic("t") is not None))
    assert seen == [(3, False), (6, False), (8, True)]
    assert list(loader.image.partitions[TOPIC_ID]) == list(range(7))


def test_a_snapshot_in_slices_is_of_the_image_at_its_beginning() -> None:
    """Q6: changes that come meanwhile are not in it."""
    log = Log().write(topic(), *(partition(index) for index in (1, 2, 3, 0)))
    loader = MetadataLoader(1, 5, apply_records=2)
    while loader.applied < log.hwm:
        loader.catch_up(log.quorum)
    loader.maybe_snapshot(log.quorum)
    log.write(change(leader=2), records.RemoveTopicRecord(topic_id=TOPIC_ID))
    while loader.has_more(log.quorum):
        loader.catch_up(log.quorum)
        loader.maybe_snapshot(log.quorum)
    assert loader.image.topics == {}
    ((payloads, offset, _),) = log.snapshots
    assert offset == 5
    again = Image()
    for payload in payloads:
        again.apply(records.decode(payload), offset - 1)
    assert [p.leader_epoch for p in again.all_partitions()] == [0] * 4


def test_a_snapshot_is_loaded_in_slices_and_replaces_the_image_when_it_is_whole() -> None:
    """Q6"""
    loader = MetadataLoader(1, 1_000, apply_records=2)
    loader.catch_up(Log().write(topic(), partition(0)).quorum)
    before = loader.image
    later = caught_up(Log().write(topic(name="other"), *(partition(index) for index in range(4))))
    loader.load_snapshot([records.encode(record) for record in to_records(later.image)], 100, 7)
    log = Log()
    log.hwm = 100
    assert not loader.catch_up(log.quorum)
    assert loader.image is before
    assert loader.has_more(log.quorum)
    assert not loader.catch_up(log.quorum)
    assert loader.catch_up(log.quorum)
    assert (loader.applied, list(loader.image.topic_ids)) == (100, ["other"])
    assert not loader.has_more(log.quorum)
