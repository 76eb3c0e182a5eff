"""Races about the ISR: proposals, their responses and the metadata log overtake each other.

Each is described in numbered steps with three brokers a, b and c, of which a leads.
"""

from __future__ import annotations

from dataclasses import replace

from insync.sim.plans.draw import Draw, act
from insync.sim.plans.plan import Action
from insync.sim.plans.races.race import (
    BUSY_CLIENTS,
    PLAIN_CONFIGS,
    TOPIC,
    Race,
    RaceSetup,
    hold_fetches,
    make_leader,
    use_short_timeouts,
)


def answers_against_the_log(d: Draw) -> Race:
    """Two followers rejoin one after the other, and a learns of it in the wrong order or not at all (I3, M3).

    1. b and c have left the ISR. 2. b joins; a has the record, but does not learn yet that it is committed.
    3. c joins, and stops fetching. 4. a, which knows of both from the responses, learns that 2 is committed.
    Or: the response to 3 is lost, and the next attempt fails because the partition epoch has moved on.
    """
    use_short_timeouts(d)
    d.timing = replace(d.timing, quorum_fetch_ms=1_000)
    actions: list[Action] = []
    at, turn = 50, d.rng.randrange(2)
    while at < 3_000:
        a, b, c = d.rng.sample(d.brokers, 3)
        out = at + 150
        joins = out + d.timing.lag_ms * 17 // 10
        later = joins + d.rng.randint(90, 140)
        actions += [
            *make_leader(at, a, b, c),
            hold_fetches(out, b, a, joins - out),
            hold_fetches(out, c, a, later - out),
            *(_log_is_late(d, a, c, joins, later) if turn else _answer_is_lost(d, a, later)),
        ]
        at, turn = later + (700 if turn else 350), 1 - turn
    return Race(
        actions=actions, configs={"min.insync.replicas": d.rng.choice(("1", "2"))} | PLAIN_CONFIGS, clients=BUSY_CLIENTS
    )


def _log_is_late(d: Draw, a: int, c: int, joins: int, later: int) -> list[Action]:
    """A slow disk separates a record from the news that it is committed. If c fetched, it would join again."""
    silent = joins + d.rng.randint(15, 45)
    news = later + 30 + d.timing.lag_ms + d.rng.randint(20, 80)
    return [
        act(joins - 20, "slow_disk", "active-controller", later - joins + 60, 60),
        act(silent, "stale_metadata", str(a), news - silent),
        act(later + 30, "hold", str(a), news - later, "controllers", "controller", "out"),
        hold_fetches(later + 30, c, a, news - later),
    ]


def _answer_is_lost(d: Draw, a: int, later: int) -> list[Action]:
    lost = later + d.rng.randint(30, 60)
    return [
        act(later - 15, "stale_metadata", str(a), lost - later + d.rng.randint(80, 130)),
        act(later - 10, "hold", str(a), lost - later + 15, "controllers", "controller", "in"),
        act(lost, "reset", str(a)),
    ]


def late_proposal(d: Draw) -> Race:
    """a's proposal to add c arrives when what it says of b or c is no longer true (I4, I6, B8).

    1. c has caught up, and a's proposal {a, b, c} is delayed. 2. c is fenced; or c loses records in a power loss and
    comes back in a new incarnation; or b is fenced, misses records, and comes back; or a itself has restarted.
    3. The proposal arrives.
    """
    use_short_timeouts(d)
    session = d.timing.session_ms
    actions: list[Action] = []
    at = 50
    for turn in d.rng.sample((0, 1, 1, 2, 3), 5):
        a, b, c = d.rng.sample(d.brokers, 3)
        out = at + 150
        joins = out + d.timing.lag_ms * 17 // 10
        trouble = joins + d.rng.randint(40, 90)
        arrives = trouble + session + d.rng.randint(150, 350)
        away = session + d.rng.randint(50, 150)
        troubles = (
            act(trouble, "lossy_crash", str(c), session * 2),
            act(trouble, "lossy_crash", str(c), 5),
            act(trouble, "isolate_from_controllers", str(b), away, "both"),
            act(trouble, "crash", str(a), 5),
        )
        actions += [
            *make_leader(at, a, b, c),
            hold_fetches(out, c, a, joins - out),
            act(joins - 10, "hold", str(a), arrives - joins, "controllers", "controller", "out"),
            hold_fetches(trouble, b if turn == 2 else c, a, arrives - trouble + 60),
            troubles[turn],
        ]
        at = arrives + 250
    return Race(
        actions=actions, configs={"min.insync.replicas": "1"} | PLAIN_CONFIGS, clients=BUSY_CLIENTS, fault_ms=at
    )


