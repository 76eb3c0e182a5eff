"""What a race is made of, and the actions and settings that several races share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from insync.sim.plans.draw import Draw, act
from insync.sim.plans.plan import Action, ClientPlan


@dataclass(slots=True)
class Race:
    """What a race wants of its plan; the swarm draws the rest as usual.

    A race that needs other timeouts than the drawn ones replaces `Draw.timing`.
    """

    actions: list[Action]
    configs: dict[str, str] = field(default_factory=dict)
    replication_factor: int = 3
    clients: tuple[ClientPlan, ...] = ()
    fault_ms: int = 4_000


@dataclass(frozen=True, slots=True)
class RaceSetup:
    """A race and the cluster that it runs in."""

    controllers: int
    brokers: int
    combined: bool
    race: Callable[[Draw], Race]


TOPIC = "t0"
PARTITION = "t0-0"

BUSY_CLIENTS: tuple[ClientPlan, ...] = (
    ClientPlan(client_id=-2, kind="producer", every_ms=15, acks=1),
    ClientPlan(client_id=-3, kind="producer", every_ms=25, acks=-1, in_flight=4),
    ClientPlan(client_id=-4, kind="consumer", every_ms=80),
    ClientPlan(client_id=-5, kind="lister", every_ms=60),
)
"""They write so often that there is always something new in the log."""

PLAIN_CONFIGS = {
    "flush.messages": "1000000",
    "flush.ms": "1000000",
    "segment.bytes": "1000000",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "unclean.leader.election.enable": "false",
}
"""Nothing is deleted or flushed, so that a power loss takes records."""


def make_leader(at: int, *replicas: int) -> list[Action]:
    """Reassign to `replicas` and elect the first of them."""
    return [act(at, "reassign", PARTITION, 0, *replicas), act(at + 12, "elect_preferred", PARTITION)]


def hold_fetches(at: int, follower: int, leader: int, duration_ms: int, direction: str = "out") -> Action:
    return act(at, "hold", str(follower), duration_ms, str(leader), "fetch", direction)


def use_short_timeouts(d: Draw) -> None:
    """Short sessions and lag, long request timeouts: the race does not wait long, and what it delays is not lost."""
    d.timing = replace(
        d.timing, session_ms=500, lag_ms=300, request_ms=1_500, quorum_fetch_ms=600, election_ms=300, rebalance_ms=0
    )
