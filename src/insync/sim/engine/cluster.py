"""The simulated cluster: starts and ends nodes, runs their steps and carries out their effects.

It does on simulated time what the server does in production: requests travel, fsyncs take time and are lost with their
process, deadlines fire. Observers are called after every step. A node that finds an invariant broken ends the run; a
node whose disk fails ends itself.
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
from insync.sim.engine.damage import damage_partition
from insync.sim.engine.disk import SimDisk
from insync.sim.engine.engine import Engine, NodeClock
from insync.sim.engine.host import Host, NodeLike
from insync.sim.engine.network import Network
from insync.sim.engine.principals import Principals, no_principals
from insync.sim.engine.trace import Trace
from insync.storage.disk import write_atomically
from insync.storage.log import LogFlush

NodeFactory = Callable[[Any, SimDisk, random.Random, int], NodeLike]
Lost = dict[str, tuple[int, int]]
"""Files that lost bytes in a crash: path -> (size before, size after)."""


class Observer(Protocol):
    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None: ...
    def node_started(self, node_id: int) -> None: ...
    def node_ends(self, node_id: int) -> None:
        """Called before its process ends; node and files are as they were after its last step."""

    def node_crashed(self, node_id: int, lost: Lost | None) -> None: ...


class Cluster:
    """The hosts by node id. The first broken invariant is kept in `violation` and stops the engine."""

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
        principals: Principals | None = None,
    ) -> None:
        self.engine = engine
        self.network = network
        self.hosts: dict[int, Host] = {}
        self.observers: Sequence[Observer] = ()
        self.trace = trace or Trace()
        self.stats: Counter[str] = Counter()
        self.violation: InvariantError | None = None
        self.corrupted_batches: dict[tuple[Any, int], int] = {}
        """D6: batches with a changed byte on disk, by (partition, base offset), and the node whose disk it is."""
        self._rng = rng
        self._node_factory = node_factory
        self._node_seed = node_seed
        self._disk_us = disk_us
        self._restart_ms = restart_ms
        self.principals = principals
        """None: the cluster has no authorizer."""
        self._effect_handlers: dict[type, Callable[[Host, Any], None]] = {
            Send: self._do_send,
            Reply: self._do_reply,
            HangUp: self._do_hang_up,
            Sync: self._do_sync,
            WriteFile: self._do_write,
            Stop: self._do_stop,
            Note: self._do_note,
        }

    def add(self, node_id: int, config: Any, clock: NodeClock | None = None) -> Host:
        client_of = no_principals if self.principals is None else self.principals.client_of
        host = Host(node_id, config, SimDisk(), clock or NodeClock(), self.step, client_of)
        self.hosts[node_id] = host
        self.network.attach(host)
        return host

    def node(self, node_id: int) -> Any:
        """The running node, or None while its process is down."""
        return self.hosts[node_id].node

    def nodes(self) -> list[Any]:
        return [host.node for host in self.hosts.values() if host.node is not None]

    def local_now_ms(self, host: Host) -> int:
        return host.clock.now_ms(self.engine.now)

    # --- starting and ending -----------------------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        host = self.hosts[node_id]
        if host.alive:
            return
        host.outage += 1
        self._mark(f"start {node_id}")
        rng = random.Random(f"{self._node_seed}/{node_id}/{host.generation}")
        now = self.local_now_ms(host)
        try:
            host.start_process(self._node_factory(host.config, host.disk, rng, now))
            effects = host.node.start(now)
        except OSError as error:
            self._disk_failed(host, error)
            return
        except InvariantError as violation:
            self._stop_run(host, violation)
            return
        for observer in self.observers:
            observer.node_started(node_id)
        self._finish_step(host, Timer(), effects)

    def crash(
        self, node_id: int, *, lossy: bool = False, corrupt: bool = False, powered_off: bool | None = None
    ) -> None:
        """Kill the process; with `lossy` the machine loses power, and with it writes that were not synced."""
        host = self.hosts[node_id]
        was_alive = host.alive
        if not was_alive and not lossy:
            return
        host.outage += 1
        self._notify_ending(host)
        host.end_process(powered_off=lossy if powered_off is None else powered_off)
        lost = self._crash_disk(host, lossy=lossy, corrupt=corrupt)
        self._mark(f"crash {node_id} {'lossy ' if lossy else ''}{sorted(lost.items()) if lost else ''}")
        self.network.process_died(node_id)
        self.stats["lossy_crash" if lossy else "crash"] += 1
        for observer in self.observers:
            observer.node_crashed(node_id, lost)

    def damage_files(self, node_id: int, partition: str, kind: str) -> None:
        """Damage the files of a node that is down; `kind` is one of `plan.DAMAGE_KINDS`."""
        host = self.hosts[node_id]
        lost = damage_partition(host.disk, DATA, partition, kind)
        self._mark(f"damage {node_id} {partition} {kind} {sorted(lost.items())}")
        self.stats["damage:" + kind] += 1
        for observer in self.observers:
            observer.node_crashed(node_id, lost or None)

    def _notify_ending(self, host: Host) -> None:
        if host.alive:
            for observer in self.observers:
                observer.node_ends(host.id)

    def _crash_disk(self, host: Host, *, lossy: bool, corrupt: bool) -> Lost | None:
        if lossy:
            return host.disk.lossy_crash(self._rng, corrupt=corrupt)
        host.disk.crash()
        return None

    def shut_down(self, node_id: int, *, timeout_ms: int = 3_000) -> None:
        """Start a controlled shutdown (B7); a process that does not stop in time is killed."""
        host = self.hosts[node_id]
        if host.alive and not host.stopping:
            host.stopping = True
            self._mark(f"shutdown {node_id}")
            self.engine.call_later(timeout_ms * 1_000, self._kill_if_still_stopping, host, host.generation)
            host.deliver(Shutdown())

    def _kill_if_still_stopping(self, host: Host, generation: int) -> None:
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
        """The machine was suspended and its monotonic clock went on: deadlines are due at once."""
        host = self.hosts[node_id]
        host.clock.jump(by_ms)
        host.rearm_timer(self.engine, self._fire)

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, host: Host, event: Event) -> None:
        """One step of the code that runs in production."""
        if host.node is None or self.violation is not None:
            return
        try:
            effects = host.node.step(event, host.clock.now_ms(self.engine.now))
        except InvariantError as violation:
            self._stop_run(host, violation)
            return
        except OSError as error:
            self._disk_failed(host, error)
            return
        self._finish_step(host, event, effects)

    def _finish_step(self, host: Host, event: Event, effects: list[Effect]) -> None:
        node = host.node
        self.trace.step(self.engine.now, host.id, event, effects, getattr(node, "changed", None))
        try:
            for observer in self.observers:
                observer.after_step(host.id, event, effects)
        except InvariantError as violation:
            self._stop_run(host, violation)
            return
        handlers = self._effect_handlers
        for effect in effects:
            if host.node is not node:
                return
            handlers[type(effect)](host, effect)
        host.arm_timer(self.engine, self._fire)

    def _fire(self, host: Host, sequence: int) -> None:
        if host.timer_is_due(sequence, self.engine):
            self.step(host, Timer())
        elif host.alive:
            host.arm_timer(self.engine, self._fire)

    def _stop_run(self, host: Host, violation: InvariantError) -> None:
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
        """A process manager restarts the process, unless a fault has crashed or started it since."""
        self.engine.call_later(self._restart_ms * 1_000, self._restart, host, host.outage)

    def _restart(self, host: Host, outage: int) -> None:
        if not host.alive and host.outage == outage:
            self.start(host.id)

    # --- effects -----------------------------------------------------------------------------------------------------

    def _do_send(self, host: Host, effect: Send) -> None:
        self.network.send(host.id, effect)

    def _do_reply(self, host: Host, effect: Reply) -> None:
        host.reply(self.network, effect.token, effect.response)

    def _do_hang_up(self, host: Host, effect: HangUp) -> None:
        host.reply(self.network, effect.token, None)

    def _do_note(self, host: Host, effect: Note) -> None:
        self.stats["note:" + effect.kind] += 1

    def _do_sync(self, host: Host, effect: Sync) -> None:
        delay_us = self._disk_delay(host) + (host.flush_delay_us if isinstance(effect.job, LogFlush) else 0)
        self.engine.call_later(delay_us, host.run_when_awake, self._synced, host, host.generation, effect)

    def _synced(self, host: Host, generation: int, effect: Sync) -> None:
        if not host.alive or host.generation != generation:
            return
        try:
            effect.job.run()
        except OSError as error:
            host.deliver(DiskFailed(error))
        else:
            host.deliver(Synced(effect))

    def _do_write(self, host: Host, effect: WriteFile) -> None:
        """Writes of a process happen in order: an older version of a file never replaces a newer one."""
        host.written_at = max(host.written_at + 1, self.engine.now + self._disk_delay(host))
        self.engine.call_at(host.written_at, host.run_when_awake, self._written, host, host.generation, effect)

    def _written(self, host: Host, generation: int, effect: WriteFile) -> None:
        if not host.alive or host.generation != generation:
            return
        try:
            write_atomically(host.disk, effect.path, effect.data)
        except OSError as error:
            host.deliver(DiskFailed(error))

    def _do_stop(self, host: Host, effect: Stop) -> None:
        self._mark(f"stopped {host.id} {'clean' if effect.clean else 'unclean'}")
        self.stats["clean_stop" if effect.clean else "unclean_stop"] += 1
        asked = host.stopping
        host.outage += 0 if asked else 1
        self._notify_ending(host)
        host.end_process(powered_off=False)
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