def refused_and_accepted(d: Draw) -> Race:
    """A proposal is sent twice; the second copy is refused, and then the first arrives and is accepted (I3).

    1. a proposes {a, b, c}; the connection breaks, and the request stays in a buffer. 2. c is fenced. 3. The next
    attempt is refused: c is not eligible. 4. c is unfenced in the same incarnation. 5. The first attempt arrives.
    """
    use_short_timeouts(d)
    actions: list[Action] = []
    at = 50
    while at < 4_000:
        a, b, c = d.rng.sample(d.brokers, 3)
        out = at + 150
        joins = out + d.timing.lag_ms * 17 // 10
        back = joins + d.rng.randint(350, 450)
        arrives = back - d.rng.randint(0, 12)
        actions += [
            *make_leader(at, a, b, c),
            hold_fetches(out, c, a, joins - out),
            act(joins - 200, "isolate_from_controllers", str(c), back - joins + 200, "both"),
            act(joins - 10, "hold", str(a), arrives - joins + 10, "controllers", "controller", "out"),
            act(joins + d.rng.randint(30, 80), "reset", str(a)),
        ]
        at = back + 200
    return Race(
        actions=actions, configs={"min.insync.replicas": "1"} | PLAIN_CONFIGS, clients=BUSY_CLIENTS, fault_ms=5_500
    )


def min_isr_raised_unseen(d: Draw) -> Race:
    """a drops c from the ISR before it learns that MinISR is now 3 (E8).

    1. c lags. 2. MinISR goes from 2 to 3, and a does not know. 3. a proposes {a, b}: with MinISR 2 it goes on
    committing records, with MinISR 3 c would join the ELR as if it were complete.
    """
    use_short_timeouts(d)
    lag = d.timing.lag_ms
    actions: list[Action] = []
    at = 50
    while at < 3_400:
        a, b, c = d.rng.sample(d.brokers, 3)
        out = at + 150
        raised = out + lag - d.rng.randint(10, 40)
        actions += [
            *make_leader(at, a, b, c),
            hold_fetches(out, c, a, lag * 2),
            act(raised - 10, "stale_metadata", str(a), lag * 7 // 10),
            act(raised, "set_config", TOPIC, 0, "min.insync.replicas", "3"),
            act(out + lag * 2 + 50, "set_config", TOPIC, 0, "min.insync.replicas", "2"),
        ]
        at = out + lag * 2 + 150
    return Race(actions=actions, configs={"min.insync.replicas": "2"} | PLAIN_CONFIGS, clients=BUSY_CLIENTS)


def recovery_of_all(d: Draw) -> Race:
    """Every replica comes back unclean, and the one that lost records comes back first (E5, E6).

    1. All processes die; b loses records. 2. b is back: it may not lead. 3. a is back, and no candidate is left that
    is known to be complete. 4. a and b are asked for their logs; a answers later, and only a holds everything.
    """
    use_short_timeouts(d)
    session = d.timing.session_ms
    actions: list[Action] = []
    at = 300
    while at < 3_000:
        a, b, c = d.rng.sample(d.brokers, 3)
        actions += [
            act(at, "crash", str(c), session * 2 + d.rng.randint(0, 400)),
            act(at + d.rng.randint(0, 30), "lossy_crash", str(b), d.rng.randint(20, 200)),
            act(at + d.rng.randint(0, 30), "crash", str(a), session + d.rng.randint(50, 300)),
        ]
        at += session * 2 + 900
    configs = {"min.insync.replicas": "2", "unclean.recovery.strategy": "balanced"}
    return Race(actions=actions, configs=configs | PLAIN_CONFIGS, clients=BUSY_CLIENTS, fault_ms=4_500)


ISR_RACES: tuple[RaceSetup, ...] = (
    RaceSetup(1, 3, False, answers_against_the_log),
    RaceSetup(1, 3, False, late_proposal),
    RaceSetup(1, 3, False, refused_and_accepted),
    RaceSetup(1, 3, False, min_isr_raised_unseen),
    RaceSetup(1, 3, False, recovery_of_all),
)
