"""Races of leaders, followers and the controller, for directed plans."""

from __future__ import annotations

from insync.sim.directed import PARTITION, Race, Setting
from insync.sim.motifs import Draw, act
from insync.sim.plan import Action


def leadership_there_and_back(d: Draw) -> Race:
    """A follower's fetch answer is held up while leadership goes to another replica and back (F5, F6)."""
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


REPLICATION_RACES: tuple[Setting, ...] = (Setting(1, 3, False, leadership_there_and_back),)
