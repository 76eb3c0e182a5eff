"""A simulated cluster that Python code drives step by step, and that returns values.

    from insync.sim import Simulation

    sim = Simulation(brokers=3, seed=1)
    sim.create_topic("t", replication_factor=3, min_insync_replicas=2)
    sim.produce("t", 0, b"hello")              # ProduceOutcome(offset=0)
    sim.crash(sim.partition("t", 0).leader)
    sim.run_until(lambda: sim.partition("t", 0).leader_epoch == 1)
    print(sim.story())

The nodes run the code that runs in production, on simulated time, network and disks, and every safety property is
checked after every step (`violations`). Time passes only in `run_for`, `run_until` and while an operation waits for its
response. Timeouts are those of a real cluster, about ten times shorter: a broker is fenced after 600 ms, a follower
leaves the ISR after 400 ms. Two simulations with the same arguments and the same calls are equal in every detail.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from insync.errors import InvariantError
from insync.metadata.partition import NO_LEADER, Partition
from insync.properties.violation import Violation
from insync.sansio import Message
from insync.sim.driver import (
    CLIENT_TIMEOUT_MS,
    PROPAGATION_MS,
    WAIT_TIMEOUT_MS,
    ClusterDriver,
    FetchResult,
    ObservedEvent,
    SentBatch,
    plan_cluster,
)
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.narration.narrator import MINOR_NOTES
from insync.sim.narration.views import PartitionView, RecordView, simulation_html, snapshot_partition
from insync.sim.plans.plan import Action, TopicPlan
from insync.sim.run import World
from insync.sim.scenario.conditions import parse_condition
from insync.sim.scenario.fault_steps import CHANNELS
from insync.wire.errors import ErrorCode

Acks = Literal["all", 1, 0]

MAX_NODES = 99
NO_LEADER_ERROR = "LEADER_NOT_AVAILABLE"
_ACKS: dict[object, int] = {"all": -1, -1: -1, 1: 1, 0: 0}


class SimulationStoppedError(RuntimeError):
    """A property was violated, so that the simulated cluster does not run any more; it can still be inspected."""


@dataclass(slots=True, eq=False)
class ProduceOutcome:
    """The result of a produce. While it is `pending`, the fields change when the response arrives."""

    offset: int | None = None
    """The offset of the first record, once it is acknowledged; None with acks=0."""
    error: str | None = None
    """The name of Kafka's error code, such as "NOT_ENOUGH_REPLICAS"."""
    pending: bool = True
    _sent: SentBatch | None = field(default=None, repr=False)

    @property
    def acknowledged(self) -> bool:
        return self.offset is not None and self.error is None


