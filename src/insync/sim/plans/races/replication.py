"""Races of leaders and followers: fetches and logs of an earlier leader epoch or incarnation.

Each is described in numbered steps with three brokers a, b and c, of which a leads.
"""

from __future__ import annotations

from dataclasses import replace

from insync.sim.plans.draw import Draw, act
from insync.sim.plans.plan import Action, ClientPlan
from insync.sim.plans.races.race import (
    BUSY_CLIENTS,
    PARTITION,
    PLAIN_CONFIGS,
    Race,
    RaceSetup,
    hold_fetches,
    make_leader,
    use_short_timeouts,
)


def leadership_there_and_back(d: Draw) -> Race:
    """A fetch response is delayed while leadership moves to another replica and back (F5, F6)."""
    actions: list[Action] = []
    at = 300
    while at < 3_200:
        order = d.rng.sample(d.brokers, 3)
        actions.append(act(at, "cut", f"follower:{PARTITION}:{d.rng.randrange(2)}", 350, f"leader:{PARTITION}", "in"))
        for i, first in enumerate((order[0], order[1], order[0])):
            rest = [broker for broker in order if broker != first]
            moment = at + 30 + i * d.rng.randint(40, 110)
            actions += [
                act(moment, "reassign", PARTITION, 0, first, *rest),
                act(moment + d.rng.randint(10, 30), "elect_preferred", PARTITION),
            ]
        at += d.rng.randint(700, 1_000)
    return Race(actions=actions, configs={"min.insync.replicas": d.rng.choice(("1", "2"))})


def deposed_and_back(d: Draw) -> Race:
    """What a knows of c dates from before c followed another leader (F3, T1, T3).

    1. b is behind, c is not, and a knows c's LEO. c's next fetch, from its LEO, is delayed.
    2. b leads, and c truncates its log to b's. a does not learn of it.
    3. a leads again; b catches up. 4. c's old fetch arrives. c holds less than it says, and less than a knew.
    """
    use_short_timeouts(d)
    actions: list[Action] = []
    at = 100
    while at < 3_500:
        a, b, c = d.rng.sample(d.brokers, 3)
        behind = at + 150
        away = behind + d.rng.randint(60, 120)
        back = away + d.rng.randint(60, 110)
        actions += [
            *make_leader(at, a, b, c),
            hold_fetches(behind, b, a, away - behind + 30),
            hold_fetches(away - d.rng.randint(2, 30), c, a, back - away + d.rng.randint(60, 160)),
            act(away - 5, "stale_metadata", str(a), back - away + 30),
            *make_leader(away, b, a, c),
            *make_leader(back, a, b, c),
        ]
        at = back + 350
    return Race(
        actions=actions, configs={"min.insync.replicas": d.rng.choice(("1", "2"))} | PLAIN_CONFIGS, clients=BUSY_CLIENTS
    )


def removed_and_back(d: Draw) -> Race:
    """c leaves the replica set and comes back empty; a sees both as one change, and remembers c's old LEO (I2, M2).

    1. a knows that c holds everything, and gets no more metadata. 2. c is removed and deletes its log. 3. c is added
    again. 4. a learns of both at once, before a fetch of c shows that c is empty.
    """
    use_short_timeouts(d)
    actions: list[Action] = []
    at = 100
    while at < 3_300:
        a, b, c = d.rng.sample(d.brokers, 3)
        gone = at + d.rng.randint(250, 400)
        back = gone + d.rng.randint(30, 90)
        actions += [
            *make_leader(at, a, b, c),
            act(gone - 5, "stale_metadata", str(a), back - gone + d.rng.randint(25, 60)),
            act(gone, "reassign", PARTITION, 0, a, b),
            hold_fetches(gone + d.rng.randint(5, 30), c, a, back - gone + d.rng.randint(60, 120)),
            act(back, "reassign", PARTITION, 0, a, b, c),
        ]
        at = back + 400
    slow = ClientPlan(client_id=-2, kind="producer", every_ms=d.rng.choice((200, 350)), acks=-1)
    clients = (slow, ClientPlan(client_id=-3, kind="consumer", every_ms=80))
    return Race(
        actions=actions, configs={"min.insync.replicas": d.rng.choice(("1", "2"))} | PLAIN_CONFIGS, clients=clients
    )


def fetch_of_the_last_incarnation(d: Draw) -> Race:
    """c loses records in a power loss; a fetch that it sent before arrives when it is up again (F4).

    1. c's fetch, from its LEO, is delayed. 2. c loses power and some records; nothing is committed without it
    (MinISR 3). 3. c is fenced, registers, and is unfenced. 4. Its old fetch arrives before it has fetched again.
    """
    use_short_timeouts(d)
    d.timing = replace(d.timing, fetch_sessions=d.rng.choice((0, 0, 1_000)))
    actions: list[Action] = []
    at = 100
    while at < 3_200:
        a, b, c = d.rng.sample(d.brokers, 3)
        dies = at + d.rng.randint(250, 320)
        back = d.timing.session_ms + d.rng.randint(150, 450)
        actions += [
            *make_leader(at, a, b, c),
            hold_fetches(dies - d.rng.randint(20, 50), c, a, back + 50),
            act(dies + 30, "lossy_crash", str(c), d.rng.randint(5, 60)),
            hold_fetches(dies + 40, c, a, back + 60, "in"),
        ]
        at = dies + back + 300
    return Race(
        actions=actions, configs={"min.insync.replicas": "3"} | PLAIN_CONFIGS, clients=BUSY_CLIENTS, fault_ms=4_500
    )


REPLICATION_RACES: tuple[RaceSetup, ...] = (
    RaceSetup(1, 3, False, leadership_there_and_back),
    RaceSetup(1, 3, False, deposed_and_back),
    RaceSetup(1, 3, False, removed_and_back),
    RaceSetup(1, 3, False, fetch_of_the_last_incarnation),
)
