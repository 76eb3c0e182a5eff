"""Registration, heartbeats, fencing and controlled shutdown on the controller (B)."""

from __future__ import annotations

from uuid import UUID

from insync.metadata.partition import NO_LEADER
from insync.sansio import Message
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_registration, unregister_broker
from tests.controller.controller_harness import CLUSTER, Cluster


def test_a_broker_epoch_is_the_offset_of_the_registration_record() -> None:
    """B1: unique, growing, and in the log."""
    cluster = Cluster()
    first = cluster.register(1).broker_epoch
    assert isinstance(cluster.log[first], records.RegisterBrokerRecord)
    second = cluster.register(2).broker_epoch
    assert second > first
    cluster.fence(1)
    third = cluster.register(1).broker_epoch
    assert third > second
    assert cluster.image.brokers[1].epoch == third
    assert cluster.image.brokers[1].registration_offset == third


def test_a_live_broker_cannot_be_registered_by_another_process() -> None:
    """B2: the earlier incarnation must be fenced first."""
    cluster = Cluster().up(1)
    before = cluster.image.brokers[1]
    size = len(cluster.log)
    assert cluster.register(1).error_code is ErrorCode.duplicate_broker_registration
    assert cluster.image.brokers[1] == before
    assert len(cluster.log) == size


def test_a_registration_that_is_retried_gets_the_same_epoch_and_writes_nothing() -> None:
    """B2: the same incarnation, fenced or not."""
    cluster = Cluster()
    epoch = cluster.register(1, incarnation=5).broker_epoch
    size = len(cluster.log)
    assert cluster.register(1, incarnation=5).broker_epoch == epoch
    cluster.beat(1)
    assert cluster.register(1, incarnation=5).broker_epoch == epoch
    assert not cluster.image.brokers[1].fenced
    assert len(cluster.log) == size + 1


def test_a_broker_with_the_directory_of_another_one_is_refused() -> None:
    """B9: its directory is a copy, and does not hold what the controller believes this broker to hold."""
    cluster = Cluster()
    assert cluster.handle("broker_registration", registration(1, directory=7)).error_code is ErrorCode.none
    size = len(cluster.log)
    assert (
        cluster.handle("broker_registration", registration(2, directory=7)).error_code is ErrorCode.invalid_registration
    )
    assert len(cluster.log) == size
    assert cluster.handle("broker_registration", registration(2, directory=8)).error_code is ErrorCode.none


def test_a_broker_keeps_its_directory_and_may_get_a_new_one() -> None:
    """B9: after a restart, and with a new disk; an id that is no longer used is free."""
    cluster = Cluster()
    for incarnation, directory in ((1, 7), (2, 7), (3, 8)):
        request = registration(1, directory=directory, incarnation=incarnation)
        assert cluster.handle("broker_registration", request).error_code is ErrorCode.none
    assert cluster.image.brokers[1].log_dirs == (UUID(int=8),)
    assert cluster.handle("broker_registration", registration(2, directory=7)).error_code is ErrorCode.none


def registration(broker_id: int, *, directory: int, incarnation: int = 1) -> Message:
    return broker_registration.BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation_id=UUID(int=incarnation),
        listeners=(),
        features=(),
        rack=None,
        log_dirs=(UUID(int=directory),),
    )


def test_a_broker_of_another_cluster_is_refused() -> None:
    """B2: a wrong address must not mix two clusters."""
    request = broker_registration.BrokerRegistrationRequest(
        broker_id=1, cluster_id="other", incarnation_id=UUID(int=1), listeners=(), features=(), rack=None
    )
    cluster = Cluster()
    assert cluster.handle("broker_registration", request).error_code is ErrorCode.inconsistent_cluster_id
    assert cluster.image.brokers == {}


