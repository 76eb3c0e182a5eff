"""Runs that once showed a bug, and which one. They run on every change.

Each is kept as a plan in `corpus/`, named after the seed that drew it: when the swarm changes, a seed draws another
plan.
"""

from pathlib import Path

from insync.sim.plans.plan import Plan

DIRECTORY = Path(__file__).parent / "corpus"

CORPUS: dict[int, str] = {
    7: "the checker forgot that a crash was lossy when another crash followed",
    8: "a controller proposed in the very step in which its quorum had resigned",
    24: "S10 took a replica set that existed for one batch of metadata for one that never was",
    151: "the checker forgot that a crash was lossy when another crash followed",
    185: "an unclean winner whose whole log retention had deleted",
    341: "a replica shared with an unclean winner what an earlier one had given up, and was asked to match all of it",
    501: "recovery preferred a shorter log to a complete one whose records had all been deleted (E6)",
    514: "a replica that parted in one unclean election was asked to match after the next",
    801: "a controller that was cut off when it was elected led for longer than S12 allows by what a write took",
    1030: "S12 did not know that a leader is heard of only once its election is on disk",
    1064: "L10 counted an answer that was on its way when the leader resigned",
    1101: "an opening fetch that arrived late took the follower's partitions out of its session (L6)",
    1142: "a replica that parted in one unclean election was asked to match after the next",
    1240: "S9 did not see a high watermark that a leader advanced in the very step in which it was replaced",
    1357: "a fetch outlived its sender: S9 did not know that the dead replica held what it then committed",
    1376: "S10 asked for MinISR members after an unclean election, whose winner alone vouched for its log",
    1386: "a lossy crash undid a cut that followed an unclean election, and S2 knew nothing of it",
    1663: "an epoch without records, left out when a clean log was opened but not on disk, came back later (S3)",
    1818: "a fetch outlived its sender: S9 did not know that the dead replica held what it then committed",
    2650: "retention took from a replaced leader's log all that it shared with an unclean winner, and S2 saw agreement",
    5023: "a late registration of a dead incarnation left the live one with a stale epoch (L1)",
    5031: "an operator's unclean election, forwarded in an envelope, was not recognised",
    5063: "a late registration of a dead incarnation left the live one with a stale epoch (L1)",
}


def read_plan(seed: int) -> Plan:
    return Plan.from_json((DIRECTORY / f"{seed}.json").read_text())
