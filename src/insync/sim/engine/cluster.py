"""The cluster under simulation: starts and ends nodes, runs their steps and carries out their effects.

Everything that a driver of a real node does happens here on simulated time: requests travel, fsyncs take their time and
are lost with the process that waited for them, deadlines fire. After every step the observers see what happened.
A node that finds an invariant broken ends the run; a node whose disk fails ends itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from insync.errors import InvariantError
from insync.node.broker_role import DIRECTORY as DATA
from insync.sansio import (
    DiskFailed,
    Effect,
    Event,
    HangUp,
    Note,
    Reply,
    Send,
    Shutdown,
    Stop,
    Sync,
    Synced,
    Timer,
    WriteFile,
)
from insync.sim.engine import damage
from insync.sim.engine.disk import SimDisk
from insync.sim.engine.engine import Engine, NodeClock
from insync.sim.engine.host import Host, NodeLike
from insync.sim.engine.network import Network
from insync.sim.engine.trace import Trace
from insync.storage.disk import write_atomically

NodeFactory = Callable[[Any, SimDisk, random.Random, int], NodeLike]
Lost = dict[str, tuple[int, int]]
"""Files that lost bytes in a crash: path -> (size before, size after)."""


class Observer(Protocol):
    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None: ...
    def node_started(self, node_id: int) -> None: ...
    def node_ends(self, node_id: int) -> None:
        """Its process is about to end; node and files are as they were after its last step."""

    def node_crashed(self, node_id: int, lost: Lost | None) -> None: ...


class Cluster:
    """The hosts by node id; `violation` is set, and the engine stopped, by the first broken invariant."""

    def __init__(
        self,
        engine: Engine,
        network: Network,
        rng: random.Random,
        node_factory: NodeFactory,
        *,
        trace: Trace | None = None,
        node_seed: str = "",
        disk_us: tuple[int, int] = (100, 3_000),
        restart_ms: int = 300,
    ) -> None:
        self.engine = engine
        self.network = network
        self.hosts: dict[int, Host] = {}
        self.observers: Sequence[Observer] = ()
        self.trace = trace or Trace()
        self.stats: Counter[str] = Counter()
        self.violation: InvariantError | None = None
        self.rotten: dict[tuple[Any, int], int] = {}
        """D6: batches of which a byte was changed on disk, (partition, base offset), and the node that this was on."""
        self._rng = rng
        self._node_factory = node_factory
        self._node_seed = node_seed
        self._disk_us = disk_us
        self._restart_ms = restart_ms
        self._carriers: dict[type, Callable[[Host, Any], None]] = {
            Send: self._carry_send,
            Reply: self._carry_reply,
            HangUp: self._carry_hang_up,
            Sync: self._carry_sync,
            WriteFile: self._carry_write,
            Stop: self._carry_stop,
            Note: self._carry_note,
        }

    def add(self, node_id: int, config: Any, clock: NodeClock | None = None) -> Host:
        host = Host(node_id, config, SimDisk(), clock or NodeClock(), self.step)
        self.hosts[node_id] = host
        self.network.attach(host)
        return host

    def node(self, node_id: int) -> Any:
        """The running node, or None while its process is down."""
        return self.hosts[node_id].node

    def nodes(self) -> list[Any]:
        return [host.node for host in self.hosts.values() if host.node is not None]

    def now_of(self, host: Host) -> int:
        return host.clock.now_ms(self.engine.now)

    # --- starting and ending -----------------------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        host = self.hosts[node_id]
        if host.alive:
            return
        host.outage += 1
        self._mark(f"start {node_id}")
        rng = random.Random(f"{self._node_seed}/{node_id}/{host.generation}")
        now = self.now_of(host)
        try:
            host.begin(self._node_factory(host.config, host.disk, rng, now))
            effects = host.node.start(now)
        except OSError as error:
            self._disk_failed(host, error)
            return
        except InvariantError as violation:
            self._violated(host, violation)
            return
        for observer in self.observers:
            observer.node_started(node_id)
        self._after(host, Timer(), effects)

    def crash(self, node_id: int, *, lossy: bool = False, corrupt: bool = False, dark: bool | None = None) -> None:
        """The process ends at once; with `lossy` the machine does, and takes its unsynced writes with it."""
        host = self.hosts[node_id]
        was_alive = host.alive
        if not was_alive and not lossy:
            return
        host.outage += 1
        self._tell_end(host)
        host.end(dark=lossy if dark is None else dark)
        lost = self._lose(host, lossy=lossy, corrupt=corrupt)
        self._mark(f"crash {node_id} {'lossy ' if lossy else ''}{sorted(lost.items()) if lost else ''}")
        self.network.process_died(node_id)
        self.stats["lossy_crash" if lossy else "crash"] += 1
        for observer in self.observers:
            observer.node_crashed(node_id, lost)

    def damage(self, node_id: int, partition: str, kind: str) -> None:
        """The files of a node that is down are damaged; see `damage.KINDS`."""
        host = self.hosts[node_id]
        lost = damage.damage(host.disk, DATA, partition, kind)
        self._mark(f"damage {node_id} {partition} {kind} {sorted(lost.items())}")
        self.stats["damage:" + kind] += 1
        for observer in self.observers:
            observer.node_crashed(node_id, lost or None)

    def _tell_end(self, host: Host) -> None:
        if host.alive:
            for observer in self.observers:
                observer.node_ends(host.id)

    def _lose(self, host: Host, *, lossy: bool, corrupt: bool) -> Lost | None:
        if lossy:
            return host.disk.lossy_crash(self._rng, corrupt=corrupt)
        host.disk.crash()
        return None

    def shut_down(self, node_id: int, *, patience_ms: int = 3_000) -> None:
        """Ask for a controlled shutdown (B7); a process that does not manage it in time is killed."""
        host = self.hosts[node_id]
        if host.alive and not host.stopping:
            host.stopping = True
            self._mark(f"shutdown {node_id}")
            self.engine.after(patience_ms * 1_000, self._lose_patience, host, host.generation)
            host.deliver(Shutdown())

    def _lose_patience(self, host: Host, generation: int) -> None:
        if host.alive and host.stopping and host.generation == generation:
            self.stats["shutdown_killed"] += 1
            self.crash(host.id)

    def pause(self, node_id: int) -> None:
        host = self.hosts[node_id]
        if host.alive and not host.paused:
            self._mark(f"pause {node_id}")
            host.pause()

    def resume(self, node_id: int) -> None:
        host = self.hosts[node_id]
        if host.alive and host.paused:
            self._mark(f"resume {node_id}")
            host.resume(self.engine, self._rng, self._fire)

    def jump_clock(self, node_id: int, by_ms: int) -> None:
        """The whole machine slept and its monotonic clock counted on: deadlines are due at once."""
        host = self.hosts[node_id]
        host.clock.jump(by_ms)
        host.rearm(self.engine, self._fire)

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, host: Host, event: Event) -> None:
        """One step of the very code that runs in production."""
        if host.node is None or self.violation is not None:
            return
        try:
            effects = host.node.step(event, host.clock.now_ms(self.engine.now))
        except InvariantError as violation:
            self._violated(host, violation)
            return
        except OSError as error:
            self._disk_failed(host, error)
            return
        self._after(host, event, effects)

    def _after(self, host: Host, event: Event, effects: list[Effect]) -> None:
        node = host.node
        self.trace.step(self.engine.now, host.id, event, effects, getattr(node, "changed", None))
        try:
            for observer in self.observers:
                observer.after_step(host.id, event, effects)
        except InvariantError as violation:
            self._violated(host, violation)
            return
        carriers = self._carriers
        for effect in effects:
            if host.node is not node:
                return
            carriers[type(effect)](host, effect)
        host.arm(self.engine, self._fire)

    def _fire(self, host: Host, sequence: int) -> None:
        if host.timer_is_due(sequence, self.engine):
            self.step(host, Timer())
        elif host.alive:
            host.arm(self.engine, self._fire)

    def _violated(self, host: Host, violation: InvariantError) -> None:
        if self.violation is None:
            self.violation = violation
            self._mark(f"violation {violation.name} at {host.id}")
        self.engine.stop()

    def _disk_failed(self, host: Host, error: OSError) -> None:
        self.stats["disk_failed"] += 1
        self._mark(f"disk of {host.id} failed errno {error.errno}")
        if host.alive:
            self.crash(host.id)
        self._restart_later(host)

    def _restart_later(self, host: Host) -> None:
        """Something outside watches the process and starts it again, unless a fault has other plans for it."""
        self.engine.after(self._restart_ms * 1_000, self._restart, host, host.outage)

    def _restart(self, host: Host, outage: int) -> None:
        if not host.alive and host.outage == outage:
            self.start(host.id)

    # --- effects -----------------------------------------------------------------------------------------------------

    def _carry_send(self, host: Host, effect: Send) -> None:
        self.network.send(host.id, effect)

    def _carry_reply(self, host: Host, effect: Reply) -> None:
        host.reply(self.network, effect.token, effect.response)

    def _carry_hang_up(self, host: Host, effect: HangUp) -> None:
        host.reply(self.network, effect.token, None)

    def _carry_note(self, host: Host, effect: Note) -> None:
        self.stats["note:" + effect.kind] += 1

    def _carry_sync(self, host: Host, effect: Sync) -> None:
        self.engine.after(self._disk_delay(host), host.when_awake, self._synced, host, host.generation, effect)

    def _synced(self, host: Host, generation: int, effect: Sync) -> None:
        if not host.alive or host.generation != generation:
            return
        try:
            effect.job.run()
        except OSError as error:
            host.deliver(DiskFailed(error))
        else:
            host.deliver(Synced(effect))

    def _carry_write(self, host: Host, effect: WriteFile) -> None:
        """One writer per process: an older version of a file never replaces a newer one."""
        host.written_at = max(host.written_at + 1, self.engine.now + self._disk_delay(host))
        self.engine.at(host.written_at, host.when_awake, self._written, host, host.generation, effect)

    def _written(self, host: Host, generation: int, effect: WriteFile) -> None:
        if not host.alive or host.generation != generation:
            return
        try:
            write_atomically(host.disk, effect.path, effect.data)
        except OSError as error:
            host.deliver(DiskFailed(error))

    def _carry_stop(self, host: Host, effect: Stop) -> None:
        self._mark(f"stopped {host.id} {'clean' if effect.clean else 'unclean'}")
        self.stats["clean_stop" if effect.clean else "unclean_stop"] += 1
        asked = host.stopping
        host.outage += 0 if asked else 1
        self._tell_end(host)
        host.end(dark=False)
        host.disk.crash()
        self.network.process_died(host.id)
        for observer in self.observers:
            observer.node_crashed(host.id, None)
        if not asked:
            self._restart_later(host)

    def _disk_delay(self, host: Host) -> int:
        low, high = self._disk_us
        r = self._rng.random()
        return low + int(r * r * (high - low)) + host.disk_delay_us

    def _mark(self, text: str) -> None:
        self.trace.mark(self.engine.now, text)
