"""A coordinator through new leader epochs of its partition, timeouts, truncations and restarts (G1, G2, G3).

After every step the coordinator's memory is compared with its log: whatever has happened, it holds what a coordinator
that loads the committed log now would hold.
"""

from __future__ import annotations

import os
import random

import pytest

from insync.groups.config import OFFSETS_TOPIC
from insync.groups.coordinator import Coordinator, partition_for
from insync.groups.shard import Shard
from insync.node.node import Node
from insync.sansio import Outbox
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition_reassignments, delete_groups
from insync.wire.types import ms
from tests.groups.group_nodes_harness import (
    cluster,
    commit,
    commit_request,
    fetch,
    find,
    group_on_killable_node,
    heartbeat_error,
    join,
    join_request,
    ready,
    sync,
)
from tests.node.node_harness import Net

SEEDS = int(os.environ.get("INSYNC_GROUP_SEEDS", "4"))
NODES = (1, 2, 3)
GROUPS = ("g", "g0", "g1")


def reassign(net: Net, group: str, replicas: tuple[int, ...]) -> None:
    """Reassign the group's partition of the offsets topic; its completion raises the leader epoch (R2, M2)."""
    line = alter_partition_reassignments.ReassignablePartition(
        partition_index=partition_for(group, 2), replicas=replicas
    )
    topic = alter_partition_reassignments.ReassignableTopic(name=OFFSETS_TOPIC, partitions=(line,))
    net.ask(1, alter_partition_reassignments.AlterPartitionReassignmentsRequest(timeout=ms(5_000), topics=(topic,)))


def shard_of(net: Net, node: int, group: str) -> Shard:
    return net.broker(node).groups.coordinator.shards[partition_for(group, 2)]


def loaded_epochs(net: Net, node: int, group: str) -> list[int]:
    index = partition_for(group, 2)
    return [
        note.fields["epoch"]
        for at, note in net.notes
        if at == node and note.kind == "groups_loaded" and note.fields["partition"] == index
    ]


def raise_epoch(net: Net, group: str, leader: int) -> None:
    """Raise the leader epoch without a change of leader: a follower leaves the replicas."""
    reassign(net, group, (leader, *(node for node in NODES if node != leader))[:2])


# --- memory and log --------------------------------------------------------------------------------------------------


def check_memory(net: Net) -> None:
    """G2, for every coordinator that serves."""
    for node in net.nodes.values():
        broker = node.broker_role
        for shard in broker.groups.coordinator.shards.values() if broker is not None else ():
            if shard.is_loaded:
                assert offsets_in(shard) == offsets_in(from_log(node, shard)), f"node {node.id}, shard {shard.index}"


def offsets_in(shard: Shard) -> dict[tuple[str, str, int], int]:
    groups = shard.groups.values()
    return {(group.id, *place): offset.offset for group in groups for place, offset in group.offsets.items()}


def from_log(node: Node, shard: Shard) -> Shard:
    """A new shard, loaded from the records that this node knows to be committed."""
    assert node.replicas is not None
    log = node.replicas.replicas[node.image.topic_ids[OFFSETS_TOPIC], shard.index].log
    data = log.read(log.log_start, 1 << 30, limit_offset=log.hwm) if log.hwm > log.log_start else b""
    coordinator = Coordinator(
        config=shard.config,
        log=shard.log,
        out=Outbox(),
        rng=random.Random(0),
        wall_offset_ms=0,
        has_partition=lambda _topic, _index: True,
        now=0,
    )
    fresh = coordinator.begin_load(shard.index, shard.epoch)
    for pos, header in batch.iter_headers(data):
        for record in () if header.is_control else batch.records(data, pos):
            if record.offset < log.hwm:
                fresh.replay(record)
    return fresh


# --- new epochs ------------------------------------------------------------------------------------------------------


