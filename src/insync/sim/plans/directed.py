"""Which seeds get a directed plan, and which race it runs.

Chance alone seldom finds some races, so one seed in four runs one of them on purpose: in the small cluster that the
race needs, with one topic configured for it, several times in a row with different timings.

A new race joins the later ones, which have seeds of their own, so that a seed that once found something keeps its plan.
"""

from __future__ import annotations

from insync.sim.plans.races.isr import ISR_RACES
from insync.sim.plans.races.quorum import LATER_QUORUM_RACES, QUORUM_RACES
from insync.sim.plans.races.race import RaceSetup
from insync.sim.plans.races.replication import REPLICATION_RACES
from insync.sim.plans.races.storage import DAMAGE_RACES, LATER_RACES, STORAGE_RACES

_EVERY, _AT = 4, 3
_LATER_EVERY, _LATER_AT = 16, 12
_DAMAGE_AT = 4


def choose_race(seed: int) -> RaceSetup | None:
    """The race of that seed, in turn, so that few seeds try them all; None if the seed belongs to the swarm."""
    if seed % _LATER_EVERY == _DAMAGE_AT:
        return DAMAGE_RACES[seed // _LATER_EVERY % len(DAMAGE_RACES)]
    if seed % _LATER_EVERY == _LATER_AT:
        later = (*LATER_RACES, *LATER_QUORUM_RACES)
        return later[seed // _LATER_EVERY % len(later)]
    races = (*REPLICATION_RACES, *ISR_RACES, *QUORUM_RACES, *STORAGE_RACES)
    return races[seed // _EVERY % len(races)] if seed % _EVERY == _AT else None
