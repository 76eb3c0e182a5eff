"""The stage of a scenario: a simulated cluster without chance, and what its steps need to drive it and to look at it.

Every link has the same latency and every disk the same delay. Where the simulator would draw lots, the first and least
always comes up; so of what was not synced, a lossy crash leaves nothing at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from insync.metadata.partition import Partition
from insync.sansio import Effect, Event, Message, Note, OnResponse
from insync.sim.narration import picture
from insync.sim.narration.narrator import MINOR_NOTES, describe_note, newest_partition, notes_in_order
from insync.sim.plans.plan import Latency, NodePlan, Plan
from insync.sim.run import World
from insync.sim.workload.client import Client
from insync.wire.errors import ErrorCode

FIRST_CONTROLLER = 101
CLIENT_ID = -2
CLIENT_TIMEOUT_MS = 5_000
WAIT_TIMEOUT_MS = 20_000
PENDING = "pending"


class StepError(Exception):
    """A step that makes no sense; says what would be right."""


class Least(random.Random):
    """Draws the least of everything: no jitter, no luck."""

    def random(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class ObservedEvent:
    """Something that a node noted, or that somebody outside was told."""

    time_ms: int
    who: str
    what: str
    note: Note | None = None


class StillWorld(World):
    def _rng(self, part: str) -> random.Random:
        return Least()


class Stage:
    """What the steps of one scenario share. `out` is the text so far, `answers` what clients and operators heard."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.failed = False
        self.answers: dict[str, str] = {}
        self.observed: list[ObservedEvent] = []
        self.batches: dict[str, Any] = {}
        self.topics: list[str] = []
        self.held: dict[str, int] = {}
        self.removed = ExitStack()
        """Safeguards that the scenario does without; they come back when it is closed."""
        self.quiet = False
        self._world: World | None = None
        self._client: Client | None = None
        self._asked = 0

    # --- the cluster -------------------------------------------------------------------------------------------------

    def build(self, brokers: int, controllers: int, *, combined: bool) -> None:
        plan = _plan(brokers, controllers, combined=combined)
        self._world = world = StillWorld(plan)
        world.cluster.observers = (*world.cluster.observers, self)
        self._client = Client(CLIENT_ID, world.network, Least(), plan.brokers, CLIENT_TIMEOUT_MS)
        for node in plan.nodes:
            world.cluster.start(node.node_id)

    @property
    def world(self) -> World:
        if self._world is None:
            raise StepError("there is no cluster yet: begin with 'cluster brokers=3 controllers=1'")
        return self._world

    @property
    def built(self) -> bool:
        return self._world is not None

    @property
    def client(self) -> Client:
        if self._client is None:
            raise StepError("there is no cluster yet: begin with 'cluster brokers=3 controllers=1'")
        return self._client

    @property
    def now(self) -> int:
        return self.world.engine.now // 1_000

    def ask(self, node: int, request: Message, on_response: OnResponse, *, one_way: bool = False) -> None:
        """A client asks over a connection of its own, so that it is never one to a process that has died since."""
        self._asked += 1
        self.client.ask(node, request, on_response, one_way=one_way, channel=f"client {self._asked}")

    def note_answer(self, label: str) -> OnResponse:
        """What an operator is told, kept and printed when it comes."""
        self.answers[label] = PENDING

        def on_response(response: Message | None, _now: int) -> None:
            errors = self.world.operator.errors_of(response)
            told = next((error.name for error in errors if error is not ErrorCode.none), "none")
            self.answers[label] = told
            self.tell("operator", f"{label}: {'done' if told == 'none' else told}")

        return on_response

    # --- telling -----------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self.out.append(f"    {text}")

    def tell(self, who: str, what: str, note: Note | None = None) -> None:
        """Something that happened at this moment."""
        self.observed.append(ObservedEvent(self.now, who, what, note))
        if not self.quiet and (note is None or note.kind not in MINOR_NOTES):
            self.say(f"{self.now:>6} ms  {who}: {what}")

    def fail(self, text: str) -> None:
        self.say(text)
        self.failed = True

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        for note in notes_in_order(effects):
            self.tell(f"node {node_id}", describe_note(note), note)

    def node_started(self, node_id: int) -> None:
        """Told by the step that did it."""

    def node_ends(self, node_id: int) -> None:
        """Told by the step that did it."""

    def node_crashed(self, node_id: int, lost: dict[str, tuple[int, int]] | None) -> None:
        for path, (before, after) in sorted((lost or {}).items()):
            if path.endswith(".log") and "__cluster_metadata" not in path:
                self.tell(f"node {node_id}", f"{path.split('/')[-2]} lost {before - max(after, 0)} bytes")

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        self.world.advance(self.now + milliseconds)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self.now + WAIT_TIMEOUT_MS
        while not condition():
            if self.now >= deadline or self.world.violation is not None:
                self.fail(f"NEVER CAME TRUE: {what}")
                return
            self.advance(1)

    # --- finding -----------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Partition | None:
        """The newest_partition metadata that a running node has of it; None while none has any."""
        known = [f"{topic}-0" for topic in self.topics]
        if "-" not in name:
            raise StepError(f"'{name}' is no partition: write TOPIC-INDEX, such as t-0")
        if name not in known:
            raise StepError(f"there is no partition {name}: known are {', '.join(known) or 'none'}")
        return newest_partition(self.world.cluster, name)

    def partition(self, name: str) -> Partition:
        partition = self.find(name)
        if partition is None:
            raise StepError(f"no running node knows of {name} now")
        return partition

    def node_id(self, word: str) -> int:
        """A node by its number; `controller` is the active one."""
        if word == "controller":
            return self.active_controller()
        if not word.isdigit() or int(word) not in self.world.cluster.hosts:
            known = ", ".join(map(str, self.world.cluster.hosts))
            raise StepError(f"there is no node '{word}': the nodes are {known}, and 'controller' is the active one")
        return int(word)

    def node_ids(self, word: str) -> tuple[int, ...]:
        """Nodes separated by commas, or all `brokers`, or all `controllers`."""
        plan = self.world.plan
        groups = {"controllers": plan.voters, "brokers": plan.brokers}
        return groups.get(word) or tuple(self.node_id(part) for part in word.split(","))

    def active_controller(self) -> int:
        active = self.world.faults.active_controller()
        if active is None:
            raise StepError("no controller is active now")
        return active

    def running(self, node_id: int) -> Any:
        node = self.world.cluster.node(node_id)
        if node is None:
            raise StepError(f"node {node_id} is down")
        return node

    def brokers(self) -> dict[int, Any]:
        """The registrations, as the node has them that knows most."""
        images = [node.image for node in self.world.cluster.nodes()]
        return max(images, key=lambda image: image.offset).brokers if images else {}

    def picture(self, name: str) -> list[str]:
        return picture.partition_lines(self.world.cluster, self.partition(name))

    def close(self) -> None:
        self.removed.close()


def _plan(brokers: int, controllers: int, *, combined: bool) -> Plan:
    broker_ids = range(1, brokers + 1)
    if combined:
        nodes = [NodePlan(node_id=b, roles=("broker", "controller")) for b in broker_ids]
    else:
        voters = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        nodes = [NodePlan(node_id=c, roles=("controller",)) for c in voters]
        nodes += [NodePlan(node_id=b, roles=("broker",)) for b in broker_ids]
    return Plan(
        seed=0,
        nodes=tuple(nodes),
        topics=(),
        clients=(),
        latency=Latency(base_us=1_000, jitter_us=0, spike_every=0, spike_us=0, local_us=100),
        disk_us=(500, 500),
    )
