"""Races of disks: what a replica finds in its own files when it comes back."""

from __future__ import annotations

from dataclasses import replace

from insync.sim.plans.draw import Draw, act
from insync.sim.plans.plan import DAMAGE_KINDS, Action, ClientPlan
from insync.sim.plans.races.race import PARTITION, PLAIN_CONFIGS, Race, RaceSetup, hold_fetches, make_leader

UNTIL_STARTED_MS = 60_000
"""A downtime that always ends earlier, when another action starts the node."""


def power_loss_after_clean_stop(d: Draw) -> Race:
    """Both replicas stop cleanly, then their machines lose power; they come back as members of the ELR (B5, D1).

    1. One broker stops and moves from the ISR to the ELR, then the other. 2. Both machines lose power.
    3. Both are back, and count as complete: the first is elected, the second fetches from it.
    """
    actions: list[Action] = []
    at = 400
    while at < 5_000:
        down = at + d.timing.heartbeat_ms * 2 + d.rng.randint(250, 400)
        actions += _both_stop(d, at, down)
        at = down + d.timing.heartbeat_ms + d.rng.randint(350, 600)
    return _two_replicas(d, actions, at)


def unclean_after_clean(d: Draw) -> Race:
    """A broker starts after a clean stop, and loses power: its new incarnation must not count as clean (B5)."""
    actions: list[Action] = []
    at = 400
    while at < 5_000:
        down = at + d.timing.heartbeat_ms * 2 + d.rng.randint(250, 400)
        again = down + d.rng.randint(250, 500)
        actions += [
            *_both_stop(d, at, down),
            act(again, "lossy_crash", d.pick_broker(), d.rng.randint(1, 100)),
            act(again + d.timing.session_ms, "crash", d.pick_broker(), d.rng.randint(1, 100)),
        ]
        at = again + d.timing.session_ms + d.rng.randint(300, 600)
    return _two_replicas(d, actions, at)


def _both_stop(d: Draw, at: int, down: int) -> list[Action]:
    first, second = d.rng.sample(d.brokers, 2)
    return [
        act(at, "restart", str(first), UNTIL_STARTED_MS),
        act(at + d.rng.randint(60, 250), "restart", str(second), UNTIL_STARTED_MS),
        act(down, "power_off", str(first), d.rng.randint(1, 60)),
        act(down, "power_off", str(second), d.rng.randint(1, 60)),
    ]


def _two_replicas(d: Draw, actions: list[Action], end: int) -> Race:
    """Both hold what is committed, and only a clean stop flushes."""
    return Race(
        actions=actions,
        configs={"min.insync.replicas": "2", "flush.messages": "100000", "flush.ms": "100000"},
        replication_factor=2,
        clients=_producers(d, acks=-1) + _readers(),
        fault_ms=end,
    )


def damaged_tails(d: Draw) -> Race:
    """Replicas lose power repeatedly, and find damaged records at the end of their logs (P5)."""
    actions: list[Action] = []
    at = 300
    while at < 3_600:
        target = d.rng.choice((f"leader:{PARTITION}", f"follower:{PARTITION}:0", f"follower:{PARTITION}:1"))
        actions.append(act(at, "corrupt_crash", target, d.rng.randint(1, 100)))
        at += d.rng.randint(150, 400)
    configs = {"min.insync.replicas": "1", "flush.messages": "100000", "flush.ms": "100000"}
    return Race(actions=actions, configs=configs, clients=_producers(d, acks=-1) + _readers(), fault_ms=at)


