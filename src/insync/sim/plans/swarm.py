"""Draws a plan from a seed (swarm testing).

A run that does everything at once explores nothing deeply, so each seed uses a few kinds of faults and leaves out the
others. Some runs have no faults at all, a few have many. Small clusters are the most frequent, since most bugs need few
nodes.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from insync.groups.config import OFFSETS_TOPIC
from insync.sim.plans import directed
from insync.sim.plans.draw import UNCLEAN_STRATEGIES, Draw, FaultPattern
from insync.sim.plans.fault_patterns import FAULT_PATTERNS
from insync.sim.plans.operations import OPERATION_PATTERNS
from insync.sim.plans.plan import Action, ClientPlan, Latency, NodePlan, Plan, Timing, TopicPlan
from insync.sim.plans.races.race import TOPIC, RaceSetup

AUTHORIZER_EVERY = 4
FIRST_MEMBER = -30
ADMIN = -60
IMPOSTOR = -50
"""The id of the client that sends what only nodes may send."""
FIRST_CONTROLLER = 101
"""The first id of controllers that run in a process of their own."""

_SHAPES: tuple[tuple[int, int, bool, int], ...] = (
    (1, 3, False, 20),
    (3, 3, True, 18),
    (3, 3, False, 12),
    (1, 3, True, 12),
    (1, 4, False, 7),
    (3, 4, True, 6),
    (3, 5, False, 5),
    (1, 2, False, 5),
    (1, 5, True, 4),
    (5, 5, True, 3),
    (5, 3, False, 3),
    (1, 1, True, 2),
    (3, 7, False, 1),
    (1, 6, False, 1),
)
"""(controllers, brokers, combined, weight)."""


def draw_plan(seed: int, **overrides: Any) -> Plan:
    """The plan of that seed, with some of its fields replaced."""
    rng = random.Random(f"insync plan {seed}")
    setup = directed.choose_race(seed)
    plan = _draw_swarm_plan(seed, rng) if setup is None else _draw_directed_plan(seed, rng, setup)
    if setup is None:
        plan = _with_shape(_with_authorizer(plan))
        if not plan.has_authorizer:
            plan = _with_groups_and_tools(plan)
    return dataclasses.replace(plan, **overrides)


def _draw_directed_plan(seed: int, rng: random.Random, setup: RaceSetup) -> Plan:
    """A directed race, in the cluster that it needs."""
    nodes = _assign_roles(rng, setup.controllers, setup.brokers, setup.combined)
    brokers = tuple(n.node_id for n in nodes if "broker" in n.roles)
    voters = tuple(n.node_id for n in nodes if "controller" in n.roles)
    drawn = _draw_topic(rng, TOPIC, len(brokers))
    draws = Draw(rng, brokers, voters, (drawn,), _draw_timing(rng))
    race = setup.race(draws)
    topic = TopicPlan(
        name=TOPIC,
        partitions=1,
        replication_factor=min(len(brokers), race.replication_factor),
        configs=tuple((dict(drawn.configs) | race.configs).items()),
    )
    return Plan(
        seed=seed,
        nodes=nodes,
        topics=(topic,),
        clients=race.clients or _draw_clients(rng),
        timing=draws.timing,
        latency=_draw_latency(rng),
        disk_us=rng.choice(((50, 500), (100, 3_000), (200, 20_000))),
        actions=tuple(sorted(race.actions, key=lambda action: action.at_ms)),
        fault_ms=race.fault_ms,
    )


def _draw_swarm_plan(seed: int, rng: random.Random) -> Plan:
    nodes = _draw_nodes(rng)
    brokers = tuple(n.node_id for n in nodes if "broker" in n.roles)
    voters = tuple(n.node_id for n in nodes if "controller" in n.roles)
    timing = _draw_timing(rng)
    topics = _draw_topics(rng, len(brokers))
    fault_ms = rng.choice((4_000, 5_000, 6_000, 8_000))
    return Plan(
        seed=seed,
        nodes=nodes,
        topics=topics,
        clients=_draw_clients(rng),
        timing=timing,
        latency=_draw_latency(rng),
        disk_us=rng.choice(((50, 500), (100, 3_000), (200, 20_000))),
        actions=_draw_actions(rng, Draw(rng, brokers, voters, topics, timing), fault_ms),
        fault_ms=fault_ms,
    )


def _with_authorizer(plan: Plan) -> Plan:
    """One plan in `AUTHORIZER_EVERY` has ACLs that change. They are drawn from a sequence of their own, so that all
    other plans, and their traces, stay as they were without them."""
    rng = random.Random(f"insync acls {plan.seed}")
    if rng.randrange(AUTHORIZER_EVERY):
        return plan
    clients = [client.client_id for client in plan.clients if client.kind != "lister"]
    actions = []
    for _ in range(rng.randint(1, 4)):
        at, duration = rng.randrange(plan.fault_ms), rng.randint(100, 2_500)
        if rng.random() < 0.25:
            node = rng.choice(plan.nodes).node_id
            actions.append(Action(at_ms=at, kind="wrong_credentials", target=str(node), duration_ms=duration))
        else:
            what = (rng.choice(clients), rng.choice(("WRITE", "WRITE", "READ")))
            topic = rng.choice(plan.topics).name
            actions.append(Action(at_ms=at, kind="deny", target=topic, duration_ms=duration, value=what))
    for number in range(rng.randint(0, 2)):
        at, duration = rng.randrange(plan.fault_ms), rng.randint(100, 1_000)
        actions.append(Action(at_ms=at, kind="guard", target=f"g{number}", duration_ms=duration))
    impostor = ClientPlan(client_id=IMPOSTOR, kind="impostor", every_ms=rng.choice((40, 90, 200)))
    clients_and_impostor = (*plan.clients, impostor) if rng.random() < 0.7 else plan.clients
    in_order = sorted((*plan.actions, *actions), key=lambda action: action.at_ms)
    return dataclasses.replace(plan, has_authorizer=True, actions=tuple(in_order), clients=clients_and_impostor)


def _with_shape(plan: Plan) -> Plan:
    """Most plans get a quorum of three or five, some more brokers, a few hundreds of partitions or unusual sizes. They
    are drawn from a sequence of their own, so that the faults of a seed stay what they were."""
    rng = random.Random(f"insync shape {plan.seed}")
    nodes, topics, timing = plan.nodes, plan.topics, plan.timing
    if len(plan.voters) == 1 and rng.random() < 0.8:
        nodes = _with_voters(plan, rng.choice((3, 3, 3, 5)))
    if rng.random() < 0.05:
        highest = rng.choice((6, 9))
        more = [n for n in range(1, highest + 1) if n not in plan.brokers]
        nodes = (*nodes, *(NodePlan(node_id=n, roles=("broker",), wall_offset_ms=1_700_000_000_000) for n in more))
    if rng.random() < 0.02:
        topics = (dataclasses.replace(topics[0], partitions=rng.choice((60, 120, 250))), *topics[1:])
        timing = dataclasses.replace(timing, slice_records=rng.choice((10, 50)), apply_records=50)
    if rng.random() < 0.1:
        timing = dataclasses.replace(timing, snapshot_records=rng.choice((1, 2, 5)))
    if rng.random() < 0.1:
        timing = dataclasses.replace(timing, fetch_bytes=rng.choice((150, 400)))
    if rng.random() < 0.1:
        timing = dataclasses.replace(timing, fetch_sessions=1)
    return dataclasses.replace(plan, nodes=nodes, topics=topics, timing=timing)


def _with_voters(plan: Plan, count: int) -> tuple[NodePlan, ...]:
    """The same nodes with `count` voters: more controllers, or brokers that are controllers too."""
    if plan.voters[0] >= FIRST_CONTROLLER:
        template = plan.nodes[-1]
        more = range(FIRST_CONTROLLER + 1, FIRST_CONTROLLER + count)
        return (*plan.nodes, *(dataclasses.replace(template, node_id=node) for node in more))
    if len(plan.brokers) < 3:
        return plan.nodes
    both = ("broker", "controller")
    return tuple(
        dataclasses.replace(node, roles=both) if node.node_id <= min(count, len(plan.brokers) // 2 * 2 + 1) else node
        for node in plan.nodes
    )


def _with_groups_and_tools(plan: Plan) -> Plan:
    """Half of the plans have consumer groups, a third the tools of an administrator, some operations of their own."""
    rng = random.Random(f"insync groups {plan.seed}")
    clients, actions = list(plan.clients), list(plan.actions)
    if rng.random() < 0.5:
        clients += [
            ClientPlan(
                client_id=FIRST_MEMBER - number,
                kind="member",
                every_ms=rng.choice((40, 80, 150)),
                idempotent=rng.random() < 0.3,
                value_bytes=number % rng.choice((1, 1, 2)),
            )
            for number in range(rng.choice((1, 2, 3, 4)))
        ]
        offsets = f"{OFFSETS_TOPIC}-{rng.randrange(2)}"
        for _ in range(rng.choice((0, 1, 2, 3))):
            kind = rng.choice(("crash", "lossy_crash", "restart", "pause", "isolate", "reassign", "elect_preferred"))
            at, away = rng.randrange(plan.fault_ms), rng.randint(50, plan.timing.session_ms * 2)
            if kind == "reassign":
                replicas = tuple(rng.sample(plan.brokers, min(len(plan.brokers), rng.randint(1, 3))))
                actions.append(Action(at_ms=at, kind=kind, target=offsets, value=replicas))
            elif kind == "elect_preferred":
                actions.append(Action(at_ms=at, kind=kind, target=offsets))
            else:
                value = ("both",) if kind == "isolate" else ()
                actions.append(Action(at_ms=at, kind=kind, target=f"leader:{offsets}", duration_ms=away, value=value))
    if rng.random() < 0.35:
        clients.append(ClientPlan(client_id=ADMIN, kind="admin", every_ms=rng.choice((60, 150))))
    if rng.random() < 0.15:
        broker, at = str(rng.choice(plan.brokers)), rng.randrange(plan.fault_ms // 2)
        away = plan.timing.session_ms * 2
        actions.append(Action(at_ms=at, kind="crash", target=broker, duration_ms=away * 2))
        actions.append(Action(at_ms=at + away, kind="unregister", target=broker))
    if rng.random() < 0.2:
        at = rng.randrange(plan.fault_ms // 2)
        for delay, kind in ((0, "create_topic"), (rng.randint(300, 900), "delete_topic"), (1_000, "create_topic")):
            size = (rng.randint(1, 3), min(3, len(plan.brokers))) if kind == "create_topic" else ()
            actions.append(Action(at_ms=at + delay, kind=kind, target="again", value=size))
    in_order = sorted(actions, key=lambda action: action.at_ms)
    return dataclasses.replace(plan, clients=tuple(clients), actions=tuple(in_order))


def _draw_nodes(rng: random.Random) -> tuple[NodePlan, ...]:
    controllers, brokers, combined, _ = rng.choices(_SHAPES, [shape[3] for shape in _SHAPES])[0]
    return _assign_roles(rng, controllers, brokers, combined)


def _assign_roles(rng: random.Random, controllers: int, brokers: int, combined: bool) -> tuple[NodePlan, ...]:
    roles: dict[int, tuple[str, ...]] = {}
    for broker in range(1, brokers + 1):
        roles[broker] = ("broker", "controller") if combined and broker <= controllers else ("broker",)
    if not combined:
        roles.update({FIRST_CONTROLLER + i: ("controller",) for i in range(controllers)})
    skewed = rng.random() < 0.4
    return tuple(
        NodePlan(
            node_id=node,
            roles=role,
            skew_ms=rng.randint(0, 100_000) if skewed else 0,
            drift_ppm=rng.randint(-20_000, 20_000) if skewed else 0,
            wall_offset_ms=1_700_000_000_000 + (rng.randint(-3_000, 3_000) if skewed else 0),
        )
        for node, role in roles.items()
    )


def _draw_timing(rng: random.Random) -> Timing:
    session = rng.choice((500, 700, 1_000))
    election = rng.choice((150, 200, 300))
    return Timing(
        heartbeat_ms=rng.choice((100, 150, 200)),
        session_ms=session,
        lag_ms=rng.choice((300, 400, 600)),
        election_ms=election,
        quorum_fetch_ms=election * 2,
        fetch_wait_ms=rng.choice((60, 100, 150)),
        request_ms=rng.choice((600, 900, 1_500)),
        recovery_wait_ms=rng.choice((100, 300)),
        rebalance_ms=rng.choice((0, 0, 700)),
        fetch_sessions=rng.choice((1_000, 1_000, 1)),
        snapshot_records=rng.choice((15, 40, 1_000)),
        slice_records=1 if session > 500 else 3,
        apply_records=2,  # so few that every run applies metadata changes in slices
    )


def _draw_topics(rng: random.Random, brokers: int) -> tuple[TopicPlan, ...]:
    return tuple(_draw_topic(rng, f"t{i}", brokers) for i in range(rng.choice((1, 1, 2))))


def _draw_topic(rng: random.Random, name: str, brokers: int) -> TopicPlan:
    factor = min(brokers, rng.choice((3, 3, 3, 3, 3, 2, 1, 4, 5)))
    min_isr = min(factor, rng.choice((2, 2, 2, 2, 1, 1, 3)))
    configs = {
        "min.insync.replicas": str(min_isr),
        "unclean.recovery.strategy": rng.choice(UNCLEAN_STRATEGIES),
    }
    flush = rng.random()
    if flush < 0.2:
        configs["flush.messages"] = rng.choice(("1", "3"))
    elif flush < 0.4:
        configs["flush.ms"] = rng.choice(("50", "300"))
    if rng.random() < 0.4:
        configs["segment.bytes"] = rng.choice(("400", "1000", "4000"))
        if rng.random() < 0.5:
            configs["retention.bytes"] = rng.choice(("800", "3000"))
        if rng.random() < 0.3:
            configs["retention.ms"] = rng.choice(("500", "2000"))
    if rng.random() < 0.06:
        configs["unclean.leader.election.enable"] = "true"
    if rng.random() < 0.1:
        configs["message.timestamp.type"] = "LogAppendTime"
    return TopicPlan(
        name=name, partitions=rng.choice((1, 1, 1, 2, 3)), replication_factor=factor, configs=tuple(configs.items())
    )


def _draw_clients(rng: random.Random) -> tuple[ClientPlan, ...]:
    kinds = (
        ["producer"] * rng.choice((1, 2, 2, 3)) + ["consumer"] * rng.choice((1, 1, 2)) + ["lister"] * rng.choice((0, 1))
    )
    return tuple(_draw_client(rng, -2 - i, kind) for i, kind in enumerate(kinds))


def _draw_client(rng: random.Random, client_id: int, kind: str) -> ClientPlan:
    if kind != "producer":
        return ClientPlan(client_id=client_id, kind=kind, every_ms=rng.choice((80, 150, 300)))
    acks = rng.choice((-1, -1, -1, -1, 1, 1, 0))
    idempotent = acks == -1 and rng.random() < 0.6
    return ClientPlan(
        client_id=client_id,
        kind=kind,
        every_ms=rng.choice((30, 60, 120)),
        acks=acks,
        idempotent=idempotent,
        max_records=rng.choice((1, 3)),
        in_flight=rng.choice((1, 2, 4)),
        value_bytes=rng.choice((0, 0, 40)),
    )


def _draw_latency(rng: random.Random) -> Latency:
    return rng.choice(
        (
            Latency(base_us=100, jitter_us=400, spike_every=0),
            Latency(base_us=300, jitter_us=3_000, spike_every=300, spike_us=60_000),
            Latency(base_us=1_000, jitter_us=12_000, spike_every=80, spike_us=150_000),
        )
    )


def _draw_actions(rng: random.Random, draw_from: Draw, fault_ms: int) -> tuple[Action, ...]:
    """Some kinds of faults, chosen by their weights, from none to many."""
    kinds = _sample_patterns(rng, FAULT_PATTERNS, rng.choice((1, 2, 3, 5, 8)))
    if rng.random() < 0.5:
        kinds += _sample_patterns(rng, OPERATION_PATTERNS, rng.choice((1, 2, 3)))
    count = rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 10, 14))
    actions: list[Action] = []
    for _ in range(count):
        pattern = rng.choices([kind[0] for kind in kinds], [kind[1] for kind in kinds])[0]
        actions += pattern(draw_from, rng.randint(0, fault_ms * 3 // 4))
    kept = [action for action in actions if action.at_ms <= fault_ms]
    return tuple(sorted(kept, key=lambda action: action.at_ms))


def _sample_patterns(
    rng: random.Random, patterns: dict[str, tuple[FaultPattern, int]], count: int
) -> list[tuple[FaultPattern, int]]:
    names = rng.sample(list(patterns), min(count, len(patterns)))
    return [patterns[name] for name in names]