def test_a_broker_starts_fenced_and_is_unfenced_once_it_has_read_its_own_registration() -> None:
    """B3"""
    cluster = Cluster()
    epoch = cluster.register(1).broker_epoch
    assert cluster.image.brokers[1].fenced
    early = cluster.beat(1, offset=epoch - 1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    wants_to_wait = cluster.beat(1, offset=epoch, fence=True)
    assert (wants_to_wait.is_caught_up, wants_to_wait.is_fenced) == (True, True)
    ready = cluster.beat(1, offset=epoch)
    assert (ready.is_caught_up, ready.is_fenced) == (True, False)
    assert not cluster.image.brokers[1].fenced


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    """B4: the log of an idle cluster does not grow."""
    cluster = Cluster().up(1)
    size = len(cluster.log)
    cluster.beat(1)
    assert cluster.decisions[-1].records == ()
    assert len(cluster.log) == size


def test_a_broker_without_heartbeats_is_fenced_and_a_heartbeat_unfences_it_under_the_same_epoch() -> None:
    """B4"""
    cluster = Cluster(session_timeout_ms=9_000).up(1, 2)
    cluster.topic((1, 2))
    epoch = cluster.image.brokers[1].epoch
    cluster.now += 5_000
    cluster.beat(2)
    assert cluster.controller.next_deadline() == cluster.now + 4_000
    cluster.tick(after=3_999)
    assert not cluster.image.brokers[1].fenced
    cluster.tick(after=1)
    assert cluster.image.brokers[1].fenced
    assert not cluster.image.brokers[2].fenced
    assert cluster.partition().leader == 2
    cluster.beat(1)
    assert not cluster.image.brokers[1].fenced
    assert cluster.image.brokers[1].epoch == epoch


def test_each_expired_broker_is_fenced_in_a_step_of_its_own() -> None:
    """B4, Q3: the second is decided on the state that the first left."""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3))
    count = len(cluster.decisions)
    cluster.tick(after=60_000)
    assert len(cluster.decisions) == count + 1
    assert cluster.is_due()
    cluster.tick()
    cluster.tick()
    assert len(cluster.decisions) == count + 3
    assert cluster.state() == (NO_LEADER, set(), {2, 3}, set())


def test_a_lost_connection_shortens_a_session_and_a_heartbeat_restores_it() -> None:
    """B4: a dropped connection is a hint, never proof."""
    cluster = Cluster(session_timeout_ms=9_000, lost_peer_grace_ms=2_000).up(1, 2)
    cluster.controller.on_peer_lost(1, cluster.now)
    cluster.controller.on_peer_lost(2, cluster.now)
    cluster.controller.on_peer_lost(9, cluster.now)
    cluster.now += 1_000
    cluster.beat(2)
    cluster.tick(after=1_000)
    assert cluster.image.brokers[1].fenced
    assert not cluster.image.brokers[2].fenced


def test_fencing_takes_a_broker_out_of_every_isr_and_leadership() -> None:
    """B4: in one batch with the fencing record."""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3), name="led")
    cluster.topic((2, 1, 3), name="followed")
    cluster.topic((2, 3), name="elsewhere")
    elsewhere = cluster.partition("elsewhere")
    cluster.fence(1)
    assert cluster.state("led") == (2, {2, 3}, set(), set())
    assert cluster.state("followed") == (2, {2, 3}, set(), set())
    assert cluster.partition("elsewhere") == elsewhere
    assert len(cluster.decisions[-1].records) == 3


def test_fencing_a_broker_that_holds_nothing_in_sync_changes_no_partition() -> None:
    """B4"""
    cluster = Cluster().up(1, 2)
    cluster.topic((1, 2), min_isr=1)
    cluster.alter((1,))
    before = cluster.partition()
    cluster.fence(2)
    assert cluster.partition() == before


def test_a_clean_restart_keeps_elr_membership_and_an_unclean_one_loses_it() -> None:
    """B5, B6: only the epoch of the last incarnation proves a clean stop."""
    for previous, stays in (("last", True), ("none", False), ("older", False)):
        cluster = Cluster().up(1, 2)
        cluster.topic((1, 2))
        cluster.fence(2)
        assert cluster.state() == (1, {1}, {2}, set())
        epoch = cluster.image.brokers[2].epoch
        cluster.register(2, previous={"last": epoch, "none": -1, "older": epoch - 1}[previous])
        assert cluster.state() == ((1, {1}, {2}, set()) if stays else (1, {1}, set(), {2})), previous


def test_an_unclean_registration_and_its_partition_changes_are_one_decision() -> None:
    """B6: at no moment is the broker registered and still in an ELR."""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2))
    cluster.topic((1, 3), name="other")
    cluster.fence(2)
    cluster.register(2)
    kinds = [type(record).__name__ for record in cluster.decisions[-1].records]
    assert kinds == ["RegisterBrokerRecord", "PartitionChangeRecord"]