def idle_high_watermark(d: Draw) -> Race:
    """No replica fetches from the leader, which goes on appending until retention is due (H5)."""
    actions: list[Action] = []
    at = 300
    while at < 3_000:
        alone = d.timing.lag_ms + d.timing.session_ms + d.rng.randint(300, 900)
        actions.append(act(at, "no_fetching", "", alone))
        actions.append(
            act(at + d.rng.randint(alone // 2, alone), "crash", f"leader:{PARTITION}", d.rng.randint(5, 300))
        )
        at += alone + d.rng.randint(300, 700)
    configs = {"min.insync.replicas": "2", "segment.bytes": "400", "retention.bytes": "800"}
    return Race(actions=actions, configs=configs, clients=_producers(d, acks=1) + _readers(), fault_ms=at)


def answers_lost(d: Draw) -> Race:
    """A leader dies with responses in flight, so that producers retry what was written already (P4).

    Its successor recognises the duplicates from its own log, whether it fetched it or recovered it at a start.
    """
    actions: list[Action] = []
    at = 300
    while at < 3_400:
        actions += [
            act(at, "slow_links", f"leader:{PARTITION}", 300, d.rng.randint(20, 60)),
            act(at + 120, d.rng.choice(("crash", "restart", "reset")), f"leader:{PARTITION}", d.rng.randint(5, 200)),
        ]
        if d.rng.random() < 0.5:
            actions.append(act(at + 60, "crash", f"follower:{PARTITION}:{d.rng.randrange(2)}", 5))
        at += d.timing.session_ms + d.rng.randint(100, 400)
    return Race(
        actions=actions, configs={"min.insync.replicas": "2"}, clients=_producers(d, acks=-1) + _readers(), fault_ms=at
    )


def damage_at_rest(d: Draw) -> Race:
    """Brokers stop cleanly one after another; the files of one are damaged before they come back (B5, B6, B9).

    The damaged broker may have stopped first or last, so that it is in the ISR, in the ELR or in neither, and it may
    be back first. Sometimes it did not stop in time and was killed, and sometimes two are damaged.
    """
    actions: list[Action] = []
    at = 400
    while at < 5_000:
        order = d.rng.sample(d.brokers, d.rng.choice((2, 3, 3)))
        for number, broker in enumerate(order):
            actions.append(act(at + number * d.rng.randint(60, 200), "restart", str(broker), UNTIL_STARTED_MS))
        down = at + d.timing.heartbeat_ms * 2 + d.rng.randint(300, 600)
        damaged = d.rng.sample(order, d.rng.choice((1, 1, 1, 2)))
        for broker in order:
            back = d.rng.randint(1, 200)
            if broker in damaged:
                actions.append(act(down, "damage", str(broker), back, PARTITION, d.rng.choice(DAMAGE_KINDS)))
            else:
                actions.append(act(down, "power_off", str(broker), back))
        at = down + d.timing.session_ms + d.rng.randint(500, 900)
    return Race(
        actions=actions,
        configs={"min.insync.replicas": "2", "segment.bytes": d.rng.choice(("600", "4000"))},
        clients=_producers(d, acks=-1) + _readers(),
        fault_ms=at,
    )


PRODUCE_INTERVAL_MS = 1_400
"""The interval of the only producer of `term_without_records`: it writes nothing in between."""
FIRST_WRITE_MS = 750
"""When it first writes during the fault phase; clients start before that."""


def term_without_records(d: Draw) -> Race:
    """b leads for a moment, appends nothing, stops cleanly, and later fetches records of the epoch before (D1).

    1. a leads, and appends a record that b fetches, and one that it does not. 2. b leads, and a does not know.
    3. b stops cleanly, and a leads again. b's epoch table on disk ends with an epoch that starts at b's LEO.
    4. b is back, fetches that record, and is in the ISR. 5. b stops cleanly once more. 6. If it comes back with its
    own epoch in the table, it assigns the record to that epoch and truncates it, though it is committed.
    """
    d.timing = replace(
        d.timing, session_ms=700, lag_ms=2_000, request_ms=1_500, quorum_fetch_ms=600, election_ms=300, rebalance_ms=0
    )
    actions: list[Action] = []
    for number in (1, 3):
        written = FIRST_WRITE_MS + number * PRODUCE_INTERVAL_MS
        a, b = d.rng.sample(d.brokers, 2)
        away = written + d.rng.randint(30, 60)
        stop = away + d.rng.randint(50, 90)
        back = stop + d.timing.heartbeat_ms + d.rng.randint(150, 250)
        actions += [
            *make_leader(written - PRODUCE_INTERVAL_MS - 350, a, b),
            hold_fetches(written - 80, b, a, back - written + 80, "both"),
            hold_fetches(away, a, b, back - away, "both"),
            act(away, "stale_metadata", str(a), stop - away + d.rng.randint(60, 120)),
            *make_leader(away, b, a),
            act(stop, "restart", str(b), d.rng.randint(10, 60)),
            act(back + d.rng.randint(250, 400), "restart", str(b), d.rng.randint(10, 60)),
        ]
    producer = ClientPlan(client_id=-2, kind="producer", every_ms=PRODUCE_INTERVAL_MS, acks=1, max_records=3)
    return Race(
        actions=actions,
        configs=PLAIN_CONFIGS | {"min.insync.replicas": "2"},
        replication_factor=2,
        clients=(producer, *_readers()),
        fault_ms=FIRST_WRITE_MS + 4 * PRODUCE_INTERVAL_MS,
    )


def rotten_segments(d: Draw) -> Race:
    """Bytes of committed batches change on disk, at leaders and followers, while roles change (D6)."""
    actions: list[Action] = []
    at = 300
    while at < 3_600:
        target = d.rng.choice((f"leader:{PARTITION}", f"follower:{PARTITION}:0", f"follower:{PARTITION}:1"))
        actions.append(act(at, "rot", target, 0, PARTITION, d.rng.randrange(100), d.rng.randrange(100)))
        if d.rng.random() < 0.3:
            kind = d.rng.choice(("crash", "restart", "pause", "isolate"))
            value = ("both",) if kind == "isolate" else ()
            actions.append(act(at + d.rng.randint(1, 60), kind, target, d.rng.randint(5, 300), *value))
        at += d.rng.randint(40, 250)
    configs = {"min.insync.replicas": "2", "segment.bytes": str(d.rng.choice((400, 2_000, 100_000)))}
    return Race(actions=actions, configs=configs, clients=_producers(d, acks=-1) + _readers(), fault_ms=at)


def _producers(d: Draw, *, acks: int) -> tuple[ClientPlan, ...]:
    return tuple(
        ClientPlan(
            client_id=-2 - i,
            kind="producer",
            every_ms=30,
            acks=acks,
            idempotent=acks == -1,
            max_records=3,
            in_flight=d.rng.choice((2, 4)),
            value_bytes=40,
        )
        for i in range(2)
    )


def _readers() -> tuple[ClientPlan, ...]:
    return (
        ClientPlan(client_id=-10, kind="consumer", every_ms=80),
        ClientPlan(client_id=-11, kind="lister", every_ms=80),
    )


STORAGE_RACES: tuple[RaceSetup, ...] = (
    RaceSetup(1, 2, False, power_loss_after_clean_stop),
    RaceSetup(1, 2, False, unclean_after_clean),
    RaceSetup(1, 3, False, damaged_tails),
    RaceSetup(1, 3, False, idle_high_watermark),
    RaceSetup(1, 3, False, answers_lost),
)

DAMAGE_RACES: tuple[RaceSetup, ...] = (RaceSetup(1, 3, False, damage_at_rest), RaceSetup(3, 3, False, damage_at_rest))

LATER_RACES: tuple[RaceSetup, ...] = (
    RaceSetup(1, 2, False, term_without_records),
    RaceSetup(1, 3, False, rotten_segments),
)
