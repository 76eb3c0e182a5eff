"""Probes are hit by notes and responses of nodes, and by what only the checker knows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from insync.sansio import Effect, Event, Note, Reply, Request, Response, Send, Stop, Timer
from insync.sim.checks.probes import PROBES, Probes
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition, alter_partition_reassignments, broker_registration, fetch, produce
from insync.wire.types import ms
from tests.sim.checker_harness import CheckedLog, three_replicas


def seen(effects: list[Effect], event: Event | None = None, node: Any = None, cluster: Any = None) -> dict[str, int]:
    probes = Probes(cluster)
    asked = event.request if isinstance(event, Request) else None
    probes.after_step(node or SimpleNamespace(id=1), event or Timer(), asked, effects)
    assert all(name in PROBES for name in probes.seen)
    return dict(probes.seen)


def note(kind: str, **fields: Any) -> Note:
    return Note(kind, fields)


def test_there_are_many_probes_and_each_is_described() -> None:
    """S1-S13: a run proves nothing about what it never reached."""
    assert len(PROBES) >= 45
    assert all(PROBES.values())


@pytest.mark.parametrize(
    ("effect", "name"),
    [
        (note("isr_expand_proposed", partition="t-0"), "isr_expanded"),
        (note("alter_partition_overtaken", partition="t-0"), "log_overtakes_alter_partition"),
        (note("alter_partition_refused", error="ineligible_replica"), "refused_ineligible_replica"),
        (note("fetch_refused", error="unknown_leader_epoch"), "stale_leader_refuses_fetch"),
        (note("late_fetch_answer_dropped", reason="epoch"), "late_fetch_answer_epoch"),
        (note("isr_withdrawn", isr=(1,), doubtful=(1, 2)), "proposal_withdrawn"),
        (note("leader_elected", how="elr"), "elr_election"),
        (note("unclean_recovery_finished", strategy="proactive"), "proactive_recovery"),
        (note("quorum_vote_refused", pre_vote=True), "pre_vote_refused"),
        (note("quorum_snapshot_loaded", installed=True), "snapshot_installed"),
        (note("quorum_snapshot_loaded", installed=False), "snapshot_reloaded"),
        (note("quorum_vote_refused", pre_vote=False), "vote_refused"),
        (note("elr_changed", elr=(2,)), "elr_filled"),
        (note("controlled_shutdown", partitions=2), "shutdown_moved_leaders"),
        (note("controller_inactive", dropped=1), "decisions_dropped"),
        (Stop(True, "asked"), "controlled_shutdown"),
        (Stop(False, "disk"), "disk_failure_stopped_node"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_note_hits_its_probe(effect: Effect, name: str) -> None:
    """D5, E2, F3, I4, Q4: each by the note that its code leaves."""
    assert seen([effect]) == {name: 1}


@pytest.mark.parametrize(
    "effect",
    [
        note("alter_partition_refused", error="unknown_topic_id"),
        note("elr_changed", elr=()),
        note("controlled_shutdown", partitions=0),
        note("became_leader", partition="t-0"),
    ],
)
def test_other_notes_hit_nothing(effect: Effect) -> None:
    """I4: a refusal for another reason does not count."""
    assert seen([effect]) == {}


def truncation(**fields: Any) -> Note:
    values = {"partition": "t-0", "from_offset": 9, "to_offset": 5, "hwm": 5, "cause": "diverging", "case": "C"}
    return Note("truncated", {**values, **fields})


def test_truncations_are_distinguished() -> None:
    """D5, F7: by case and by cause."""
    assert seen([truncation()]) == {"divergence_c": 1}
    assert seen([truncation(hwm=6)]) == {"divergence_c": 1, "truncated_below_hwm": 1}
    assert seen([truncation(cause="log_start", case="")]) == {"restarted_at_log_start": 1}


@pytest.mark.parametrize(("leader_leo", "name"), [(5, "divergence_d"), (7, "divergence_e")])
def test_cases_d_and_e_differ_by_whether_the_leader_has_newer_records(leader_leo: int, name: str) -> None:
    """D5: the follower does not know, the simulator does."""
    partition = SimpleNamespace(leader=2, key="p")
    replica = SimpleNamespace(log=SimpleNamespace(leo=leader_leo))
    leader = SimpleNamespace(replicas=SimpleNamespace(replicas={"p": replica}))
    cluster = SimpleNamespace(node=lambda _: leader)
    node = SimpleNamespace(id=1, image=SimpleNamespace(find=lambda topic, index: partition))
    assert seen([truncation(case="D/E")], node=node, cluster=cluster) == {name: 1}


@pytest.mark.parametrize(("known", "hit"), [(4, True), (5, False)])
def test_a_response_that_is_ahead_of_the_log_is_recognised(known: int, hit: bool) -> None:
    """M3: by the partition epoch that the node's image has."""
    partition = SimpleNamespace(partition_epoch=known)
    node = SimpleNamespace(id=1, image=SimpleNamespace(find=lambda topic, index: partition))
    notes: list[Effect] = [note("isr_committed", partition="t-0", partition_epoch=5)]
    assert ("alter_partition_overtakes_log" in seen(notes, node=node)) is hit


