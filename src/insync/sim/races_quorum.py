"""Races of the metadata quorum and of disks, for directed plans."""

from __future__ import annotations

from insync.sim.directed import PARTITION, Race, Setting
from insync.sim.motifs import Draw, act
from insync.sim.plan import Action


def votes_forgotten(d: Draw) -> Race:
    """Voters die and come back in the middle of an election, in which one vote per epoch decides (Q4)."""
    actions: list[Action] = []
    at = 200
    while at < 3_000:
        actions.append(act(at, "crash", "active-controller", d.timing.election_ms * 3))
        for _ in range(3):
            moment = at + d.timing.quorum_fetch_ms + d.rng.randint(0, d.timing.election_ms * 2)
            kind = d.rng.choice(("crash", "lossy_crash"))
            actions.append(act(moment, kind, str(d.rng.choice(d.voters)), d.rng.randint(1, 40)))
        at += d.rng.randint(900, 1_300)
    return Race(actions=actions)


def partition_metadata_under_failover(d: Draw) -> Race:
    """The active controller is cut off again and again while partitions keep changing (Q5)."""
    actions: list[Action] = []
    at = 200
    while at < 3_200:
        away = d.rng.randint(d.timing.election_ms, d.timing.quorum_fetch_ms * 3)
        actions.append(act(at, d.rng.choice(("isolate", "pause")), "active-controller", away, "both"))
        actions.append(act(at + d.rng.randint(5, 60), "crash", f"leader:{PARTITION}", d.rng.randint(20, 300)))
        at += d.rng.randint(400, 900)
    return Race(actions=actions)


QUORUM_RACES: tuple[Setting, ...] = (
    Setting(3, 3, False, votes_forgotten),
    Setting(3, 3, True, partition_metadata_under_failover),
)
