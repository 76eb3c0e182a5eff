"""Races of the metadata quorum. A is the controller that is active at first, B and C are other voters."""

from __future__ import annotations

from insync.sim.plans.draw import Draw, act
from insync.sim.plans.plan import Action
from insync.sim.plans.races.race import PARTITION, TOPIC, Race, RaceSetup


def colliding_candidates(d: Draw) -> Race:
    """Two voters that cannot reach each other are candidates in one epoch; each vote may go to one of them (Q4).

    1. All voters hear from A at the same moment, and A dies. 2. D and E restart, so that they know no leader and do not
    stand yet. 3. The fetch timeouts of B and C expire together. Links are slow: each wins its pre-vote before it hears
    of the other's epoch. 4. Both ask D and E for their votes.
    """
    actions: list[Action] = []
    at = 200
    while at < 3_200:
        fetch, election = d.timing.quorum_fetch_ms, d.timing.election_ms
        stand = at + fetch
        actions += [
            *_name_voters(at),
            act(at, "name", "other-voter:A:B:C", 0, "D"),
            act(at, "name", "other-voter:A:B:C:D", 0, "E"),
        ]
        actions += _change_configs(d, at, 5, 1)
        actions += [act(stand - 50, "slow_links", str(voter), 250, d.rng.randint(10, 25)) for voter in d.voters]
        actions += [
            act(at + d.rng.randint(25, 50), "crash", "A", fetch + election),
            act(stand - 60, "cut", "B", 300, "C", "both"),
            act(stand - d.rng.randint(50, 150), "crash", "D", 5),
            act(stand - d.rng.randint(50, 150), "crash", "E", 5),
        ]
        at = stand + election * 3 + d.rng.randint(200, 400)
    return Race(actions=actions, fault_ms=at)


def forgotten_votes(d: Draw) -> Race:
    """All voters lose power just after an election: their logs do not show it, only their quorum-state files do (Q4).

    1. Disks are slow, so that the record that opens an epoch stays unsynced. 2. A leader is elected. 3. All voters lose
    power, and come back. 4. The next election must not be in the same epoch.
    """
    actions: list[Action] = []
    at = 200
    while at < 3_400:
        slow = d.timing.election_ms
        elected = at + d.timing.quorum_fetch_ms + d.rng.randint(40, d.timing.election_ms)
        actions += [act(at + 10, "slow_disk", str(voter), elected - at + 30, slow) for voter in d.voters]
        actions.append(act(at + 10, "crash", "active-controller", d.rng.randint(5, d.timing.quorum_fetch_ms)))
        actions += [
            act(elected + d.rng.randint(0, 30), "lossy_crash", str(voter), d.rng.randint(1, 40)) for voter in d.voters
        ]
        at = elected + d.timing.election_ms * 3 + d.rng.randint(200, 400)
    return Race(actions=actions, fault_ms=at)


def short_log_stands(d: Draw) -> Race:
    """A voter that lacks committed entries asks for votes, and no voter knows of a current leader (Q4).

    1. B cannot fetch; A and C go on committing. 2. A dies, C restarts and forgets that it heard from A. 3. B, whose
    fetch timeout has long expired, asks C for its vote.
    """
    actions: list[Action] = []
    at = 200
    while at < 3_000:
        deaf = d.timing.quorum_fetch_ms + d.timing.election_ms + d.rng.randint(0, 200)
        actions += [*_name_voters(at), act(at, "stale_metadata", "B", deaf)]
        actions += _change_configs(d, at + 10, deaf - 40, 6)
        actions += [
            act(at + deaf - 20, "crash", "A", d.timing.election_ms * 3),
            act(at + deaf - 15, "crash", "C", d.rng.randint(1, 20)),
        ]
        at += deaf + d.timing.election_ms * 4 + d.rng.randint(100, 300)
    return Race(actions=actions, fault_ms=at)