def test_a_coordinator_reloads_when_its_partition_has_a_new_leader_epoch() -> None:
    """G1: even if the leader stays. Offsets and generations remain; waiting members get an error."""
    net = cluster()
    group, node = group_on_killable_node(net)
    member = join(net, node, group).member_id
    generation = join(net, node, group, member).generation_id
    sync(net, node, group, member, generation, b"all")
    assert commit(net, node, 42, group=group, member=member, generation=generation) == "none"
    before = shard_of(net, node, group)
    new_member = join(net, node, group).member_id
    net.advance(1_000)
    waiting = net.ask(node, join_request(group, new_member))  # for the other member to join again
    raise_epoch(net, group, node)
    net.advance(1_000)
    after = shard_of(net, node, group)
    assert (before.is_closed, after.is_loaded) == (True, True)
    assert loaded_epochs(net, node, group) == [before.epoch, after.epoch]
    assert after.epoch > before.epoch
    assert net.answers[waiting].error_code is ErrorCode.not_coordinator
    assert fetch(net, node, group) == ("none", [42])
    assert heartbeat_error(net, node, group, member, generation) == "none"
    assert commit(net, node, 43, group=group, member=member, generation=generation - 1) == "illegal_generation"
    assert commit(net, node, 43, group=group, member=member, generation=generation) == "none"
    check_memory(net)


def test_a_commit_under_way_when_the_epoch_changes_is_loaded_before_the_group_is_served() -> None:
    """G1: it was written in the old epoch, and may be acknowledged. Until it is committed, the groups are loading."""
    net = cluster()
    group, node = group_on_killable_node(net)
    assert commit(net, node, 1, group=group) == "none"
    net.hold = [(other, "fetch") for other in NODES if other != node]
    net.advance(1_000)
    under_way = net.ask(node, commit_request(2, group))
    raise_epoch(net, group, node)
    net.advance(1_000)
    assert under_way not in net.answers
    assert fetch(net, node, group) == ("coordinator_load_in_progress", [])
    assert commit(net, node, 3, group=group) == "coordinator_load_in_progress"
    net.release()
    net.advance(2_000)
    assert net.answers[under_way].topics[0].partitions[0].error_code is ErrorCode.none
    assert fetch(net, node, group) == ("none", [2])
    check_memory(net)


def test_a_decision_of_an_old_epoch_is_not_written_in_a_new_one() -> None:
    """G1: a closed shard decides nothing."""
    net = cluster()
    group, node = group_on_killable_node(net)
    old = shard_of(net, node, group)
    raise_epoch(net, group, node)
    net.advance(1_000)
    outcomes: list[ErrorCode] = []
    old.store([batch.NewRecord(b"k", b"v")], lambda error, _now: outcomes.append(error), net.now)
    assert outcomes == [ErrorCode.not_coordinator]


def test_a_write_that_is_truncated_leaves_no_trace_in_any_coordinator() -> None:
    """G1: only the deposed coordinator had it in its log; it is gone when that broker coordinates again."""
    net = cluster()
    group, node = group_on_killable_node(net)
    assert commit(net, node, 1, group=group) == "none"
    net.cut(node)
    lost = net.ask(node, commit_request(99, group))
    net.advance(12_000)
    successor = int(find(net, group).node_id)
    assert successor != node
    assert fetch(net, successor, group) == ("none", [1])
    assert commit(net, successor, 2, group=group) == "none"
    net.mend()
    net.advance(20_000)
    assert net.answers[lost].topics[0].partitions[0].error_code is not ErrorCode.none
    reassign(net, group, (node, successor))
    net.advance(5_000)
    if successor == 1:
        reassign(net, group, (node,))
    else:
        net.crash(successor)
    net.advance(15_000)
    assert int(find(net, group).node_id) == node
    assert fetch(net, node, group) == ("none", [2])
    check_memory(net)


