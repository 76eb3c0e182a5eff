"""A plan: everything that a seed decides about a run, as frozen data.

A plan leaves only small delays to chance (also drawn from its seed). Faults and operator actions are an explicit list,
each with its own end, so that shrinking a run means leaving some out. A plan converts to JSON and back.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Self

Value = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Most messages take little more than `base_us`, some `jitter_us` longer, one in `spike_every` much longer."""

    base_us: int = 300
    jitter_us: int = 2_000
    spike_every: int = 200
    spike_us: int = 60_000
    local_us: int = 40


DEFAULT_LATENCY = Latency()

SEGMENT_DAMAGE = ("directory_removed", "last_segment_emptied", "last_segment_cut", "middle_segment_removed")
SMALL_FILE_DAMAGE = ("identity_removed", "epochs_removed", "checkpoints_removed", "clean_file_removed")
DAMAGE_KINDS = (*SEGMENT_DAMAGE, *SMALL_FILE_DAMAGE)
"""What `damage` does to the files of a partition while its node is down: to its segments, or to the small files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A fault or operation at `at_ms` of the fault phase, undone after `duration_ms`.

    `target` is resolved when the action happens: a node id ("3"), "leader:t0-1", "follower:t0-1:0" (the first replica
    that does not lead), "active-controller", a name that an earlier action assigned ("A"), "other-voter:A:B" (the first
    voter that is neither A nor B); for operator actions a topic ("t0") or a partition ("t0-1").
    """

    at_ms: int
    kind: str
    target: str = ""
    duration_ms: int = 0
    value: tuple[Value, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.at_ms / 1000:.3f}s {self.kind}", self.target, *map(str, self.value)]
        if self.duration_ms:
            parts.append(f"for {self.duration_ms} ms")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    node_id: int
    roles: tuple[str, ...]
    skew_ms: int = 0
    drift_ppm: int = 0
    wall_offset_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()
    replicas: tuple[int, ...] = ()
    """The replicas of every partition; if empty, the controller places them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlan:
    """A client; its id is negative, to tell it from nodes."""

    client_id: int
    kind: str
    every_ms: int
    acks: int = -1
    idempotent: bool = False
    max_records: int = 1
    in_flight: int = 1
    value_bytes: int = 0
    """Extra bytes per value, so that segments roll sooner; of a member, the number of its group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The timeouts of a real cluster, sped up tenfold or more."""

    heartbeat_ms: int = 100
    session_ms: int = 600
    lag_ms: int = 400
    election_ms: int = 200
    quorum_fetch_ms: int = 400
    quorum_wait_ms: int = 150
    fetch_wait_ms: int = 100
    fetch_sessions: int = 1_000
    request_ms: int = 800
    recovery_wait_ms: int = 200
    rebalance_ms: int = 0
    shutdown_ms: int = 1_500
    checkpoint_ms: int = 500
    flush_check_ms: int = 100
    retention_check_ms: int = 500
    snapshot_records: int = 40
    slice_records: int = 200
    apply_records: int = 500
    fetch_bytes: int = 2_000
    """How many bytes a follower fetches of one partition at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    nodes: tuple[NodePlan, ...]
    topics: tuple[TopicPlan, ...]
    clients: tuple[ClientPlan, ...]
    timing: Timing = Timing()
    latency: Latency = DEFAULT_LATENCY
    disk_us: tuple[int, int] = (100, 3_000)
    actions: tuple[Action, ...] = ()
    has_authorizer: bool = False
    """Nodes check the ACLs of the metadata log. Nodes and the operator are super users, clients may use all topics."""
    setup_ms: int = 800
    fault_ms: int = 6_000
    fault_steps: int = 0
    """If not 0, the fault phase also ends after about this many node steps."""
    convergence_ms: int = 20_000
    max_steps: int = 60_000
    """The limit for runs that never end, far above what a run takes."""

    def with_step_limit(self, steps: int) -> Self:
        """The same plan, healed after about that many node steps."""
        return dataclasses.replace(self, fault_steps=steps)

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(node.node_id for node in self.nodes if "controller" in node.roles)

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(node.node_id for node in self.nodes if "broker" in node.roles)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Every topic that exists at some time of the run."""
        created = [action.target for action in self.actions if action.kind == "create_topic"]
        return tuple(dict.fromkeys([topic.name for topic in self.topics] + created))

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        data = json.loads(text)
        return cls(
            **{
                **data,
                "nodes": tuple(_from_dict(NodePlan, item) for item in data["nodes"]),
                "topics": tuple(_from_dict(TopicPlan, item) for item in data["topics"]),
                "clients": tuple(_from_dict(ClientPlan, item) for item in data["clients"]),
                "actions": tuple(_from_dict(Action, item) for item in data["actions"]),
                "timing": Timing(**data["timing"]),
                "latency": Latency(**data["latency"]),
                "disk_us": tuple(data["disk_us"]),
            }
        )


def _from_dict(kind: Any, data: dict[str, Any]) -> Any:
    return kind(**{name: _to_tuples(value) for name, value in data.items()})


def _to_tuples(value: Any) -> Any:
    return tuple(_to_tuples(item) for item in value) if isinstance(value, list) else value
