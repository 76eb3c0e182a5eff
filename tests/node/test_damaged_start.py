"""A broker that starts with damaged logs, or with logs that the metadata does not name (B5, B9)."""

from __future__ import annotations

import pytest

from insync.metadata.partition import Partition
from insync.quorum.quorum import Quorum
from insync.sim.engine.disk import SimDisk
from insync.storage import disk as disks
from tests.node.node_harness import Net, three_brokers

DATA = "data"


def findings(net: Net, node_id: int) -> dict[tuple[str, str], str]:
    return {(finding.kind, finding.subject): finding.severity for finding in net.nodes[node_id].findings.current()}


def directories(disk: SimDisk) -> list[str]:
    return [name for name in disk.listdir(DATA) if name.startswith("t")]


@pytest.fixture
def net() -> Net:
    """Topic t with three replicas and one record, and broker 3 stopped cleanly."""
    net = three_brokers().up()
    net.create("t", (1, 2, 3), min_insync_replicas="2")
    net.produce(1, "t")
    net.advance(2_000)
    net.shut_down(3)
    net.advance(20_000)
    assert 3 not in net.nodes
    return net


def start(net: Net) -> Partition:
    net.start(3)
    net.advance(15_000)
    return net.partition("t")


def test_a_damaged_log_is_reported_until_the_replica_is_restored(net: Net) -> None:
    """B5, E5: the finding is cleared when the replica is in the ISR again."""
    net.disks[3].rmtree(f"{DATA}/t-0")
    net.hold = [(3, "fetch")]
    assert 3 not in start(net).isr
    assert findings(net, 3) == {("log_damaged", "t-0"): "critical"}
    net.release()
    net.advance(15_000)
    assert 3 in net.partition("t").isr
    assert findings(net, 3) == {}
    assert "finding_cleared" in net.kinds(3)


def test_the_registration_of_a_broker_with_a_damaged_log_is_unclean(net: Net) -> None:
    """B5, B6"""
    net.disks[3].rmtree(f"{DATA}/t-0")
    start(net)
    registered = [note for _, note in net.notes if note.kind == "broker_registered" and note.fields["broker"] == 3][-1]
    assert registered.fields["clean"] is False


def test_a_topic_that_was_deleted_while_the_broker_was_down_leaves_no_stray(net: Net) -> None:
    """T7: the broker sees the deletion in the metadata log."""
    net.delete("t")
    net.start(3)
    net.advance(15_000)
    assert directories(net.disks[3]) == []
    assert findings(net, 3) == {}


def test_a_topic_made_again_while_the_broker_was_down_starts_empty_and_leaves_no_stray(net: Net) -> None:
    """T7"""
    net.delete("t")
    net.create("t", (1, 2, 3))
    start(net)
    assert directories(net.disks[3]) == ["t-0"]
    assert findings(net, 3) == {}


def test_a_log_that_no_metadata_names_is_kept_as_a_stray(net: Net) -> None:
    """B9: as after the loss of the metadata log. It is reported at every start, and never opened."""
    topic_id = _leave_log_of_another_topic(net, "u")
    stray = f"u-0.{topic_id}-stray"
    start(net)
    assert findings(net, 3) == {("stray_directory", f"{DATA}/{stray}"): "warning"}
    assert not net.disks[3].exists(f"{DATA}/u-0")
    net.create("u", (1, 2, 3))
    net.produce(1, "u")
    net.restart(3)
    net.advance(15_000)
    assert ("stray_directory", f"{DATA}/{stray}") in findings(net, 3)
    assert net.disks[3].exists(f"{DATA}/{stray}")
    assert 3 in net.partition("u").isr


def test_a_log_whose_name_another_topic_has_is_kept_as_a_stray(net: Net) -> None:
    """B9: and the topic that the metadata names gets a log of its own."""
    topic_id = _leave_log_of_another_topic(net, "u")
    net.create("u", (1, 2, 3))
    start(net)
    assert ("stray_directory", f"{DATA}/u-0.{topic_id}-stray") in findings(net, 3)
    assert 3 in net.partition("u").isr


def _leave_log_of_another_topic(net: Net, name: str) -> str:
    disk = net.disks[3]
    disk.mkdir(f"{DATA}/{name}-0")
    for file in disk.listdir(f"{DATA}/t-0"):
        disks.write_plainly(disk, f"{DATA}/{name}-0/{file}", disks.read_all(disk, f"{DATA}/t-0/{file}"))
    content = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAACQ"
    disks.write_plainly(disk, f"{DATA}/{name}-0/partition.metadata", content.encode())
    return f"{9:032x}"


def test_a_partition_that_a_snapshot_no_longer_has_is_set_aside() -> None:
    """B9, Q6: a snapshot does not say that the topic was deleted."""
    net = three_brokers(metadata_snapshot_records=10).up()
    net.create("t", (1, 2, 3))
    net.produce(1, "t")
    net.advance(2_000)
    net.cut(3)
    net.delete("t")
    for number in range(12):
        net.create(f"other{number}", (1, 2))
    quorum: Quorum = net.nodes[1].quorum
    assert quorum.log.log_start > net.nodes[3].quorum.log.leo, "broker 3 can only catch up by a snapshot"
    net.mend()
    net.advance(15_000)
    assert [name.partition(".")[2] for name in directories(net.disks[3])] != [""]
    assert [kind for kind, _ in findings(net, 3)] == ["stray_directory"]
    assert not net.disks[3].exists(f"{DATA}/t-0")


def test_a_topic_with_the_longest_name_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """T7: the name under which a directory waits for its deletion is no longer than a file system allows."""
    net = Net().up()
    name = "t" * 249
    net.create(name)
    net.produce(1, name)
    longest = 0
    rename = SimDisk.rename

    def measure_and_rename(disk: SimDisk, source: str, target: str) -> None:
        nonlocal longest
        longest = max(longest, len(target.rpartition("/")[2]))
        rename(disk, source, target)

    monkeypatch.setattr(SimDisk, "rename", measure_and_rename)
    net.delete(name)
    net.advance(2_000)
    assert 249 < longest <= 255
    assert directories(net.disks[1]) == []
