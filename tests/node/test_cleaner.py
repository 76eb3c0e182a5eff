"""Compaction in a running broker: it starts by itself, works in small steps, and tolerates concurrent changes."""

from __future__ import annotations

from typing import Any

from insync.storage.log import Log
from insync.wire import batch
from insync.wire.messages import produce
from insync.wire.types import ms
from tests.node.node_harness import Net, config, config_request, three_brokers
from tests.storage.storage_harness import content as read_log

COMPACT: dict[str, Any] = {"cleanup_policy": "compact", "segment_bytes": "300", "delete_retention_ms": "50000"}


def put(net: Net, name: str, key: bytes, value: bytes | None, node_id: int = 1) -> None:
    partition = net.partition(name, node_id)
    data = bytes(batch.build([batch.NewRecord(key, value)], timestamp_ms=net.now))
    line = produce.PartitionProduceData(index=0, records=data)
    topic = produce.TopicProduceData(topic_id=partition.topic_id, partition_data=(line,))
    net.ask(node_id, produce.ProduceRequest(acks=-1, timeout=ms(5_000), topic_data=(topic,)))


def contents(log: Log) -> dict[bytes | None, list[bytes | None]]:
    values: dict[bytes | None, list[bytes | None]] = {}
    for pos, _ in batch.iter_headers(data := read_log(log)):
        for record in batch.records(data, pos):
            values.setdefault(record.key, []).append(record.value)
    return values


def filled(net: Net, name: str = "t", count: int = 60, **configs: Any) -> Log:
    net.create(name, **(COMPACT | configs))
    for n in range(count):
        put(net, name, b"k%d" % (n % 3), b"%d" % n)
    put(net, name, b"k0", None)
    for _ in range(8):
        put(net, name, b"end", b"x")
    return net.log(name)


def test_a_compacted_topic_shrinks_by_itself_to_its_last_values() -> None:
    net = Net().up()
    log = filled(net)
    before, leo = log.size_bytes, log.leo
    net.advance(40_000)
    held = contents(log)
    assert held[b"k1"] == [b"58"]
    assert held[b"k0"][-1] is None
    assert len(held[b"k0"]) == 1
    assert log.size_bytes < before / 3
    assert log.leo == log.hwm == leo
    (note,) = [note for _, note in net.notes if note.kind == "log_compacted"]
    assert note.fields["partition"] == "t-0"
    assert note.fields["removed_bytes"] == before - log.size_bytes


def test_a_topic_that_only_deletes_is_never_compacted_and_never_wakes_the_cleaner() -> None:
    net = Net().up()
    log = filled(net, cleanup_policy="delete")
    before = read_log(log)
    net.advance(60_000)
    assert read_log(log) == before
    assert net.broker().background_tasks._cleaner.next_deadline() is None


def test_a_tombstone_goes_with_the_next_pass_after_its_retention() -> None:
    net = Net().up()
    log = filled(net)
    net.advance(40_000)
    net.advance(60_000)
    assert contents(log)[b"k0"] == [None]
    for n in range(40):
        put(net, "t", b"other", b"%d" % n)
    net.advance(40_000)
    assert b"k0" not in contents(log)


def test_one_step_reads_a_bounded_part_of_the_log() -> None:
    net = Net(config(1, cleaner_step_bytes=100)).up()
    log = filled(net)
    disk = net.disks[1]
    most = 0
    end = net.now + 30_000
    while net.now < end:
        before = sum(disk.bytes_read.values())
        net.advance(5)
        most = max(most, sum(disk.bytes_read.values()) - before)
    assert len(contents(log)[b"k1"]) == 1
    assert 0 < most < 2_000


def test_writes_go_on_while_a_compaction_waits_for_the_disk() -> None:
    net = Net().up()
    log = filled(net)
    net.slow_disks = [1]
    net.advance(20_000)
    put(net, "t", b"k1", b"later")
    assert log.leo > 69
    net.release_disks()
    net.advance(40_000)
    assert contents(log)[b"k1"] == [b"58", b"later"]


def test_a_topic_deleted_in_the_middle_of_its_compaction_is_gone() -> None:
    """T7"""
    net = Net().up()
    filled(net)
    net.slow_disks = [1]
    net.advance(20_000)
    assert [name for name in net.disks[1].listdir("data/t-0") if name.endswith(".cleaned")]
    net.slow_disks = []  # syncs kept back so far stay so; the quorum can write
    net.delete("t")
    net.release_disks()
    net.advance(40_000)
    assert net.nodes[1].stopped is False
    assert not [name for name in net.disks[1].listdir("data") if name.startswith("t-0")]
    assert "log_compacted" not in net.kinds(1)


def test_a_topic_that_becomes_compacted_is_compacted_from_its_next_write_on() -> None:
    net = Net().up()
    log = filled(net, cleanup_policy="delete")
    net.answered(1, config_request("t", "cleanup.policy", "compact"))
    put(net, "t", b"end", b"y")
    net.advance(40_000)
    assert contents(log)[b"k1"] == [b"58"]


def test_a_compacted_log_serves_on_after_a_crash_and_after_a_clean_stop() -> None:
    """B5"""
    net = Net().up()
    filled(net)
    net.advance(40_000)
    held = contents(net.log("t"))
    net.crash(1)
    net.disks[1].crash()
    net.start(1)
    net.advance(15_000)
    assert contents(net.log("t")) == held
    net.shut_down(1)
    net.advance(10_000)
    net.start(1)
    net.advance(15_000)
    assert contents(net.log("t")) == held


def test_a_replica_that_comes_late_copies_the_compacted_log() -> None:
    """F5, I2: it gets the leader's gaps, catches up to the same end and joins the ISR."""
    net = three_brokers().up()
    net.crash(3)
    net.advance(20_000)
    net.create("t", (1, 2, 3), **COMPACT)
    for n in range(60):
        put(net, "t", b"k%d" % (n % 3), b"%d" % n)
    net.advance(60_000)
    leader = net.log("t")
    assert len(contents(leader)[b"k1"]) < 5
    net.start(3)
    net.advance(60_000)
    late = net.log("t", 3)
    assert (late.leo, late.hwm) == (leader.leo, leader.hwm)
    assert {key: values[-1] for key, values in contents(late).items()} == {
        key: values[-1] for key, values in contents(leader).items()
    }
    assert 3 in net.partition("t").isr