@dataclass(frozen=True, slots=True)
class ConsumeOutcome:
    """What a consumer got. Without an error, `records` are the committed records from the offset on."""

    records: tuple[RecordView, ...] = ()
    error: str | None = None
    high_watermark: int | None = None

    @property
    def values(self) -> list[bytes]:
        return [record.value for record in self.records]


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker at one moment."""

    id: int
    state: str
    """`running`, `starting`, `shutting_down`, ... or `down`."""
    paused: bool
    fenced: bool
    broker_epoch: int | None
    """None until the broker has registered."""


class Simulation:
    """A cluster of brokers 1, 2, ... and controllers 101, 102, ... that is up and running."""

    def __init__(self, brokers: int = 3, *, controllers: int = 1, seed: int = 1) -> None:
        _check_count("brokers", brokers)
        _check_count("controllers", controllers)
        if not isinstance(seed, int):
            raise ValueError(f"seed must be an int, not {seed!r}")
        self.seed = seed
        self._world = World(plan_cluster(brokers, controllers, seed=seed))
        self._events: list[tuple[str, bool]] = []
        """The lines of the story, and whether each is a minor one."""
        self._driver = ClusterDriver(self._world, random.Random(f"simulation client {seed}"), self._record_event)
        self._recording = False
        self._driver.start()
        self._driver.observed.clear()
        self._recording = True

    # --- topics and records ------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        replicas: Sequence[int] = (),
        min_insync_replicas: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic and wait until its replicas are in place.

        With `replicas` every partition is on those brokers, and the first of them leads; otherwise the controller
        places `replication_factor` replicas (by default 3, or as many as there are brokers).
        """
        if name in self._driver.topics:
            raise ValueError(f"topic {name!r} exists already")
        if not isinstance(partitions, int) or partitions < 1:
            raise ValueError(f"partitions must be a positive int, not {partitions!r}")
        for broker in replicas:
            self._check_broker(broker)
        if replicas and replication_factor not in (None, len(replicas)):
            raise ValueError(f"replication_factor {replication_factor!r} does not fit replicas {list(replicas)}")
        settings = {key: str(value) for key, value in (configs or {}).items()}
        if min_insync_replicas is not None:
            settings["min.insync.replicas"] = str(min_insync_replicas)
        factor = replication_factor if replication_factor is not None else min(3, len(self.brokers))
        plan = TopicPlan(
            name=name,
            partitions=partitions,
            replication_factor=len(replicas) or factor,
            configs=tuple(settings.items()),
            replicas=tuple(replicas),
        )
        self._operate(lambda on_done: self._driver.create_topic(plan, on_done), f"create topic {name}")
        self._driver.topics[name] = partitions
        self._driver.advance(PROPAGATION_MS)

    def set_config(self, topic: str, name: str, value: object) -> None:
        """Change a config of a topic, such as min.insync.replicas."""
        self._check_topic(topic)
        self._carry_out("set_config", topic, (name, str(value)))

    def produce(
        self,
        topic: str,
        partition: int,
        *values: bytes | str,
        acks: Acks = "all",
        broker: int | None = None,
        producer_id: int | None = None,
        sequence: int = 0,
        wait_ms: int = CLIENT_TIMEOUT_MS + 1_000,
    ) -> ProduceOutcome:
        """Send one batch with these values to the leader, or to `broker`, and wait for the response.

        With a `producer_id` it is the batch of an idempotent producer. With a short `wait_ms` the outcome may still be
        `pending`; it is completed when the response comes. A batch is not retried: use `retry`.
        """
        if acks not in _ACKS:
            raise ValueError(f'acks must be "all", 1 or 0, not {acks!r}')
        if not values:
            raise ValueError("produce needs at least one value (bytes or str)")
        metadata = self._metadata(topic, partition)
        payload = [_to_bytes(value) for value in values]
        sent = self._driver.new_batch(
            metadata,
            payload,
            acks=_ACKS[acks],
            producer_id=-1 if producer_id is None else producer_id,
            sequence=sequence,
        )
        outcome = ProduceOutcome(_sent=sent)
        self._send(outcome, broker, wait_ms)
        return outcome

    def retry(
        self, outcome: ProduceOutcome, *, broker: int | None = None, wait_ms: int = CLIENT_TIMEOUT_MS + 1_000
    ) -> ProduceOutcome:
        """Send the same batch again, byte for byte, as a producer does that got no response."""
        if outcome._sent is None:
            raise ValueError("only the outcome of a produce can be retried")
        again = ProduceOutcome(_sent=outcome._sent)
        self._send(again, broker, wait_ms)
        return again

    def consume(self, topic: str, partition: int, *, offset: int = 0, broker: int | None = None) -> ConsumeOutcome:
        """Fetch everything from `offset` on, as a consumer sees it, from the leader or from `broker`."""
        metadata = self._metadata(topic, partition)
        if not isinstance(offset, int) or offset < 0:
            raise ValueError(f"offset must be an int of at least 0, not {offset!r}")
        node = self._choose_broker(metadata, broker)
        if node is None:
            return ConsumeOutcome(error=NO_LEADER_ERROR)
        self._check_running()
        results: list[FetchResult] = []
        self._driver.fetch(metadata, offset, node, results.append)
        self._driver.wait_until(lambda: bool(results), CLIENT_TIMEOUT_MS + 1_000)
        if not results or results[0].error is None:
            return ConsumeOutcome(error=_error_name(ErrorCode.network_exception))
        result = results[0]
        if result.error is not None and result.error is not ErrorCode.none:
            return ConsumeOutcome(error=_error_name(result.error))
        records = tuple(RecordView(record.offset, record.value, record.leader_epoch) for record in result.records)
        return ConsumeOutcome(records, high_watermark=result.high_watermark)

    # --- operations --------------------------------------------------------------------------------------------------

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Start moving a partition to these brokers; `run_until` it is done."""
        for broker in replicas:
            self._check_broker(broker)
        self._carry_out("reassign", self._metadata(topic, partition).name, tuple(replicas))

    def cancel_reassignment(self, topic: str, partition: int) -> None:
        self._carry_out("cancel_reassign", self._metadata(topic, partition).name)

    def elect_leader(self, topic: str, partition: int, *, unclean: bool = False) -> None:
        """Elect the preferred leader; with `unclean` any replica, which may lose committed records."""
        kind = "elect_unclean" if unclean else "elect_preferred"
        self._carry_out(kind, self._metadata(topic, partition).name)

    # --- faults ------------------------------------------------------------------------------------------------------

    def crash(self, node: int) -> None:
        """Kill the process of a node; what it has written stays."""
        self._check_alive(node)
        self._note(f"crash of node {node}")
        self._world.cluster.crash(node)

    def power_loss(self, node: int) -> None:
        """The machine of a node loses power: its process ends, and writes that were not synced may be lost.

        How much of them survives is drawn from the seed: nothing, everything, or a part.
        """
        self._check_node(node)
        self._check_running()
        self._note(f"power loss of node {node}")
        self._world.cluster.crash(node, lossy=True)

    def shut_down(self, node: int) -> None:
        """A controlled shutdown: leadership moves away first. Returns when the process has ended."""
        self._check_alive(node)
        self._note(f"shutdown of node {node}")
        self._world.cluster.shut_down(node)
        self._driver.wait_until(lambda: self._world.cluster.node(node) is None)

    def restart(self, node: int) -> None:
        """Start a node that is down; one that runs is shut down first. Does not wait until it has registered."""
        self._check_node(node)
        self._check_running()
        if self._world.cluster.node(node) is not None:
            self.shut_down(node)
        self._note(f"start of node {node}")
        self._world.cluster.start(node)

    def pause(self, node: int) -> None:
        """Stop the process of a node, as a long garbage collection does; its clock goes on."""
        self._check_alive(node)
        self._note(f"pause of node {node}")
        self._world.cluster.pause(node)

    def resume(self, node: int) -> None:
        self._check_alive(node)
        self._note(f"resume of node {node}")
        self._world.cluster.resume(node)

    def partition_network(self, *sides: Collection[int]) -> None:
        """Block all traffic between these sets of nodes; nodes that are in none of them reach all others."""
        if len(sides) < 2:
            raise ValueError("partition_network needs at least two sets of nodes, such as {1}, {2, 3}")
        nodes = [node for side in sides for node in sorted(side)]
        for node in nodes:
            self._check_node(node)
        if len(set(nodes)) != len(nodes):
            raise ValueError(f"a node can be on one side only: {[sorted(side) for side in sides]}")
        self._check_running()
        names = " | ".join(",".join(map(str, sorted(side))) for side in sides)
        links = [
            (source, target)
            for left in sides
            for right in sides
            if left is not right
            for source in sorted(left)
            for target in sorted(right)
        ]
        self._driver.block(f"partition {names}", links)
        self._note(f"network partition: {names}")

    def hold(self, source: int, target: int, channel: str | None = None, *, both_ways: bool = False) -> None:
        """Hold back what `source` sends to `target`, on all channels or on one, until `release` or `heal`.

        The channels are fetch, heartbeat, controller, recovery, forward, metadata and quorum. Requests still time out.
        """
        self._check_node(source)
        self._check_node(target)
        if channel is not None and channel not in CHANNELS:
            raise ValueError(f"there is no channel {channel!r}: the channels are {', '.join(CHANNELS)}")
        self._check_running()
        pairs = [(source, target), (target, source)] if both_ways else [(source, target)]
        name = _link_name(source, target, channel, both_ways=both_ways)
        self._driver.block(name, [(a, b) if channel is None else (a, b, channel) for a, b in pairs])
        self._note(f"hold {name}")

    def release(self, source: int, target: int, channel: str | None = None, *, both_ways: bool = False) -> None:
        """Undo the `hold` with the same arguments."""
        name = _link_name(source, target, channel, both_ways=both_ways)
        if name not in self._driver.blocked:
            raise ValueError(f"{name} is not held: held are {'; '.join(self._driver.blocked) or 'no links'}")
        self._check_running()
        self._note(f"release {name}")
        self._driver.unblock(name)

    def heal(self) -> None:
        """Open all links: ends every `partition_network` and `hold`."""
        self._check_running()
        self._note("network healed")
        self._driver.unblock()

    @contextlib.contextmanager
    def without(self, safeguard: str) -> Iterator[None]:
        """Remove a safeguard of the protocol inside the block, to see which property fails.

        `insync sim mutants` lists the names. The safeguard is missing in every simulation of this process meanwhile.
        """
        if safeguard not in MUTANTS:
            raise ValueError(f"there is no safeguard {safeguard!r}: known are {', '.join(MUTANTS)}")
        self._note(f"removed: {MUTANTS[safeguard].removes}")
        with apply_mutant(MUTANTS[safeguard]):
            yield

    # --- time --------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The simulated time in milliseconds."""
        return self._driver.now_ms

    def run_for(self, ms: int) -> None:
        """Let `ms` simulated milliseconds pass."""
        if not isinstance(ms, int) or ms < 0:
            raise ValueError(f"ms must be an int of at least 0, not {ms!r}")
        self._check_running()
        self._driver.advance(ms)

    def run_until(self, condition: Callable[[], bool] | str, *, timeout_ms: int = WAIT_TIMEOUT_MS) -> int:
        """Let time pass until the condition holds, checked every millisecond; returns the time.

        The condition is a function without arguments, or a text as in scenarios: "t-0 leader=2 isr=2,3",
        "t-0 hwm.2=4", "node 1 fenced=true". Raises TimeoutError after `timeout_ms` simulated milliseconds.
        """
        if isinstance(condition, str):
            parsed = parse_condition(condition.split())
            description = condition
            holds: Callable[[], bool] = lambda: parsed.holds(self._driver)  # noqa: E731
        elif callable(condition):
            holds, description = condition, "the condition"
        else:
            raise ValueError(f'a condition is a function or a text such as "t-0 leader=2", not {condition!r}')
        self._check_running()
        if not self._driver.wait_until(holds, timeout_ms):
            self._check_running()
            raise TimeoutError(f"{description} did not become true within {timeout_ms} ms (it is {self.now_ms} ms now)")
        return self.now_ms

    # --- inspection --------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> tuple[int, ...]:
        return self._world.plan.brokers

    @property
    def controllers(self) -> tuple[int, ...]:
        return self._world.plan.voters

    @property
    def active_controller(self) -> int | None:
        return self._world.faults.active_controller()

    @property
    def topics(self) -> dict[str, int]:
        """The topics and their numbers of partitions."""
        return dict(self._driver.topics)

    def broker(self, broker: int) -> BrokerView:
        self._check_broker(broker)
        host = self._world.cluster.hosts[broker]
        registration = self._driver.registrations().get(broker)
        state = "down" if host.node is None else str(host.node.lifecycle.state)
        fenced = registration is None or registration.fenced
        return BrokerView(broker, state, host.paused, fenced, None if registration is None else registration.epoch)

    def partition(self, topic: str, partition: int) -> PartitionView:
        """A snapshot of the partition: its newest metadata, and each replica as it is."""
        return snapshot_partition(self._world.cluster, self._metadata(topic, partition), self.now_ms)

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The properties that were violated so far; the first violation stops the simulation."""
        violation = self._world.violation
        return tuple(self._world.checker.violations) or (() if violation is None else (violation,))

    def check(self) -> tuple[Violation, ...]:
        """Check every log from its start, besides what every step checks; returns `violations`."""
        if not self.violations:
            with contextlib.suppress(InvariantError):
                self._world.checker.finish()
        return self.violations

    def story(self, *, verbose: bool = False) -> str:
        """What happened, a line per event; with `verbose` also votes, refused fetches and the like."""
        events = [text for text, minor in self._events if verbose or not minor]
        return "\n".join([*events, *(f"VIOLATION {violation}" for violation in self.violations)])

    def __repr__(self) -> str:
        state = f"; VIOLATED {self.violations[0].property}" if self.violations else ""
        return (
            f"<Simulation seed={self.seed} at {self.now_ms} ms: brokers {_join(self.brokers)}; "
            f"controllers {_join(self.controllers)}; topics {', '.join(self._driver.topics) or 'none'}{state}>"
        )

    def _repr_html_(self) -> str:
        nodes = [
            (str(node.node_id), "+".join(node.roles), self._node_state(node.node_id)) for node in self._world.plan.nodes
        ]
        partitions = [
            self.partition(topic, index)
            for topic, count in self._driver.topics.items()
            for index in range(count)
            if self._driver.find_partition(f"{topic}-{index}") is not None
        ]
        return simulation_html(repr(self)[1:-1], nodes, partitions)

    def _node_state(self, node: int) -> str:
        if node in self.brokers:
            view = self.broker(node)
            flags = [name for name, is_set in (("fenced", view.fenced), ("paused", view.paused)) if is_set]
            return ", ".join([view.state, *flags])
        return "down" if self._world.cluster.node(node) is None else "running"

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _record_event(self, event: ObservedEvent) -> None:
        if self._recording:
            minor = event.note is not None and event.note.kind in MINOR_NOTES
            self._events.append((f"{event.time_ms:>6} ms  {event.source}: {event.text}", minor))

    def _note(self, text: str) -> None:
        self._events.append((f"{self.now_ms:>6} ms  ** {text}", False))

    def _metadata(self, topic: str, partition: int) -> Partition:
        self._check_topic(topic)
        count = self._driver.topics[topic]
        if not isinstance(partition, int) or not 0 <= partition < count:
            raise ValueError(f"topic {topic!r} has no partition {partition!r}: it has partitions 0 to {count - 1}")
        return self._driver.partition(f"{topic}-{partition}")

    def _choose_broker(self, partition: Partition, broker: int | None) -> int | None:
        """The broker that was asked for, or the leader by the newest metadata; None if there is none."""
        if broker is not None:
            self._check_broker(broker)
            return broker
        return None if partition.leader == NO_LEADER else partition.leader

    def _send(self, outcome: ProduceOutcome, broker: int | None, wait_ms: int) -> None:
        sent = outcome._sent
        assert sent is not None
        if not isinstance(wait_ms, int) or wait_ms < 1:
            raise ValueError(f"wait_ms must be an int of at least 1, not {wait_ms!r}")
        self._check_running()
        node = self._choose_broker(self._driver.partition(sent.partition.name), broker)
        values = b" ".join(sent.values).decode(errors="replace")
        if node is None:
            outcome.pending, outcome.error = False, NO_LEADER_ERROR
            self._driver.report("client", f"{values} not sent: {sent.partition.name} has no leader")
            return

        def on_done(done: SentBatch) -> None:
            outcome.pending = False
            if done.error is ErrorCode.none:
                outcome.offset = done.offset
                self._driver.report("client", f"{values} acknowledged at offset {done.offset}")
            else:
                outcome.error = _error_name(done.error)
                self._driver.report("client", f"{values} not acknowledged: {outcome.error}")

        self._driver.send_batch(sent, node, on_done)
        if sent.acks == 0:
            outcome.pending = False
            self._driver.advance(min(wait_ms, PROPAGATION_MS))
        else:
            self._driver.advance(1)
            self._driver.wait_until(lambda: not outcome.pending, wait_ms - 1)

    def _carry_out(self, kind: str, target: str, value: tuple[int | str, ...] = ()) -> None:
        action = Action(at_ms=0, kind=kind, target=target, value=value)
        self._operate(lambda on_done: self._driver.carry_out(action, on_done), f"{kind.replace('_', ' ')} {target}")

    def _operate(self, start: Callable[[Callable[[ErrorCode, Message | None], None]], None], what: str) -> None:
        """Wait for the response of the active controller; ValueError if it refuses."""
        self._check_running()
        errors: list[ErrorCode] = []
        start(lambda error, _response: errors.append(error))
        self._driver.wait_until(lambda: bool(errors), CLIENT_TIMEOUT_MS + 1_000)
        error = errors[0] if errors else ErrorCode.network_exception
        self._driver.report("operator", f"{what}: {'done' if error is ErrorCode.none else _error_name(error)}")
        if error is not ErrorCode.none:
            raise ValueError(f"the controller refused to {what}: {_error_name(error)}")

    def _check_running(self) -> None:
        if self.violations:
            raise SimulationStoppedError(f"the simulation has stopped: {self.violations[0]}")

    def _check_topic(self, topic: str) -> None:
        if topic not in self._driver.topics:
            raise ValueError(f"there is no topic {topic!r}: the topics are {', '.join(self._driver.topics) or 'none'}")

    def _check_node(self, node: int) -> None:
        if node not in self._world.cluster.hosts:
            known = f"brokers {_join(self.brokers)} and controllers {_join(self.controllers)}"
            raise ValueError(f"there is no node {node!r}: there are {known}")

    def _check_broker(self, broker: int) -> None:
        if broker not in self.brokers:
            raise ValueError(f"there is no broker {broker!r}: the brokers are {_join(self.brokers)}")

    def _check_alive(self, node: int) -> None:
        self._check_node(node)
        self._check_running()
        if self._world.cluster.node(node) is None:
            raise ValueError(f"node {node} is down: start it with restart({node})")


def _check_count(name: str, count: int) -> None:
    if not isinstance(count, int) or not 1 <= count <= MAX_NODES:
        raise ValueError(f"{name} must be an int from 1 to {MAX_NODES}, not {count!r}")


def _to_bytes(value: bytes | str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise ValueError(f"a value must be bytes or str, not {value!r}")


def _error_name(error: ErrorCode) -> str:
    return error.name.upper()


def _join(nodes: Collection[int]) -> str:
    return ", ".join(map(str, nodes))


def _link_name(source: int, target: int, channel: str | None, *, both_ways: bool) -> str:
    return f"{source}{'<->' if both_ways else '->'}{target}{f' {channel}' if channel else ''}"