def test_a_commit_that_timed_out_is_in_memory_once_it_is_in_the_committed_log() -> None:
    """G2: the followers fetch again after the client was answered."""
    net = cluster()
    node = ready(net)
    assert commit(net, node, 1) == "none"
    net.hold = [(other, "fetch") for other in NODES if other != node]
    net.advance(1_000)
    token = net.ask(node, commit_request(2))
    net.advance(6_000)
    assert net.answers[token].topics[0].partitions[0].error_code is ErrorCode.coordinator_not_available
    assert fetch(net, node) == ("none", [1])
    net.release()
    net.advance(1_000)
    assert fetch(net, node) == ("none", [2])
    check_memory(net)


# --- random faults ---------------------------------------------------------------------------------------------------


class RandomFaults:
    """Random commits, deletions, timeouts, cuts, crashes and new epochs, with the offsets that were acknowledged."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.net = cluster()
        ready(self.net)
        self.value = 0
        self.acknowledged = dict.fromkeys(GROUPS, -1)
        self.open: dict[int, tuple[str, int]] = {}

    def act(self) -> None:
        actions = (self.commit, self.commit, self.commit, self.delete, self.stall, self.restart, self.cut, self.epoch)
        self.rng.choice(actions)()
        self.check_answers()
        self.net.advance(self.rng.choice((0, 100, 1_000, 6_000)))
        self.check_answers()

    def coordinator(self, group: str) -> int | None:
        node = int(find(self.net, group).node_id)
        return node if node in self.net.nodes else None

    def commit(self) -> None:
        group = self.rng.choice(GROUPS)
        node = self.coordinator(group)
        if node is not None:
            self.value += 1
            self.open[self.net.ask(node, commit_request(self.value, group))] = (group, self.value)

    def delete(self) -> None:
        """The outcome does not matter: nothing is expected of the group until a later commit. A pending commit
        comes before the tombstones."""
        group = self.rng.choice(GROUPS)
        node = self.coordinator(group)
        if node is not None:
            self.acknowledged[group] = -1
            self.open = {token: commit for token, commit in self.open.items() if commit[0] != group}
            self.net.ask(node, delete_groups.DeleteGroupsRequest(groups_names=(group,)))

    def stall(self) -> None:
        """Stop replication for a while, sometimes for longer than a commit waits."""
        if self.net.hold:
            self.net.release()
        else:
            self.net.hold = [(node, "fetch") for node in NODES]

    def restart(self) -> None:
        down = [node for node in NODES if node not in self.net.nodes]
        if down:
            self.net.start(*down)
            self.net.advance(8_000)
        else:
            self.net.crash(self.rng.choice((2, 3)))

    def cut(self) -> None:
        if self.net.cut_off:
            self.net.mend()
        else:
            self.net.cut(self.rng.choice((2, 3)))
            self.net.advance(self.rng.choice((1_000, 12_000)))

    def epoch(self) -> None:
        group = self.rng.choice(GROUPS)
        node = self.coordinator(group)
        if node is not None:
            others = [other for other in NODES if other != node]
            reassign(self.net, group, self.rng.choice(((node, *others), (node, others[0]), (others[0], node))))

    def check_answers(self) -> None:
        for token in [token for token in self.open if token in self.net.answers]:
            group, value = self.open.pop(token)
            if self.net.answers[token].topics[0].partitions[0].error_code is ErrorCode.none:
                self.acknowledged[group] = max(self.acknowledged[group], value)
        check_memory(self.net)

    def stop_faults(self) -> None:
        self.net.mend()
        self.net.release()
        self.net.start(*(node for node in NODES if node not in self.net.nodes))
        self.net.advance(40_000)
        self.check_answers()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_memory_equals_the_committed_log_under_random_faults(seed: int) -> None:
    """G1, G2: no acknowledged offset goes back or vanishes, and nothing truncated is served."""
    faults = RandomFaults(seed)
    for _ in range(40):
        faults.act()
    faults.stop_faults()
    for group, acknowledged in faults.acknowledged.items():
        node = faults.coordinator(group)
        assert node is not None
        error, offsets = fetch(faults.net, node, group)
        assert error == "none"
        assert acknowledged <= (offsets or [-1])[0] <= faults.value
