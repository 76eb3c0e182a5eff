"""Several replicas with a network that loses and delays messages and disks that forget, on one queue of timed events.

Every step checks that no epoch has two leaders (S12), and that an entry that one replica saw committed is the same on
every other, forever (S7).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from insync.quorum.config import QuorumConfig
from insync.quorum.leader import Leader
from insync.quorum.quorum import Quorum
from insync.quorum.state import RaftState
from insync.sansio import Note, Outbox, Reply, Send, Sync
from insync.sim.engine.disk import SimDisk
from insync.storage.config import LogConfig
from insync.storage.log import Log
from insync.storage.log_loader import open_log
from insync.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from insync.wire.types import METADATA_TOPIC_ID

CLUSTER = "test-cluster"
DIRECTORY = "meta/__cluster_metadata-0"
HANDLERS: dict[type, Callable[[Quorum, Any, int, int], None]] = {
    vote.VoteRequest: Quorum.handle_vote,
    begin_quorum_epoch.BeginQuorumEpochRequest: Quorum.handle_begin_quorum_epoch,
    end_quorum_epoch.EndQuorumEpochRequest: Quorum.handle_end_quorum_epoch,
    fetch.FetchRequest: Quorum.handle_fetch,
    fetch_snapshot.FetchSnapshotRequest: Quorum.handle_fetch_snapshot,
}


def open_metadata_log(disk: SimDisk) -> Log:
    disk.mkdir(DIRECTORY)
    return open_log(disk, DIRECTORY, topic_id=METADATA_TOPIC_ID, config=LogConfig())


class Peer:
    """One replica with its disk, and the records that it has applied."""

    def __init__(self, net: Net, node_id: int) -> None:
        self.net = net
        self.id = node_id
        self.disk = SimDisk()
        self.out = Outbox()
        self.quorum: Any = None
        self.life = 0
        self.paused = False
        self.applied = 0
        self.image: list[bytes] = []
        self.snapshots_seen: list[int] = []

    @property
    def up(self) -> bool:
        return self.quorum is not None

    def start(self) -> None:
        self.life += 1
        self.out = Outbox()
        self.applied = 0
        self.image = []
        state = RaftState(
            node_id=self.id,
            voters=self.net.voters,
            cluster_id=CLUSTER,
            log=open_metadata_log(self.disk),
            disk=self.disk,
            directory=DIRECTORY,
            config=self.net.config,
            rng=random.Random(self.net.rng.random()),
            out=self.out,
            on_snapshot=self.on_snapshot,
        )
        self.quorum = Quorum(state)
        self.do(lambda: self.quorum.start(self.net.now))

    def stop(self, *, lossy: bool) -> None:
        self.quorum = None
        self.life += 1
        if lossy:
            self.disk.lossy_crash(self.net.rng, corrupt=True)
        else:
            self.disk.crash()

    def do(self, action: Callable[[], Any]) -> Any:
        """Run one step of this replica, and carry out its effects."""
        result = action()
        self.apply_committed()
        self.net.carry_out(self)
        return result

    def tick(self) -> None:
        self.do(lambda: self.quorum.tick(self.net.now))

    def lose_peer(self, peer: int) -> None:
        self.do(lambda: self.quorum.peer_lost(peer, self.net.now))

    def leads_in(self, epoch: int) -> bool:
        """Whether it leads this epoch, and has committed an entry of it."""
        role = self.quorum._state.role
        return isinstance(role, Leader) and role.is_established and bool(self.quorum.epoch == epoch)

    def propose(self, *payloads: bytes) -> int:
        last: int = self.do(lambda: self.quorum.propose(payloads, self.net.now))
        return last

    # --- what is committed -------------------------------------------------------------------------------------------

    def apply_committed(self) -> None:
        hwm = self.quorum.hwm
        for offset, epoch, payload in self.quorum.read_committed(self.applied, hwm):
            self.net.check_committed(self.id, offset, epoch, payload)
            self.image.append(payload)
        self.net.hwm = max(self.net.hwm, hwm)
        self.applied = hwm

    def on_snapshot(self, payloads: list[bytes], offset: int, epoch: int, now: int) -> None:
        self.snapshots_seen.append(offset)
        self.image = list(payloads)
        self.applied = offset
        expected = [payload for at, (_, payload) in sorted(self.net.committed.items()) if at < offset]
        assert self.image == expected, f"snapshot of {self.id} at {offset} is not the committed prefix"

    def snapshot(self) -> None:
        builder = self.quorum.begin_snapshot(self.applied, 0)
        if builder is not None:
            builder.add(self.image)
            self.do(lambda: self.quorum.write_snapshot(builder))


class Net:
    def __init__(
        self,
        voters: int = 3,
        observers: int = 0,
        *,
        seed: int = 1,
        config: QuorumConfig | None = None,
        start: bool = True,
    ) -> None:
        self.rng = random.Random(seed)
        self.config = config or QuorumConfig()
        self.voters = tuple(range(1, voters + 1))
        self.now = 0
        self.loss = 0.0
        self.delay = (1, 3)
        self.sync_delay = (1, 4)
        self.cut: dict[tuple[int, int], bool] = {}
        self.notes: list[tuple[int, Note]] = []
        self.sent: list[tuple[int, Send]] = []
        self.leader_of: dict[int, int] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.hwm = 0
        self.tokens: dict[int, Callable[[Any], None]] = {}
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.peers = {node_id: Peer(self, node_id) for node_id in range(1, voters + observers + 1)}
        if start:
            for peer in self.peers.values():
                peer.start()

    def __getitem__(self, node_id: int) -> Peer:
        return self.peers[node_id]

    # --- time --------------------------------------------------------------------------------------------------------

    def at(self, when: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (max(when, self.now), self._sequence, action))

    def run(self, ms: int) -> None:
        self.run_until(lambda: False, ms, must=False)

    def run_until(self, reached: Callable[[], Any], ms: int = 20_000, *, must: bool = True) -> None:
        end = self.now + ms
        while not reached():
            due = self._due[0][0] if self._due else end + 1
            if due > end:
                self.now = end
                assert not must, f"not reached by {end} ms"
                return
            self.now, _, action = heapq.heappop(self._due)
            action()

    def leader(self) -> Peer:
        """Run until the newest epoch has an established leader, and return it."""
        self.run_until(lambda: self.find_leader() is not None)
        leader = self.find_leader()
        assert leader is not None
        return leader

    def find_leader(self) -> Peer | None:
        running = [peer for peer in self.peers.values() if peer.up]
        newest = max((peer.quorum.epoch for peer in running), default=0)
        leaders = [peer for peer in running if peer.leads_in(newest)]
        return leaders[0] if leaders else None

    # --- the network -------------------------------------------------------------------------------------------------

    def isolate(self, node_id: int) -> None:
        for other in self.peers:
            self.cut[node_id, other] = self.cut[other, node_id] = True

    def heal(self) -> None:
        self.cut.clear()
        self.loss = 0.0

    def _lost(self, source: int, target: int) -> bool:
        return (source, target) in self.cut or self.rng.random() < self.loss

    def carry_out(self, peer: Peer) -> None:
        for effect in peer.out.drain():
            if isinstance(effect, Send):
                self._send(peer, effect)
            elif isinstance(effect, Reply):
                self.tokens.pop(effect.token)(effect.response)
            elif isinstance(effect, Sync):
                self._sync(peer, effect)
            elif isinstance(effect, Note):
                self._note(peer, effect)
        self._schedule_tick(peer)

    def _schedule_tick(self, peer: Peer) -> None:
        deadline = peer.quorum.next_deadline() if peer.up else None
        if deadline is not None:
            life = peer.life
            self.at(deadline, lambda: self._tick(peer, life, deadline))

    def _tick(self, peer: Peer, life: int, deadline: int) -> None:
        if peer.life == life and not peer.paused and peer.quorum.next_deadline() == deadline:
            peer.do(lambda: peer.quorum.tick(self.now))
            left = peer.quorum.next_deadline()
            assert left is None or left > self.now, f"{peer.quorum.role} left its deadline {left} undone at {self.now}"

    def _send(self, peer: Peer, send: Send) -> None:
        self.sent.append((peer.id, send))
        life, answered = peer.life, [False]

        def finish(response: Any) -> None:
            if not answered[0] and peer.life == life:
                if peer.paused:
                    self.at(self.now + 20, lambda: finish(response))
                    return
                answered[0] = True
                peer.do(lambda: send.on_response(response, self.now))

        self.at(self.now + send.timeout_ms, lambda: finish(None))
        if not self._lost(peer.id, send.peer):
            self.at(self.now + self.rng.randint(*self.delay), lambda: self._arrive(peer.id, send, finish))

    def _arrive(self, source: int, send: Send, finish: Callable[[Any], None]) -> None:
        target = self.peers[send.peer]
        if not target.up:
            self.at(self.now + 1, lambda: finish(None))
            return
        if target.paused:
            self.at(self.now + 20, lambda: self._arrive(source, send, finish))
            return
        self._sequence += 1
        token = self._sequence

        def reply(response: Any) -> None:
            if not self._lost(target.id, source):
                self.at(self.now + self.rng.randint(*self.delay), lambda: finish(response))

        self.tokens[token] = reply
        target.do(lambda: HANDLERS[type(send.request)](target.quorum, send.request, token, self.now))

    def _sync(self, peer: Peer, sync: Sync) -> None:
        life = peer.life

        def done() -> None:
            if peer.life == life:
                sync.job.run()
                peer.do(lambda: sync.on_done(self.now))

        self.at(self.now + self.rng.randint(*self.sync_delay), done)

    # --- invariants --------------------------------------------------------------------------------------------------

    def _note(self, peer: Peer, note: Note) -> None:
        self.notes.append((peer.id, note))
        if note.kind == "quorum_leader":
            epoch, leader = note.fields["epoch"], note.fields["leader"]
            assert self.leader_of.setdefault(epoch, leader) == leader, f"two leaders in epoch {epoch}"

    def check_committed(self, node_id: int, offset: int, epoch: int, payload: bytes) -> None:
        known = self.committed.setdefault(offset, (epoch, payload))
        assert known == (epoch, payload), f"{node_id} has {(epoch, payload)} committed at {offset}, it was {known}"

    def noted(self, kind: str, node_id: int | None = None) -> list[dict[str, Any]]:
        return [note.fields for source, note in self.notes if note.kind == kind and node_id in (None, source)]
