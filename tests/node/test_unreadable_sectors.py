"""Bytes that a disk cannot read (EIO), on real nodes over simulated disks (D6).

A bad sector is damage to the batches in it. It is reported, kept from readers and repaired from another replica, and
the node goes on. A write or a sync that fails still ends the node.
"""

from __future__ import annotations

import pytest

from insync.storage import disk as disks
from insync.storage.disk import SECTOR
from insync.storage.file_names import INDEX
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_offsets
from insync.wire.types import NO_DURATION
from tests.node.bit_rot_harness import (
    BATCHES,
    LOG_FILE,
    NO_SCRUB,
    SCRUB,
    fetch_offsets,
    findings,
    lose_replica,
    replicas_are_intact,
    start_with_batches,
)
from tests.node.node_harness import Net, three_brokers

MAX_TIMESTAMP = -3
VALUE_BYTES = 3 * SECTOR


def break_batch(net: Net, node_id: int, number: int) -> None:
    """A sector in the middle of a batch cannot be read any more."""
    size = net.log("t", node_id).active.size // BATCHES
    start = (number * size // SECTOR + 1) * SECTOR
    net.disks[node_id].bad_sectors[LOG_FILE] = (start, start + SECTOR)


def test_a_consumer_that_meets_a_bad_sector_does_not_end_the_node() -> None:
    """D6: the consumer gets an error that it retries, another replica leads, and the log is repaired."""
    net = start_with_batches(value_bytes=VALUE_BYTES, **NO_SCRUB)
    break_batch(net, 1, 3)
    assert fetch_offsets(net, 1, 3) == ([], ErrorCode.kafka_storage_error)
    net.advance(5_000)
    assert not net.stops
    assert net.partition("t").leader == 2
    assert fetch_offsets(net, 2) == (list(range(BATCHES)), ErrorCode.none)
    assert replicas_are_intact(net)
    assert (findings(net, 1), sorted(net.partition("t").isr)) == ([], [1, 2, 3])


def test_a_follower_that_is_rebuilt_from_a_leader_with_a_bad_sector_gets_everything() -> None:
    """D6: the leader hands over to an intact replica, from which both copy."""
    net = start_with_batches(value_bytes=VALUE_BYTES, **NO_SCRUB)
    lose_replica(net, 3)
    break_batch(net, 1, 3)
    net.start(3)
    net.advance(30_000)
    assert not net.stops
    assert replicas_are_intact(net)
    assert sorted(net.partition("t").isr) == [1, 2, 3]


def test_a_bad_sector_on_a_follower_is_found_by_the_scrub() -> None:
    """D6"""
    net = start_with_batches(value_bytes=VALUE_BYTES, **SCRUB)
    break_batch(net, 2, 5)
    net.advance(5_000)
    assert not net.stops
    assert replicas_are_intact(net)
    assert "batch_repaired" in net.kinds(2)


def test_the_only_replica_serves_all_but_the_bad_sector() -> None:
    """D6: the damage is a finding; the records around it are served."""
    net = start_with_batches((1,), value_bytes=VALUE_BYTES, **SCRUB)
    break_batch(net, 1, 3)
    net.advance(5_000)
    assert fetch_offsets(net, 1, 0) == ([0, 1, 2], ErrorCode.none)
    assert fetch_offsets(net, 1, 3) == ([], ErrorCode.corrupt_message)
    assert fetch_offsets(net, 1, 4) == ([4, 5, 6, 7], ErrorCode.none)
    assert findings(net, 1) == ["corrupt_batch"]
    net.disks[1].bad_sectors.clear()
    net.advance(60_000)
    assert (findings(net, 1), net.stops) == ([], {})


def test_listing_offsets_by_time_passes_over_a_bad_sector() -> None:
    """D6"""
    net = start_with_batches((1,), value_bytes=VALUE_BYTES, **NO_SCRUB)
    net.disks[1].bad_sectors[LOG_FILE] = (0, net.log("t").active.size)
    for timestamp in (1, MAX_TIMESTAMP):
        line = list_offsets.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
        topic = list_offsets.ListOffsetsTopic(name="t", partitions=(line,))
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=(topic,), timeout=NO_DURATION
        )
        assert net.answered(1, request).topics[0].partitions[0].error_code is ErrorCode.none
    assert not net.stops


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_with_a_bad_sector_starts_and_is_restored(clean: bool) -> None:
    """B5, D6: recovery ends the log before the first header that cannot be read, and the broker counts as unclean. What
    else the sector holds is left to the scrub."""
    net = start_with_batches(value_bytes=VALUE_BYTES, **SCRUB)
    size = net.log("t", 3).active.size
    if clean:
        net.shut_down(3)
        net.advance(20_000)
    else:
        net.crash(3)
    last_batch = size - size // BATCHES
    net.disks[3].bad_sectors[LOG_FILE] = (last_batch // SECTOR * SECTOR, last_batch + SECTOR)
    net.advance(20_000)
    net.start(3)
    net.advance(30_000)
    assert 3 not in net.stops
    assert sorted(net.partition("t").isr) == [1, 2, 3]
    assert replicas_are_intact(net)
    assert "finding" in net.kinds(3)


@pytest.mark.parametrize(
    "name",
    [
        "t-0/leader-epoch-checkpoint",
        "t-0/partition.metadata",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        ".kafka_cleanshutdown",
    ],
)
def test_a_small_file_that_cannot_be_read_is_written_again(name: str) -> None:
    """B5, D6: it is treated as a damaged one."""
    net = start_with_batches(value_bytes=VALUE_BYTES, **NO_SCRUB)
    net.advance(70_000)
    net.shut_down(3)
    net.advance(20_000)
    disk = net.disks[3]
    assert disk.exists(f"data/{name}")
    disk.bad_sectors[f"data/{name}"] = (0, 4_096)
    net.start(3)
    net.advance(30_000)
    assert sorted(net.partition("t").isr) == [1, 2, 3]
    assert replicas_are_intact(net)
    net.shut_down(3)
    net.advance(20_000)
    assert f"data/{name}" not in disk.bad_sectors, "it was not written again"


def test_an_index_that_cannot_be_read_is_rebuilt() -> None:
    """D6"""
    net = start_with_batches(value_bytes=VALUE_BYTES, **NO_SCRUB)
    net.shut_down(3)
    net.advance(20_000)
    disk, path = net.disks[3], LOG_FILE.replace(".log", INDEX)
    disks.write_plainly(disk, path, bytes(64))
    disk.bad_sectors[path] = (0, 64)
    net.start(3)
    net.advance(30_000)
    assert fetch_offsets(net, 3, 4, replica_id=-2) == ([4, 5, 6, 7], ErrorCode.none)


def test_a_voter_whose_metadata_log_has_a_bad_sector_is_restored_by_the_others() -> None:
    """Q8, D6: it does not vote until it holds again what it had acknowledged."""
    net = three_brokers().up()
    net.create("t", (1, 2, 3))
    (name,) = [name for name in net.disks[3].listdir("metadata/__cluster_metadata-0") if name.endswith(".log")]
    path = f"metadata/__cluster_metadata-0/{name}"
    net.crash(3)
    net.disks[3].bad_sectors[path] = (200, 300)
    net.start(3)
    assert "metadata_damaged" in findings(net, 3)
    net.advance(10_000)
    assert findings(net, 3) == []


def test_a_write_that_fails_ends_the_node() -> None:
    """Only reads are damage to single batches."""
    net = start_with_batches(value_bytes=VALUE_BYTES, **NO_SCRUB)
    net.disks[1].full = True
    net.produce(1, "t")
    assert [stop.clean for stop in net.stops.values()] == [False]
