"""The effect of a changed min.insync.replicas on ELRs (E8), and configs in general."""

from __future__ import annotations

from typing import Any

import pytest

from insync.wire.errors import ErrorCode
from tests.controller.controller_harness import BROKER, Cluster

KEY = "min.insync.replicas"


def started(min_isr: int, replicas: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    cluster = Cluster().up(*replicas)
    cluster.topic(replicas, min_isr=min_isr)
    for broker in replicas:
        cluster.beat(broker)
    return cluster


def test_a_min_isr_that_the_isr_now_meets_empties_the_elr() -> None:
    """E8, E4: in the same batch as the config."""
    cluster = started(3)
    cluster.alter((1, 2))
    assert cluster.state() == (1, {1, 2}, {3}, set())
    epoch = cluster.partition().partition_epoch
    cluster.configure(KEY, "2")
    assert cluster.state() == (1, {1, 2}, set(), set())
    assert cluster.partition().partition_epoch == epoch + 1
    assert len(cluster.decisions[-1].records) == 2


def test_a_lower_min_isr_that_the_isr_does_not_meet_keeps_the_elr() -> None:
    """E8: the HWM does not move."""
    cluster = started(3)
    cluster.alter((1,))
    cluster.configure(KEY, "2")
    assert cluster.state() == (1, {1}, {2, 3}, set())


def test_raising_min_isr_adds_no_replica_to_the_elr() -> None:
    """E8: replica 3 left while the HWM could advance without it."""
    cluster = started(2)
    cluster.alter((1, 2))
    before = cluster.partition()
    cluster.configure(KEY, "3")
    assert cluster.partition() == before
    for broker in (1, 2, 3):
        cluster.beat(broker)
    cluster.fence(2)
    assert cluster.state() == (1, {1}, {2}, set())


def test_the_clusters_default_counts_where_a_topic_has_no_value() -> None:
    """E8"""
    cluster = started(3)
    cluster.topic((1, 2, 3), name="own", min_isr=3)
    cluster.configure(KEY, "3", kind=BROKER, name="")
    cluster.configure(KEY, None, operation=1)
    for broker in (1, 2, 3):
        cluster.beat(broker)
    for name in ("t", "own"):
        cluster.alter((1, 2), name=name)
    cluster.configure(KEY, "2", kind=BROKER, name="")
    assert cluster.state("t") == (1, {1, 2}, set(), set())
    assert cluster.state("own") == (1, {1, 2}, {3}, set())


def test_a_leader_that_may_not_know_of_a_raised_min_isr_yet_has_to_wait() -> None:
    """E8: otherwise it would commit without a replica that the controller keeps in the ELR."""
    cluster = started(2)
    cluster.configure(KEY, "3")
    assert cluster.alter((1, 2)) is ErrorCode.operation_not_attempted
    assert cluster.state() == (1, {1, 2, 3}, set(), set())
    cluster.beat(2)
    assert cluster.alter((1, 2)) is ErrorCode.operation_not_attempted
    cluster.beat(1)
    assert cluster.alter((1, 2)) is ErrorCode.none
    assert cluster.state() == (1, {1, 2}, {3}, set())


@pytest.mark.parametrize("isr", [(1,), (1, 2, 3, 4)])
def test_a_proposal_that_is_below_or_at_both_min_isrs_does_not_wait(isr: tuple[int, ...]) -> None:
    """E8: leader and controller agree whether the HWM stands still."""
    cluster = started(2, (1, 2, 3, 4))
    cluster.alter((1, 2, 3))
    cluster.configure(KEY, "4")
    assert cluster.alter(isr) is ErrorCode.none


def test_a_leader_that_registered_after_the_raise_knows_it() -> None:
    """E8, B3: it was unfenced only after it had read its own registration."""
    cluster = started(2)
    cluster.configure(KEY, "3")
    cluster.restart(1, clean=True)
    cluster.beat(2)
    cluster.alter((2, 3, 1))
    cluster.elect(0)
    cluster.fail_over()
    assert cluster.partition().leader == 1
    assert cluster.alter((1, 2)) is ErrorCode.none


def test_a_new_controller_does_not_trust_that_an_old_leader_has_read_the_raise() -> None:
    """E8: how far a broker has read is soft state, restored by the next heartbeat."""
    cluster = started(2)
    cluster.configure(KEY, "3")
    cluster.beat(1)
    cluster.fail_over()
    assert cluster.alter((1, 2)) is ErrorCode.operation_not_attempted
    cluster.beat(1)
    assert cluster.alter((1, 2)) is ErrorCode.none


def test_a_controller_that_starts_with_a_snapshot_does_not_trust_a_leader_that_has_not_read_that_far() -> None:
    """E8: the snapshot has the raised value, but not that it was raised."""
    cluster = started(2)
    cluster.configure(KEY, "3")
    cluster.fail_over(from_snapshot=True)
    assert not cluster.image.raised_min_isr
    assert cluster.alter((1, 2)) is ErrorCode.operation_not_attempted
    cluster.beat(2)
    assert cluster.alter((1, 2)) is ErrorCode.operation_not_attempted
    cluster.beat(1)
    assert cluster.alter((1, 2)) is ErrorCode.none
    assert cluster.state() == (1, {1, 2}, {3}, set())


def test_a_min_isr_given_at_creation_is_not_a_raise() -> None:
    """E8: no leader ever went by another value."""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3), min_isr=3)
    assert cluster.alter((1, 2)) is ErrorCode.none
    assert cluster.state() == (1, {1, 2}, {3}, set())