def test_a_follower_joins_right_after_an_expansion() -> None:
    """I3: one is in flight at a time, the next follows at once."""
    node = SimpleNamespace(id=1, image=SimpleNamespace(find=lambda topic, index: None))
    notes: list[Effect] = [
        note("isr_committed", partition="t-0", partition_epoch=5),
        note("isr_expand_proposed", partition="t-0"),
    ]
    assert "expand_follows_expand" in seen(notes, node=node)


def test_an_unclean_registration_that_empties_an_elr_is_recognised() -> None:
    """B6: both in one step."""
    gone = note("elr_changed", elr=())
    assert seen([note("broker_registered", clean=False), gone]) == {"unclean_registration_left_elr": 1}
    assert seen([note("broker_registered", clean=True), gone]) == {}


def test_a_reassignment_completed_in_its_request_is_distinguished() -> None:
    """R3: nothing to wait for."""
    done: list[Effect] = [note("reassignment_completed")]
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(timeout=ms(0), topics=())
    assert seen(done) == {"reassignment_completed": 1}
    assert seen(done, Request(1, request)) == {"reassignment_completed_at_once": 1}


def test_a_failover_is_another_active_controller() -> None:
    """Q1: the same controller again is no failover."""
    probes = Probes(None)
    for node_id in (100, 100, 101):
        probes.after_step(SimpleNamespace(id=node_id), Timer(), None, [note("controller_active", epoch=1)])
    assert probes.seen == {"controller_failover": 1}


def answer(kind: Any, **fields: Any) -> Reply:
    response = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(response, name, value)
    return Reply(1, response)


def test_responses_hit_probes_by_their_errors() -> None:
    """B2, F1, P2, I4: refusals without a note."""
    refused = SimpleNamespace(error_code=ErrorCode.not_enough_replicas)
    topic = SimpleNamespace(partition_responses=(refused,))
    assert seen([answer(produce.ProduceResponse, responses=(topic,))]) == {"not_enough_replicas": 1}
    stale = answer(alter_partition.AlterPartitionResponse, error_code=ErrorCode.stale_broker_epoch, topics=())
    assert seen([stale]) == {"refused_stale_broker_epoch": 1}
    lost = answer(fetch.FetchResponse, error_code=ErrorCode.fetch_session_id_not_found)
    assert seen([lost]) == {"fetch_session_lost": 1}
    twice = answer(broker_registration.BrokerRegistrationResponse, error_code=ErrorCode.duplicate_broker_registration)
    assert seen([twice]) == {"duplicate_registration_refused": 1}


def alter_partition_answer(response: Any) -> Response:
    request = alter_partition.AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=())
    return Response(Send(100, "controller", request, lambda response, now: None, 1), response)


def test_lost_and_refused_alter_partitions_are_recognised() -> None:
    """I3: no response, or one from a former controller."""
    assert seen([], alter_partition_answer(None)) == {"alter_partition_answer_lost": 1}
    deposed = SimpleNamespace(error_code=ErrorCode.not_controller)
    assert seen([], alter_partition_answer(deposed)) == {"alter_partition_met_failover": 1}


def test_the_checker_adds_what_it_alone_knows() -> None:
    """H1, F5: an append of a replaced leader, a high watermark that went down, a log truncated at start."""
    world = three_replicas()
    world.replica(3).log.hwm = 4
    world.changed(3)
    world.replica(3).log.hwm = 3
    world.changed(3)
    world.change(leader=2, isr=(2, 3))
    world.replicate(1, 1)
    world.crash(1, lost={"data/t-0/00000000000000000000.log": (9, 4)})
    cut = CheckedLog()
    cut.recovery = SimpleNamespace(truncated_bytes=12)
    world.start(1)
    world.host(1, cut)
    hits = world.checker.probes.seen
    assert [hits[name] for name in ("hwm_went_down", "zombie_leader_appends", "crash_lost_bytes", "tail_cut")] == [
        1
    ] * 4
