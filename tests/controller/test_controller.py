"""The controller as a whole: activation, the pending image, time, producer ids, cost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from insync.controller.config import ControllerConfig
from insync.controller.controller import Controller
from insync.controller.decision import Decision, Slices
from insync.controller.state import ControllerState
from insync.metadata.partition import Partition
from insync.sansio import Outbox
from insync.wire.errors import ErrorCode
from insync.wire.messages import allocate_producer_ids
from tests.controller.controller_harness import CLUSTER, Cluster


def test_the_first_controller_of_a_cluster_writes_the_feature_levels() -> None:
    """Q1: a later controller does not write them again."""
    cluster = Cluster()
    assert cluster.image.features == {"metadata.version": 25, "eligible.leader.replicas.version": 1}
    size = len(cluster.log)
    cluster.fail_over()
    assert len(cluster.log) == size


def test_a_decision_changes_nothing_until_it_is_replayed() -> None:
    """Q2, Q3: the handler itself changes nothing."""
    cluster = Cluster().up(1, 2)
    cluster.topic((1, 2))
    before = cluster.partition()
    submitted: list[Any] = []
    cluster.controller._submit = lambda change, now: submitted.append(change)
    cluster.controller.tick(cluster.now + 60_000)
    assert len([list(change) for change in submitted]) == 1
    assert cluster.partition() == before


def test_an_uncommitted_decision_of_a_deposed_controller_is_dropped() -> None:
    """Q2: the pending image is dropped with the leadership."""
    cluster = Cluster().up(1, 2)
    cluster.topic((1, 2))
    committed = len(cluster.log)
    cluster.fence(1)
    assert cluster.partition().leader == 2
    del cluster.log[committed:]
    cluster.fail_over()
    assert cluster.partition().leader == 1
    assert not cluster.image.brokers[1].fenced


def test_an_inactive_controller_decides_nothing() -> None:
    """Q1: one active controller."""
    cluster = Cluster().up(1)
    cluster.controller.deactivate()
    size = len(cluster.log)
    assert cluster.controller.next_deadline() is None
    cluster.tick(after=60_000)
    cluster.controller.on_peer_lost(1, cluster.now)
    assert len(cluster.log) == size


def test_a_controller_that_is_deposed_while_fencing_stops_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q2: the controller may be deposed while it submits."""
    cluster = Cluster().up(1, 2, 3)
    submitted: list[Decision | Slices] = []

    def depose(change: Decision | Slices, now: int) -> None:
        submitted.append(change)
        cluster.controller.deactivate()

    monkeypatch.setattr(cluster.controller, "_submit", depose)
    cluster.controller.tick(cluster.now + 60_000)
    assert len(submitted) == 1


def test_producer_id_blocks_never_overlap() -> None:
    """P4: neither across brokers nor across controllers."""
    cluster = Cluster(producer_id_block=1_000).up(1, 2)

    def block(broker: int, epoch: int | None = None) -> allocate_producer_ids.AllocateProducerIdsResponse:
        known = cluster.image.brokers[broker].epoch if epoch is None else epoch
        request = allocate_producer_ids.AllocateProducerIdsRequest(broker_id=broker, broker_epoch=known)
        response: allocate_producer_ids.AllocateProducerIdsResponse = cluster.handle("allocate_producer_ids", request)
        return response

    starts = [block(1).producer_id_start, block(2).producer_id_start]
    cluster.fail_over()
    starts.append(block(1).producer_id_start)
    assert starts == [0, 1_000, 2_000]
    assert block(1, epoch=0).error_code is ErrorCode.stale_broker_epoch


def test_the_same_history_gives_the_same_log() -> None:
    """Q3: nothing depends on hashes or object identity."""

    def history() -> list[object]:
        cluster = Cluster().up(*range(1, 6))
        for number in range(10):
            cluster.topic((1 + number % 5, 1 + (number + 1) % 5, 1 + (number + 2) % 5), name=f"t{number}")
        cluster.fence(2, 4)
        cluster.tick(after=60_000)
        return cluster.log

    assert history() == history()


def test_fencing_visits_only_the_partitions_of_that_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: the cost is linear in what is affected."""
    visited: list[Partition] = []
    cluster = Cluster().up(1, 2, 3, 4)
    for number in range(30):
        cluster.topic((1, 2) if number % 10 else (3, 4), name=f"t{number}", min_isr=1)
    original = ControllerState.change

    def record_change(state: ControllerState, partition: Partition, *args: Any, **kwargs: Any) -> Any:
        visited.append(partition)
        return original(state, partition, *args, **kwargs)

    monkeypatch.setattr(ControllerState, "change", record_change)
    cluster.fence(3)
    assert sorted(partition.topic for partition in visited) == ["t0", "t10", "t20"]


def test_a_controller_that_was_never_active_has_no_deadline() -> None:
    """Q1"""
    controller = Controller(ControllerConfig(cluster_id=CLUSTER), random.Random(1), Outbox(), lambda change, now: None)
    assert controller.next_deadline() is None
