"""The controller in its node: when it answers, and what it drops when it loses leadership (Q1-Q3, Q5)."""

from __future__ import annotations

from typing import Any

from insync.node.config import CONTROLLER
from insync.node.controller_apis import FORWARDED
from insync.quorum.config import METADATA_DIRECTORY
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import allocate_producer_ids, list_partition_reassignments
from insync.wire.types import ms
from tests.node.node_harness import Net, config, create_request, three_voters


def listing() -> Any:
    return list_partition_reassignments.ListPartitionReassignmentsRequest(timeout=ms(1_000), topics=None)


def topic_errors(response: Any) -> list[ErrorCode]:
    return [topic.error_code for topic in response.topics]


def leader_of(net: Net) -> int:
    (leader,) = [node_id for node_id, node in net.nodes.items() if node.quorum.is_leader]
    return leader


def allocate() -> Any:
    return allocate_producer_ids.AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)


def test_a_topic_is_visible_and_answered_only_once_committed() -> None:
    """Q2: before that the committed image does not have it either."""
    net = Net().up()
    net.slow_disks = [1]
    token = net.ask(1, create_request("t"))
    assert token not in net.answers
    assert net.nodes[1].image.find("t", 0) is None
    assert net.controller().controller.state.image.find("t", 0) is not None
    net.release_disks()
    assert topic_errors(net.answers[token]) == [ErrorCode.none]
    assert net.nodes[1].image.find("t", 0) is not None


def test_each_decision_rests_on_the_ones_before_it_committed_or_not() -> None:
    """Q3: the second of two equal requests is refused because the topic exists; its answer waits, though it has no
    records."""
    net = Net().up()
    net.slow_disks = [1]
    first, second = net.ask(1, create_request("t")), net.ask(1, create_request("t"))
    assert not {first, second} & net.answers.keys()
    net.release_disks()
    assert topic_errors(net.answers[first]) == [ErrorCode.none]
    assert topic_errors(net.answers[second]) == [ErrorCode.topic_already_exists]


def test_an_answer_without_records_waits_for_nothing_when_nothing_is_pending() -> None:
    """Q2."""
    net = Net(config(1, roles=(CONTROLLER,))).up()
    net.slow_disks = [1]
    assert net.answered(1, listing()).error_code is ErrorCode.none


def test_a_deposed_controller_refuses_waiting_requests_and_drops_its_uncommitted_decisions() -> None:
    """Q2, Q5: cut off from a majority it resigns, and its uncommitted decision vanishes everywhere."""
    net = three_voters().up()
    old = leader_of(net)
    net.cut(old)
    role = net.controller(old)
    replies = [
        effect
        for token, request in ((9_001, create_request("lost", (old,))), (9_002, create_request("lost", (old,))))
        for effect in direct(net, old, token, request)
    ]
    assert replies == []
    assert role.controller.state.image.find("lost", 0) is not None
    net.advance(20_000)
    assert [topic_errors(net.answers[token]) for token in (9_001, 9_002)] == [[ErrorCode.not_controller]] * 2
    assert not role.active
    net.mend()
    net.advance(20_000)
    assert all(node.image.find("lost", 0) is None for node in net.nodes.values())
    assert len({node.quorum.leo for node in net.nodes.values()}) == 1


def direct(net: Net, node_id: int, token: int, request: Any) -> list[Any]:
    """The controller's own answers: the request does not go through the broker that forwards."""
    node = net.nodes[node_id]
    net.controller(node_id).handle(FORWARDED[request.__api_key__], request, lambda r: node.out.reply(token, r), net.now)
    effects = node.out.drain()
    net.carry_out(node, effects)
    return [effect for effect in effects if getattr(effect, "token", None) == token]


def test_a_new_controller_is_active_only_after_its_own_epoch_is_committed() -> None:
    """Q5: until then it may not know the whole log, and refuses."""
    net = Net(config(1, roles=(CONTROLLER,)))
    net.slow_disks = [1]
    net.start()
    net.advance(5_000)
    node = net.nodes[1]
    assert node.quorum.is_leader
    role = net.controller()
    assert not role.active
    assert net.answered(1, listing()).error_code is ErrorCode.not_controller
    net.release_disks()
    assert role.active
    assert net.answered(1, listing()).error_code is ErrorCode.none


def test_a_new_controller_knows_everything_that_its_predecessor_committed() -> None:
    """Q1, Q3: the pending image starts as the committed one."""
    net = three_voters().up()
    old = leader_of(net)
    assert topic_errors(net.answered(old, create_request("kept", (1, 2, 3)))) == [ErrorCode.none]
    net.crash(old)
    net.advance(20_000)
    new = leader_of(net)
    assert new != old
    assert net.controller(new).controller.state.image.find("kept", 0) is not None
    assert topic_errors(net.answered(new, create_request("kept", (new,)))) == [ErrorCode.topic_already_exists]


def test_only_the_leader_of_the_quorum_decides() -> None:
    """Q1: the others refuse, and change nothing."""
    net = three_voters().up()
    follower = next(node_id for node_id, node in net.nodes.items() if not node.quorum.is_leader)
    before = net.nodes[follower].quorum.leo
    response = net.step_for_response(follower, Request(9_000, allocate()))
    assert response.error_code is ErrorCode.not_controller
    assert net.nodes[follower].quorum.leo == before


def test_losing_leadership_is_noted_with_what_was_dropped() -> None:
    """Q2."""
    net = three_voters().up()
    old = leader_of(net)
    net.cut(old)
    direct(net, old, 9_001, create_request("lost", (old,)))
    net.advance(20_000)
    (inactive,) = [note for at, note in net.notes if at == old and note.kind == "controller_inactive"]
    assert inactive.fields["dropped"] >= 1


def test_topics_that_come_and_go_leave_nothing_behind_in_memory() -> None:
    """Q6: neither in the pending image, nor in that of a node that is no broker."""
    net = Net(config(1), config(2, roles=(CONTROLLER,), voters=(1,))).up()
    for number in range(5):
        net.create(f"t{number}")
        net.delete(f"t{number}")
    net.advance(2_000)
    pending = net.controller().controller.state.image
    for image in (pending, net.nodes[1].image, net.nodes[2].image):
        assert image.offset == pending.offset
        assert not image.take_changes()
        assert (image.topics, image.configs, image.partitions) == ({}, {}, {})


def test_the_metadata_log_is_trimmed_and_two_snapshots_are_kept_while_topics_come_and_go() -> None:
    """Q6: log, snapshots and what a restart replays are bounded, however many topics there were."""
    net = Net(config(1, metadata_snapshot_records=20, metadata_apply_records=3)).up()
    for number in range(40):
        net.answered(1, create_request(f"t{number}"))
        net.delete(f"t{number}")
        net.advance(10)
    node = net.nodes[1]
    names = net.disks[1].listdir(METADATA_DIRECTORY)
    assert len([name for name in names if name.endswith(".checkpoint")]) == 2
    assert len([name for name in names if name.endswith(".log")]) <= 3
    assert node.quorum.leo > 120
    assert node.quorum.leo - node.quorum.log.log_start <= 50
    net.restart(1)
    net.advance(5_000)
    assert net.nodes[1].image.topics == {}
