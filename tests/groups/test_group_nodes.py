"""Groups on real nodes: the topic is created, coordinators are found, and acknowledged offsets survive a failover."""

from __future__ import annotations

import random

import pytest

from insync.groups.config import OFFSETS_TOPIC, GroupConfig
from insync.wire.errors import ErrorCode
from tests.groups.group_nodes_harness import (
    cluster,
    commit,
    commit_request,
    fetch,
    find,
    group_on_killable_node,
    heartbeat_error,
    join,
    next_coordinator,
    ready,
    sync,
)
from tests.node.node_harness import Net, config


def test_the_first_find_coordinator_creates_the_offsets_topic() -> None:
    net = cluster()
    assert find(net).error_code is ErrorCode.coordinator_not_available
    net.advance(3_000)
    coordinator = find(net, at=2)
    assert coordinator.error_code is ErrorCode.none
    assert coordinator.host == f"host-{coordinator.node_id}"
    image = net.nodes[1].image
    partitions = image.partitions[image.topic_ids[OFFSETS_TOPIC]]
    assert [len(partition.replicas) for partition in partitions.values()] == [3, 3]
    assert image.config(OFFSETS_TOPIC, "cleanup.policy") == ("compact",)


def test_a_small_cluster_gets_as_many_replicas_as_it_has_brokers() -> None:
    net = Net().up()
    find(net)
    net.advance(1_000)
    assert net.partition(OFFSETS_TOPIC).replicas == (1,)


def test_transactions_have_no_coordinator() -> None:
    net = cluster()
    assert find(net, key_type=1).error_code is ErrorCode.transactional_id_authorization_failed
    assert find(net, key_type=2).error_code is ErrorCode.invalid_request


def test_only_the_coordinator_answers_for_a_group() -> None:
    net = cluster()
    node = ready(net)
    assert commit(net, node, 5) == "none"
    for other in net.nodes:
        assert fetch(net, other) == (("none", [5]) if other == node else ("not_coordinator", []))


def test_a_commit_waits_for_the_replicas() -> None:
    net = cluster()
    node = ready(net)
    for follower in net.nodes:
        if follower != node:
            net.hold.append((follower, "fetch"))
    net.advance(1_000)  # the fetches in flight are answered
    token = net.ask(node, commit_request(5))
    net.advance(1_000)
    assert token not in net.answers
    net.release()
    net.advance(2_000)
    assert net.answers[token].topics[0].partitions[0].error_code is ErrorCode.none


def test_offsets_and_generations_survive_a_failover() -> None:
    net = cluster()
    group, node = group_on_killable_node(net)
    member = join(net, node, group).member_id
    generation = join(net, node, group, member).generation_id
    assert sync(net, node, group, member, generation, b"all").assignment == b"all"
    assert commit(net, node, 42, group=group, member=member, generation=generation) == "none"
    successor = next_coordinator(net, group, node)
    assert fetch(net, successor, group) == ("none", [42])
    assert heartbeat_error(net, successor, group, member, generation) == "none"
    assert sync(net, successor, group, member, generation).assignment == b"all"


def test_waiting_members_are_refused_when_the_coordinator_is_deposed() -> None:
    """A coordinator that was isolated learns that it was replaced, and answers its members NOT_COORDINATOR."""
    net = cluster()
    group, node = group_on_killable_node(net)
    member = join(net, node, group).member_id
    net.cut(node)
    waiting = net.ask(node, commit_request(7, group))
    net.advance(12_000)
    net.mend()
    net.advance(5_000)
    assert net.answers[waiting].topics[0].partitions[0].error_code is not ErrorCode.none
    assert heartbeat_error(net, node, group, member, 1) == "not_coordinator"


def test_a_new_coordinator_serves_nothing_that_may_still_be_lost() -> None:
    """It waits until the records of the previous one are committed under it."""
    net = cluster()
    group, node = group_on_killable_node(net)
    done = net.ask(node, commit_request(1, group))  # the followers have it, and do not yet know that it is committed
    assert net.answers[done].topics[0].partitions[0].error_code is ErrorCode.none
    net.hold = [(other, "fetch") for other in net.nodes if other != node]
    net.crash(node)
    net.advance(11_000)
    successor = int(find(net, group).node_id)
    assert fetch(net, successor, group) == ("coordinator_load_in_progress", [])
    net.release()
    net.advance(3_000)
    assert fetch(net, successor, group) == ("none", [1])


def test_a_coordinator_that_restarts_loads_what_it_had() -> None:
    """It loads in steps smaller than the log."""
    net = Net(config(1, groups=GroupConfig(offsets_topic_num_partitions=3, load_step_bytes=200))).up()
    net.create("t")
    node = ready(net)
    for offset in range(20):
        assert commit(net, node, offset) == "none"
    net.restart(node)
    net.advance(20_000)
    assert fetch(net, node) == ("none", [19])
    assert "groups_loaded" in net.kinds(node)


@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_offset_is_forgotten_whichever_node_dies(seed: int) -> None:
    rng = random.Random(seed)
    net = cluster()
    ready(net)
    acknowledged, attempted = -1, -1
    for _ in range(12):
        live = [node for node in (2, 3) if node in net.nodes]
        if rng.random() < 0.4 and len(live) == 2:
            net.crash(rng.choice(live))
            net.advance(rng.choice((0, 5_000, 12_000)))
        elif len(live) == 1:
            net.start(*(node for node in (2, 3) if node not in net.nodes))
            net.advance(10_000)
        node = find(net, "g").node_id
        if node in net.nodes:
            attempted += 1
            token = net.ask(node, commit_request(attempted))
            net.advance(rng.choice((0, 500, 6_000)))
            answer = net.answers.get(token)
            if answer is not None and answer.topics[0].partitions[0].error_code is ErrorCode.none:
                acknowledged = attempted
    net.start(*(node for node in (2, 3) if node not in net.nodes))
    net.advance(20_000)
    error, offsets = fetch(net, find(net, "g").node_id)
    assert error == "none"
    assert acknowledged >= 3, "too few commits succeeded"
    assert acknowledged <= offsets[0] <= attempted