REFUSED = [
    ({"key": "no.such.key", "value": "1"}, ErrorCode.invalid_config),
    ({"key": KEY, "value": "0"}, ErrorCode.invalid_config),
    ({"key": KEY, "value": "two"}, ErrorCode.invalid_config),
    ({"key": KEY, "value": None}, ErrorCode.invalid_request),
    ({"key": KEY, "value": "2", "operation": 2}, ErrorCode.invalid_config),
    ({"key": KEY, "value": "2", "operation": 9}, ErrorCode.invalid_request),
    ({"key": KEY, "value": "2", "name": "nope"}, ErrorCode.unknown_topic_or_partition),
    ({"key": KEY, "value": "2", "kind": 8}, ErrorCode.invalid_request),
    ({"key": KEY, "value": "2", "kind": BROKER, "name": "x"}, ErrorCode.invalid_request),
    ({"key": KEY, "value": "2", "kind": BROKER, "name": "²"}, ErrorCode.invalid_request),
    ({"key": KEY, "value": "2", "kind": BROKER, "name": "1" * 5_000}, ErrorCode.invalid_request),
    ({"key": KEY, "value": "2", "kind": BROKER, "name": "9"}, ErrorCode.broker_id_not_registered),
    ({"key": KEY, "value": "2", "kind": BROKER, "name": "1"}, ErrorCode.invalid_config),
    (
        {"key": "leader.replication.throttled.rate", "value": "-5", "kind": BROKER, "name": "1"},
        ErrorCode.invalid_request,
    ),
    ({"key": "unclean.recovery.strategy", "value": "hopeful"}, ErrorCode.invalid_config),
]


@pytest.mark.parametrize(("change", "error"), REFUSED)
def test_configs_are_checked(change: dict[str, Any], error: ErrorCode) -> None:
    """E8: an invalid value is never stored."""
    cluster = started(2)
    size = len(cluster.log)
    assert cluster.configure(**change) is error
    assert len(cluster.log) == size


def test_configs_are_set_deleted_and_edited_as_lists() -> None:
    """E8: setting the current value writes nothing."""
    cluster = started(2)
    assert cluster.configure("cleanup.policy", "compact", operation=2) is ErrorCode.none
    assert cluster.image.config("t", "cleanup.policy") == ("delete", "compact")
    assert cluster.configure("cleanup.policy", "delete", operation=3) is ErrorCode.none
    assert cluster.image.config("t", "cleanup.policy") == ("compact",)
    size = len(cluster.log)
    assert cluster.configure("cleanup.policy", "compact") is ErrorCode.none
    assert cluster.configure("retention.ms", "5", dry=True) is ErrorCode.none
    assert len(cluster.log) == size
    assert cluster.configure("cleanup.policy", None, operation=1) is ErrorCode.none
    assert cluster.image.config("t", "cleanup.policy") == ("delete",)


def test_throttles_for_copy_traffic_are_stored() -> None:
    """R6: rates per broker, throttled replicas per topic."""
    cluster = started(2)
    for side in ("leader", "follower"):
        rate, replicas = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"
        assert cluster.configure(rate, "1000000", kind=BROKER, name="1") is ErrorCode.none
        assert cluster.configure(replicas, "0:1,0:2") is ErrorCode.none
        assert cluster.configure(replicas, "0-1") is ErrorCode.invalid_config
        assert cluster.image.configs[BROKER, "1"][rate] == "1000000"
        assert cluster.image.config("t", replicas) == ("0:1", "0:2")
