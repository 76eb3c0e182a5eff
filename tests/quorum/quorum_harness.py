"""One quorum replica driven by hand: the test makes its requests and inspects the effects in its outbox."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from insync.findings import Findings
from insync.quorum import messages
from insync.quorum.config import QuorumConfig
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import INTACT
from insync.quorum.quorum import Quorum
from insync.quorum.state import RaftState
from insync.sansio import Note, Outbox, Reply, Send, Sync
from insync.sim.engine.disk import SimDisk
from insync.storage.log import LogFlush
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, vote
from tests.quorum.quorum_net_harness import CLUSTER, DIRECTORY, open_metadata_log


class QuorumHarness:
    def __init__(
        self,
        node_id: int = 1,
        voters: tuple[int, ...] = (1, 2, 3),
        *,
        disk: SimDisk | None = None,
        config: QuorumConfig | None = None,
        start: bool = True,
    ) -> None:
        self.disk = disk or SimDisk()
        self.out = Outbox()
        self.findings = Findings(self.out)
        self.now = 1_000
        self.token = 0
        self.holds_elections = False
        self.snapshots: list[tuple[list[bytes], int, int]] = []
        self.effects: list[Any] = []
        self.replies: dict[int, Any] = {}
        state = RaftState(
            node_id=node_id,
            voters=voters,
            cluster_id=CLUSTER,
            log=open_metadata_log(self.disk),
            disk=self.disk,
            directory=DIRECTORY,
            config=config or QuorumConfig(),
            rng=random.Random(7),
            out=self.out,
            on_snapshot=self.on_snapshot,
            findings=self.findings,
        )
        self.quorum = Quorum(state)
        if start:
            self.quorum.start(self.now)
            self.collect()

    def intact(self) -> QuorumHarness:
        """A voter that took part in the first election of its cluster."""
        self.quorum._state.damage.condition = INTACT
        return self

    def on_snapshot(self, payloads: list[bytes], offset: int, epoch: int, now: int) -> None:
        self.snapshots.append((list(payloads), offset, epoch))

    # --- effects -----------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Take the effects of the outbox. Elections become durable at once unless `holds_elections` is set; syncs of
        the log wait for `sync`."""
        while effects := self.out.drain():
            for effect in effects:
                if isinstance(effect, Reply):
                    self.replies[effect.token] = effect.response
                elif isinstance(effect, Sync) and not (self.holds_elections or isinstance(effect.job, LogFlush)):
                    effect.job.run()
                    effect.on_done(self.now)
                else:
                    self.effects.append(effect)

    def take(self, kind: type) -> list[Any]:
        taken = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return taken

    def sends(self, request: type) -> list[Send]:
        """The requests of one kind that were sent since the last call."""
        sends = [effect for effect in self.effects if isinstance(effect, Send) and isinstance(effect.request, request)]
        self.effects = [effect for effect in self.effects if effect not in sends]
        return sends

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [note.fields for note in self.take(Note) if note.kind == kind]

    def sync(self) -> int:
        """Run the pending syncs and return how many there were."""
        syncs = self.take(Sync)
        for sync in syncs:
            sync.job.run()
            sync.on_done(self.now)
        self.collect()
        return len(syncs)

    def write_snapshot(self, payloads: Sequence[bytes], offset: int, epoch: int) -> None:
        builder = self.quorum.begin_snapshot(offset, epoch)
        if builder is not None:
            builder.add(payloads)
            self.quorum.write_snapshot(builder)
            self.collect()

    def tick(self, now: int | None = None) -> None:
        """Tick at `now`, or at the next deadline."""
        due = self.quorum.next_deadline()
        self.now = now if now is not None else due or self.now
        self.quorum.tick(self.now)
        self.collect()

    def answer(self, send: Send, response: Any) -> None:
        send.on_response(response, self.now)
        self.collect()

    # --- requests ----------------------------------------------------------------------------------------------------

    def _ask(self, handler: Any, request: Any) -> int:
        self.token += 1
        handler(request, self.token, self.now)
        self.collect()
        return self.token

    def vote(self, candidate: int, epoch: int, end: tuple[int, int] = (0, 0), *, pre: bool = False) -> Any:
        request = messages.vote_request(CLUSTER, 1, candidate, epoch, OffsetAndEpoch(*end), pre_vote=pre)
        return self.replies[self._ask(self.quorum.handle_vote, request)].topics[0].partitions[0]

    def begin(self, leader: int, epoch: int) -> Any:
        token = self._ask(self.quorum.handle_begin_quorum_epoch, messages.begin_request(CLUSTER, 1, leader, epoch))
        return self.replies[token].topics[0].partitions[0]

    def end(self, leader: int, epoch: int, successors: tuple[int, ...]) -> Any:
        token = self._ask(self.quorum.handle_end_quorum_epoch, messages.end_request(CLUSTER, leader, epoch, successors))
        return self.replies[token].topics[0].partitions[0]

    def fetch(self, replica: int, epoch: int, end: tuple[int, int], *, max_wait: int = 500) -> int:
        config = QuorumConfig(fetch_max_wait_ms=max_wait)
        request = messages.fetch_request(CLUSTER, replica, epoch, OffsetAndEpoch(*end), 0, config)
        return self._ask(self.quorum.handle_fetch, request)

    def fetched(self, token: int) -> Any:
        return self.replies[token].responses[0].partitions[0]

    # --- roles -------------------------------------------------------------------------------------------------------

    def lead(self) -> QuorumHarness:
        """Win a pre-vote and a vote with the help of voter 2, and sync the leader-change record."""
        if not self.quorum.is_leader:
            self.tick()
            for _ in ("pre-vote", "vote"):
                send = self.sends(vote.VoteRequest)[0]
                info = messages.LeaderInfo(self.quorum.epoch, -1, ErrorCode.none)
                self.answer(send, messages.vote_response(info, granted=True))
        assert self.quorum.is_leader
        self.sync()
        return self

    def follow(self, leader: int = 2, epoch: int = 1) -> Send:
        """Become a follower and return the fetch that it sends."""
        self.begin(leader, epoch)
        return self.sends(fetch.FetchRequest)[-1]


def data(base: int, epoch: int, *payloads: bytes) -> bytes:
    entries = [batch.NewRecord(None, payload) for payload in payloads]
    return bytes(batch.build(entries, base_offset=base, leader_epoch=epoch, timestamp_ms=1))


def fetch_answer(leader: int, epoch: int, **content: Any) -> Any:
    return messages.fetch_response(messages.LeaderInfo(epoch, leader, ErrorCode.none), **content)
