"""Directed plans: races that chance alone seldom finds, told as a few timed actions with all their moments drawn.

The swarm decides where to look; these decide what to look at. One seed in four draws one of them: the small cluster it
needs, one topic set up for it, and the race itself, several times in a row with other timings. Each race is a function
of a `Draw` that returns what it wants of a plan.

A race that is added joins the later ones, which have seeds of their own: a seed that once found something keeps its
plan.
"""

from __future__ import annotations

from insync.sim.plans.races.isr import ISR_RACES
from insync.sim.plans.races.quorum import LATER_QUORUM_RACES, QUORUM_RACES
from insync.sim.plans.races.race import Setting
from insync.sim.plans.races.replication import REPLICATION_RACES
from insync.sim.plans.races.storage import DAMAGE_RACES, LATER_RACES, STORAGE_RACES

_EVERY, _AT = 4, 3
_LATER_EVERY, _LATER_AT = 16, 12
_DAMAGE_AT = 4


def choose(seed: int) -> Setting | None:
    """Race after race, so that few seeds try them all; None for a seed that belongs to the swarm."""
    if seed % _LATER_EVERY == _DAMAGE_AT:
        return DAMAGE_RACES[seed // _LATER_EVERY % len(DAMAGE_RACES)]
    if seed % _LATER_EVERY == _LATER_AT:
        later = (*LATER_RACES, *LATER_QUORUM_RACES)
        return later[seed // _LATER_EVERY % len(later)]
    races = (*REPLICATION_RACES, *ISR_RACES, *QUORUM_RACES, *STORAGE_RACES)
    return races[seed // _EVERY % len(races)] if seed % _EVERY == _AT else None