def test_controlled_shutdown_moves_leadership_and_waits_until_the_others_know() -> None:
    """B7"""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3))
    stale = len(cluster.log) - 1
    first = cluster.beat(1, stop=True)
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    assert cluster.state() == (2, {2, 3}, set(), set())
    assert cluster.image.brokers[1].in_controlled_shutdown
    cluster.beat(2)
    cluster.beat(3, offset=stale)
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.beat(3)
    last = cluster.beat(1, stop=True)
    assert (last.is_fenced, last.should_shut_down) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_controlled_shutdown_does_not_wait_for_fenced_or_stopping_brokers() -> None:
    """B7: only active brokers need to know."""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3))
    cluster.fence(3)
    cluster.beat(1, stop=True)
    cluster.beat(2, stop=True)
    assert cluster.beat(1, stop=True).should_shut_down


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    """B7: there is no new leader that the others have to know."""
    cluster = Cluster().up(1, 2)
    cluster.topic((2, 1), min_isr=1)
    answer = cluster.beat(1, stop=True)
    assert answer.should_shut_down
    assert cluster.state() == (2, {2}, set(), set())


def test_a_fenced_broker_may_stop_at_once() -> None:
    """B7"""
    cluster = Cluster()
    cluster.register(1)
    size = len(cluster.log)
    assert cluster.beat(1, stop=True).should_shut_down
    assert len(cluster.log) == size


def test_a_stopping_broker_is_neither_elected_nor_added_to_an_isr() -> None:
    """B7"""
    cluster = Cluster().up(1, 2, 3)
    cluster.topic((1, 2, 3))
    cluster.beat(1, stop=True)
    assert cluster.alter((2, 3, 1)) is ErrorCode.ineligible_replica
    cluster.fence(2, 3)
    assert cluster.partition().leader == NO_LEADER


def test_the_last_isr_member_that_stops_waits_in_the_elr_and_leads_again_after_a_clean_restart() -> None:
    """B7, E3: the partition has no leader rather than an incomplete one."""
    cluster = Cluster().up(1)
    cluster.topic((1,), min_isr=1)
    cluster.beat(1, stop=True)
    assert cluster.state() == (NO_LEADER, set(), {1}, set())
    assert cluster.beat(1, stop=True).should_shut_down
    cluster.restart(1, clean=True)
    assert cluster.state() == (1, {1}, set(), set())


def test_controlled_shutdown_survives_a_change_of_controller() -> None:
    """B7: the new controller takes what it needs from its log."""
    cluster = Cluster().up(1, 2)
    cluster.topic((1, 2))
    cluster.beat(1, stop=True)
    cluster.fail_over()
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.beat(2)
    assert cluster.beat(1, stop=True).should_shut_down


def test_a_request_of_an_earlier_incarnation_is_refused() -> None:
    """B8"""
    cluster = Cluster().up(1, 2)
    cluster.topic((1, 2))
    old = cluster.image.brokers[1].epoch
    cluster.restart(1, clean=True)
    assert cluster.beat(1, epoch=old).error_code is ErrorCode.stale_broker_epoch
    assert cluster.beat(7).error_code is ErrorCode.stale_broker_epoch
    assert cluster.alter((2,), broker_epoch=cluster.image.brokers[2].epoch - 1) is ErrorCode.stale_broker_epoch


def test_a_new_controller_restarts_every_session() -> None:
    """B4: a change of controller fences no broker."""
    cluster = Cluster(session_timeout_ms=9_000).up(1)
    cluster.now += 8_000
    cluster.fail_over()
    cluster.tick(after=8_999)
    assert not cluster.image.brokers[1].fenced
    cluster.tick(after=1)
    assert cluster.image.brokers[1].fenced


def test_an_unregistered_broker_is_in_no_isr_and_no_elr() -> None:
    """I5, E5: its replicas no longer count."""
    cluster = Cluster().up(1, 2)
    cluster.topic((1, 2))
    response = cluster.handle("unregister_broker", unregister_broker.UnregisterBrokerRequest(broker_id=1))
    assert response.error_code is ErrorCode.none
    assert cluster.state() == (2, {2}, set(), {1})
    assert 1 not in cluster.image.brokers
    again = cluster.handle("unregister_broker", unregister_broker.UnregisterBrokerRequest(broker_id=1))
    assert again.error_code is ErrorCode.broker_id_not_registered
