"""Plans: a seed determines all of it, and it is plain data."""

from __future__ import annotations

from collections import Counter

import pytest

from insync.sim.plans import fault_patterns, operations
from insync.sim.plans.plan import Plan
from insync.sim.plans.swarm import draw_plan
from insync.sim.workload.faults import Faults
from insync.sim.workload.operator import Operator
from tests.sim.hash_seeds import run_with_hash_seed

SEEDS = range(400)


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [draw_plan(seed) for seed in SEEDS]


def test_one_seed_is_one_plan(plans: list[Plan]) -> None:
    assert draw_plan(7) == plans[7]
    assert len({plan.to_json() for plan in plans}) == len(plans)


def test_a_plan_converts_to_json_and_back(plans: list[Plan]) -> None:
    for plan in plans[:50]:
        assert Plan.from_json(plan.to_json()) == plan


def test_overrides_replace_what_was_drawn() -> None:
    assert draw_plan(3, actions=(), fault_ms=1).fault_ms == 1


def test_a_plan_does_not_depend_on_the_hash_seed() -> None:
    code = "from insync.sim.plans.swarm import draw_plan; print([draw_plan(s).to_json() for s in range(5)])"
    assert run_with_hash_seed(code, 0) == run_with_hash_seed(code, 4711)


def test_the_shapes_reach_from_one_node_to_five_controllers_and_nine_brokers(plans: list[Plan]) -> None:
    voters = Counter(len(plan.voters) for plan in plans)
    brokers = Counter(len(plan.brokers) for plan in plans)
    assert set(voters) == {1, 3, 5}
    assert voters[3] + voters[5] > len(plans) // 2
    assert min(brokers) == 1
    assert max(brokers) == 9
    assert brokers.most_common(1)[0][0] == 3
    combined = [plan for plan in plans if set(plan.voters) & set(plan.brokers)]
    assert 0 < len(combined) < len(plans)


def test_topics_fit_their_cluster(plans: list[Plan]) -> None:
    for plan in plans:
        for topic in plan.topics:
            assert 1 <= topic.replication_factor <= len(plan.brokers)
            assert int(dict(topic.configs)["min.insync.replicas"]) <= topic.replication_factor


def test_the_swarm_draws_every_kind_of_action_and_some_runs_without_any(plans: list[Plan]) -> None:
    kinds = {action.kind for plan in plans for action in plan.actions}
    assert kinds >= {
        "crash",
        "lossy_crash",
        "corrupt_crash",
        "restart",
        "pause",
        "isolate",
        "isolate_from_controllers",
        "cut",
        "split",
        "slow_links",
        "no_fetching",
        "stale_metadata",
        "reset",
        "slow_disk",
        "full_disk",
        "clock_jump",
        "clock_drift",
        "power_loss",
        "create_topic",
        "delete_topic",
        "grow_topic",
        "reassign",
        "cancel_reassign",
        "elect_preferred",
        "elect_unclean",
        "set_config",
    }
    assert any(not plan.actions for plan in plans)


def test_every_action_can_be_carried_out(plans: list[Plan]) -> None:
    for plan in plans:
        for action in plan.actions:
            assert hasattr(Faults, f"_do_{action.kind}") or hasattr(Operator, f"_{action.kind}"), action


def test_actions_are_in_order_and_inside_the_fault_phase(plans: list[Plan]) -> None:
    for plan in plans:
        times = [action.at_ms for action in plan.actions]
        assert times == sorted(times)
        assert all(0 <= at <= plan.fault_ms for at in times)


def test_every_pattern_has_a_weight() -> None:
    for pattern, weight in [*fault_patterns.FAULT_PATTERNS.values(), *operations.OPERATION_PATTERNS.values()]:
        assert callable(pattern)
        assert weight > 0


def test_clients_send_with_every_kind_of_acks(plans: list[Plan]) -> None:
    clients = [client for plan in plans for client in plan.clients]
    assert {client.acks for client in clients if client.kind == "producer"} == {-1, 0, 1}
    assert {client.kind for client in clients} == {"producer", "consumer", "lister", "impostor", "member", "admin"}
    assert any(client.idempotent for client in clients)
    assert all(client.client_id < -1 for client in clients)
