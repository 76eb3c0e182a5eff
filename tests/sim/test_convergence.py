"""L1-L7 on a hand-made cluster: the first unmet property is named."""

from __future__ import annotations

from uuid import UUID

from insync.metadata import security_records
from insync.properties.history import Acked, Sent
from insync.security.acl import Acl, Operation, ResourceType
from insync.security.quotas import PRODUCER_BYTE_RATE, QuotaEntity
from insync.wire import metadata_records as records
from tests.sim.checker_harness import KEY, World, three_replicas


def converged_world() -> World:
    world = three_replicas()
    for node in world.nodes():
        node.image = world.checker.truth.image
        node.replicas.replicas[KEY].log.hwm = 5
        node.replicas.replicas[KEY].partition = world.ghost.partition
    return world


def adopt(world: World) -> None:
    for node in world.nodes():
        node.replicas.replicas[KEY].partition = world.ghost.partition


def test_a_converged_cluster_has_no_unmet_property() -> None:
    """L1-L7"""
    assert converged_world().checker.why_not_converged() is None


def test_a_broker_that_is_down_or_starting_is_named() -> None:
    """L1"""
    world = converged_world()
    world._nodes[2].lifecycle.state = "recovery"
    assert str(world.checker.why_not_converged()).startswith("L1")
    del world._nodes[2]
    assert str(world.checker.why_not_converged()).startswith("L1")


def test_a_fenced_broker_is_named() -> None:
    """L2"""
    world = converged_world()
    world.commit(records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, fenced=records.FENCED))
    assert str(world.checker.why_not_converged()).startswith("L2")


def test_a_pending_isr_change_is_named() -> None:
    """L3"""
    world = converged_world()
    world.replica(1).lead(1, (1, 2, 3), (1, 2, 3, 4))
    assert str(world.checker.why_not_converged()).startswith("L3")


def test_a_node_behind_in_the_metadata_log_is_named() -> None:
    """L4: by offset, and by content at the same offset."""
    world = converged_world()
    world._nodes[3].metadata_loader.applied -= 1
    assert str(world.checker.why_not_converged()).startswith("L4")
    world = converged_world()
    world._nodes[3].image = world.checker.truth.image.copy()
    assert world.checker.why_not_converged() is None
    world._nodes[3].image.brokers.pop(1)
    assert str(world.checker.why_not_converged()).startswith("L4")


def test_a_node_with_other_acls_users_or_quotas_is_named() -> None:
    """L4"""
    changes: dict[str, records.MetadataRecord] = {
        "acls": security_records.to_acl_record(
            UUID(int=7),
            Acl(resource_type=ResourceType.TOPIC, resource_name="t", principal="User:alice", operation=Operation.READ),
        ),
        "scram_credentials": records.UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096
        ),
        "client_quotas": security_records.to_quota_record(QuotaEntity("alice"), PRODUCER_BYTE_RATE, 10),
    }
    for name, record in changes.items():
        world = converged_world()
        image = world._nodes[3].image = world.checker.truth.image.copy()
        image.apply(record, image.offset)
        assert str(world.checker.why_not_converged()) == f"L4: node 3 has applied everything but its {name} differ"


def test_an_unanswered_produce_is_named() -> None:
    """L5"""
    world = converged_world()
    world.history.append(Sent(1, 1, KEY, -1, 1))
    assert str(world.checker.why_not_converged()).startswith("L5")
    world.history.append(Acked(1, 2, 4))
    assert world.checker.why_not_converged() is None


def test_a_replica_behind_or_out_of_sync_is_named() -> None:
    """L6"""
    world = converged_world()
    world.replica(3).log.hwm = 4
    assert str(world.checker.why_not_converged()).startswith("L6")
    world = converged_world()
    world.change(isr=(1, 2))
    adopt(world)
    assert str(world.checker.why_not_converged()).startswith("L6")


def test_a_running_reassignment_is_named() -> None:
    """L7"""
    world = converged_world()
    world.change(adding_replicas=(3,))
    adopt(world)
    assert str(world.checker.why_not_converged()).startswith("L7")


def test_a_partition_that_waits_for_an_operator_is_left_out() -> None:
    """L6, E6: with the manual strategy, and only then."""
    world = converged_world()
    world.change(leader=-1, isr=(), last_known_elr=(1, 2))
    assert str(world.checker.why_not_converged()).startswith("L6")
    world.commit(
        records.ConfigRecord(resource_type=2, resource_name="t", name="unclean.recovery.strategy", value="manual")
    )
    assert world.checker.why_not_converged() is None
