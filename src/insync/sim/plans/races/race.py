"""What a race is made of, and the actions and settings that several races share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from insync.sim.plans.draw import Draw, act
from insync.sim.plans.plan import Action, ClientPlan


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

BUSY: tuple[ClientPlan, ...] = (
    ClientPlan(client_id=-2, kind="producer", every_ms=15, acks=1),
    ClientPlan(client_id=-3, kind="producer", every_ms=25, acks=-1, in_flight=4),
    ClientPlan(client_id=-4, kind="consumer", every_ms=80),
    ClientPlan(client_id=-5, kind="lister", every_ms=60),
)
"""Always something new in the log."""

PLAIN = {
    "flush.messages": "1000000",
    "flush.ms": "1000000",
    "segment.bytes": "1000000",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "unclean.leader.election.enable": "false",
}
"""Logs stay whole, and a crash of the machine takes records with it."""


def lead(at: int, *replicas: int) -> list[Action]:
    """The first of `replicas` leads them from now on."""
    return [act(at, "reassign", PARTITION, 0, *replicas), act(at + 12, "elect_preferred", PARTITION)]


def hold_fetches(at: int, follower: int, leader: int, duration_ms: int, direction: str = "out") -> Action:
    return act(at, "hold", str(follower), duration_ms, str(leader), "fetch", direction)


def brisk(d: Draw) -> None:
    """Short sessions and lag, patient requests: what a race waits for comes soon, what it holds back is not lost."""
    d.timing = replace(
        d.timing, session_ms=500, lag_ms=300, request_ms=1_500, quorum_fetch_ms=600, election_ms=300, rebalance_ms=0
    )
