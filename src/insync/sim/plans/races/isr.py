"""Races about who is in sync, for directed plans: proposals, answers and the metadata log overtake each other.

Each is told as numbered steps by three brokers a, b and c, a leading.
"""

from __future__ import annotations

from dataclasses import replace

from insync.sim.plans.draw import Draw, act
from insync.sim.plans.plan import Action
from insync.sim.plans.races.race import BUSY, PLAIN, TOPIC, Race, Setting, brisk, hold_fetches, lead


def answers_against_the_log(d: Draw) -> Race:
    """Two followers come back one after the other, and a hears of it in the wrong order or not at all (I3, M3).

    1. b and c have left the ISR. 2. b joins; a reads the record, and the log's word that it is committed is held up.
    3. c joins, and stops fetching. 4. a, which knows of both from the answers, learns from the log that 2 is committed.
    Or: the answer to 3 is lost, and the next attempt is told that the partition has moved on.
    """
    brisk(d)
    d.timing = replace(d.timing, quorum_fetch_ms=1_000)
    actions: list[Action] = []
    at, turn = 50, d.rng.randrange(2)
    while at < 3_000:
        a, b, c = d.rng.sample(d.brokers, 3)
        out = at + 150
        joins = out + d.timing.lag_ms * 17 // 10
        later = joins + d.rng.randint(90, 140)
        actions += [
            *lead(at, a, b, c),
            hold_fetches(out, b, a, joins - out),
            hold_fetches(out, c, a, later - out),
            *(_log_is_late(d, a, c, joins, later) if turn else _answer_is_lost(d, a, later)),
        ]
        at, turn = later + (700 if turn else 350), 1 - turn
    return Race(actions=actions, configs={"min.insync.replicas": d.rng.choice(("1", "2"))} | PLAIN, clients=BUSY)


def _log_is_late(d: Draw, a: int, c: int, joins: int, later: int) -> list[Action]:
    """A slow disk keeps a record apart from the word that it is committed. Were c heard from, it would join again."""
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
    """a's proposal to take c back arrives when what it says of b or c is no longer so (I4, I6, B8).

    1. c has caught up, and a's proposal {a, b, c} is held up. 2. c is fenced; or c's machine loses records and c comes
    back in another uptime; or b is fenced, misses records, and comes back; or a itself is in its next uptime.
    3. The proposal arrives.
    """
    brisk(d)
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
            *lead(at, a, b, c),
            hold_fetches(out, c, a, joins - out),
            act(joins - 10, "hold", str(a), arrives - joins, "controllers", "controller", "out"),
            hold_fetches(trouble, b if turn == 2 else c, a, arrives - trouble + 60),
            troubles[turn],
        ]
        at = arrives + 250
    return Race(actions=actions, configs={"min.insync.replicas": "1"} | PLAIN, clients=BUSY, fault_ms=at)


def refused_and_accepted(d: Draw) -> Race:
    """A proposal is sent twice; the second copy is refused, and then the first arrives and is accepted (I3).

    1. a proposes {a, b, c}; the connection breaks, and the request stays in some buffer. 2. c is fenced. 3. The next
    attempt is refused: c is not eligible. 4. c is unfenced in the same uptime. 5. The first attempt arrives.
    """
    brisk(d)
    actions: list[Action] = []
    at = 50
    while at < 4_000:
        a, b, c = d.rng.sample(d.brokers, 3)
        out = at + 150
        joins = out + d.timing.lag_ms * 17 // 10
        back = joins + d.rng.randint(350, 450)
        arrives = back - d.rng.randint(0, 12)
        actions += [
            *lead(at, a, b, c),
            hold_fetches(out, c, a, joins - out),
            act(joins - 200, "isolate_from_controllers", str(c), back - joins + 200, "both"),
            act(joins - 10, "hold", str(a), arrives - joins + 10, "controllers", "controller", "out"),
            act(joins + d.rng.randint(30, 80), "reset", str(a)),
        ]
        at = back + 200
    return Race(actions=actions, configs={"min.insync.replicas": "1"} | PLAIN, clients=BUSY, fault_ms=5_500)


def min_isr_raised_unseen(d: Draw) -> Race:
    """a drops c from the ISR while it does not know yet that three replicas are asked for (E8).

    1. c lags. 2. MinISR goes from 2 to 3, which a does not hear of. 3. a proposes {a, b}: at 2 records go on being
    committed, at 3 c would be taken for complete.
    """
    brisk(d)
    lag = d.timing.lag_ms
    actions: list[Action] = []
    at = 50
    while at < 3_400:
        a, b, c = d.rng.sample(d.brokers, 3)
        out = at + 150
        raised = out + lag - d.rng.randint(10, 40)
        actions += [
            *lead(at, a, b, c),
            hold_fetches(out, c, a, lag * 2),
            act(raised - 10, "stale_metadata", str(a), lag * 7 // 10),
            act(raised, "set_config", TOPIC, 0, "min.insync.replicas", "3"),
            act(out + lag * 2 + 50, "set_config", TOPIC, 0, "min.insync.replicas", "2"),
        ]
        at = out + lag * 2 + 150
    return Race(actions=actions, configs={"min.insync.replicas": "2"} | PLAIN, clients=BUSY)


def recovery_of_all(d: Draw) -> Race:
    """Every replica comes back unclean, one with less than it had, and that one first (E5, E6).

    1. All processes die; b's machine loses records. 2. b is back: it may not lead. 3. a is back, and with it no
    candidate is left. 4. a and b are asked; a answers later, and only a holds everything.
    """
    brisk(d)
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
    return Race(actions=actions, configs=configs | PLAIN, clients=BUSY, fault_ms=4_500)


ISR_RACES: tuple[Setting, ...] = (
    Setting(1, 3, False, answers_against_the_log),
    Setting(1, 3, False, late_proposal),
    Setting(1, 3, False, refused_and_accepted),
    Setting(1, 3, False, min_isr_raised_unseen),
    Setting(1, 3, False, recovery_of_all),
)
