"""Directed plans: races that chance alone seldom finds, told as a few timed actions with all their moments drawn.

The swarm decides where to look; these decide what to look at. One seed in four draws one of them: the small cluster it
needs, one topic set up for it, and the race itself, several times in a row with other timings. Each race is a function
of a `Draw` that returns what it wants of a plan.

A race that is added joins the later ones, which have seeds of their own: a seed that once found something keeps its
plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from insync.sim.motifs import Draw
from insync.sim.plan import Action, ClientPlan


@dataclass(slots=True)
class Race:
    """What a directed plan is made of; whatever is left at its default the swarm draws as usual.

    A race that needs other timeouts than the drawn ones changes those of its `Draw`.
    """

    actions: list[Action]
    configs: dict[str, str] = field(default_factory=dict)
    replication_factor: int = 3
    clients: tuple[ClientPlan, ...] = ()
    fault_ms: int = 4_000


@dataclass(frozen=True, slots=True)
class Setting:
    """The cluster that a race is run in."""

    controllers: int
    brokers: int
    combined: bool
    race: Callable[[Draw], Race]


TOPIC = "t0"
PARTITION = "t0-0"


_EVERY, _AT = 4, 3
_LATER_EVERY, _LATER_AT = 16, 12
_DAMAGE_AT = 4


def choose(seed: int) -> Setting | None:
    """Race after race, so that few seeds try them all; None for a seed that belongs to the swarm."""
    from insync.sim.races_isr import ISR_RACES
    from insync.sim.races_quorum import LATER_QUORUM_RACES, QUORUM_RACES
    from insync.sim.races_replication import REPLICATION_RACES
    from insync.sim.races_storage import DAMAGE_RACES, LATER_RACES, STORAGE_RACES

    if seed % _LATER_EVERY == _DAMAGE_AT:
        return DAMAGE_RACES[seed // _LATER_EVERY % len(DAMAGE_RACES)]
    if seed % _LATER_EVERY == _LATER_AT:
        later = (*LATER_RACES, *LATER_QUORUM_RACES)
        return later[seed // _LATER_EVERY % len(later)]
    races = (*REPLICATION_RACES, *ISR_RACES, *QUORUM_RACES, *STORAGE_RACES)
    return races[seed // _EVERY % len(races)] if seed % _EVERY == _AT else None