def counted_too_early(d: Draw) -> Race:
    """An entry of an earlier epoch is on a majority and is overwritten all the same: figure 8 of the Raft paper (Q5).

    1. A is cut off from B and C, which receive each other's votes and nothing else. Brokers reach A: it appends X.
    2. One of the two, L, is elected, opens its epoch in its own log, and dies before the other, F, has that record.
    3. A is reachable again. Its log is flushed slowly. F elects it, and copies X and the record that opens A's new
       epoch. On disk A has X, but not that record.
    4. X is on a majority, the record is not. A leader that counts replicas now takes X for committed.
    5. A loses power and with it the record, F dies. L is back, its last epoch is newer than that of X: A votes for it.
    """
    actions: list[Action] = []
    at, timing = 200, d.timing
    for _ in range(2):
        elected = at + timing.quorum_fetch_ms + d.rng.randint(120, 200)
        again = elected + timing.quorum_fetch_ms + d.rng.randint(220, 380)
        actions += [
            *_name_voters(at),
            act(at, "cut", "A", elected + 10 - at, "B", "both"),
            act(at, "cut", "A", elected + 10 - at, "C", "both"),
            act(at, "stale_metadata", "B", elected + 10 - at),
            *_change_configs(d, at + 5, 80, 4),
            act(elected, "name", "active-controller", 0, "L"),
            act(elected, "name", "other-voter:A:L", 0, "F"),
            act(elected, "crash", "L", again + 20 - elected),
            act(elected, "slow_flush", "A", again + 20 - elected, again - elected),
            act(again, "lossy_crash", "A", 20),
            act(again, "crash", "F", timing.election_ms * 4),
        ]
        at = again + timing.election_ms * 5
    return Race(actions=actions, fault_ms=at)


def acknowledged_before_synced(d: Draw) -> Race:
    """Voters lose power while the entries that they agreed on wait for slow disks (Q4)."""
    actions: list[Action] = []
    at = 200
    while at < 3_400:
        slow, moment = d.rng.randint(100, 250), at + d.rng.randint(120, 300)
        actions += [act(at, "slow_disk", str(voter), moment - at, slow) for voter in d.voters]
        actions += _change_configs(d, at + 10, moment - at - 20, 8)
        actions += [act(moment, "lossy_crash", str(voter), d.rng.randint(1, 60)) for voter in d.voters]
        at = moment + d.timing.election_ms * 3 + d.rng.randint(100, 400)
    return Race(actions=actions, fault_ms=at)


def deposed_controller(d: Draw) -> Race:
    """The active controller is cut off from the other voters but not from brokers, and goes on deciding (Q2, Q5)."""
    actions: list[Action] = []
    at = 200
    while at < 3_000:
        away = d.rng.randint(d.timing.quorum_fetch_ms, d.timing.quorum_fetch_ms * 5 // 2)
        actions += [*_name_voters(at), act(at, "cut", "A", away, "B", "both"), act(at, "cut", "A", away, "C", "both")]
        actions += _change_configs(d, at + 5, away, 6)
        actions.append(act(at + d.rng.randint(5, 60), "crash", f"leader:{PARTITION}", d.rng.randint(20, 300)))
        at += away + d.rng.randint(200, 500)
    return Race(actions=actions, fault_ms=at)


def damaged_voter(d: Draw) -> Race:
    """One voter is down while the other two commit; then one of these loses synced entries and the other crashes (Q8).

    The two that are left are a majority, and neither holds what was committed.
    """
    actions: list[Action] = []
    at = 300
    while at < 4_000:
        committed = at + d.rng.randint(150, 400)
        away = d.timing.election_ms * d.rng.randint(4, 8)
        damage = d.rng.choice(("log", "log", "log-tail", "directory", "snapshots", "quorum-state"))
        actions += [
            *_name_voters(at),
            act(at, "crash", "C", committed + 5 - at),
            *_change_configs(d, at + 5, committed - at - 40, 6),
            act(committed, "damage_metadata", "B", d.rng.randint(1, 30), damage),
            act(committed + d.rng.randint(0, 3), "crash", "A", away),
        ]
        at = committed + away + d.timing.election_ms * 4
    return Race(actions=actions, fault_ms=at)


def _name_voters(at: int) -> list[Action]:
    """Give the voters their names."""
    return [
        act(at, "name", "active-controller", 0, "A"),
        act(at, "name", "other-voter:A", 0, "B"),
        act(at, "name", "other-voter:A:B", 0, "C"),
    ]


def _change_configs(d: Draw, at: int, within: int, count: int) -> list[Action]:
    """Config changes without effect, so that the active controller has something to decide."""
    moments = sorted(at + d.rng.randint(0, max(1, within)) for _ in range(count))
    return [act(moment, "set_config", TOPIC, 0, "max.message.bytes", 1_000_000 + i) for i, moment in enumerate(moments)]


QUORUM_RACES: tuple[RaceSetup, ...] = (
    RaceSetup(5, 3, False, colliding_candidates),
    RaceSetup(3, 3, False, forgotten_votes),
    RaceSetup(3, 3, False, short_log_stands),
    RaceSetup(3, 3, False, counted_too_early),
    RaceSetup(3, 3, False, acknowledged_before_synced),
    RaceSetup(3, 3, False, deposed_controller),
)

LATER_QUORUM_RACES: tuple[RaceSetup, ...] = (RaceSetup(3, 3, False, damaged_voter),)
