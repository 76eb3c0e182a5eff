"""A voter and two others that send well-formed messages with arbitrary values (Q8).

An input is the seed of a conversation: requests of the quorum with likely and with extreme epochs, offsets and sizes,
responses to the requests of the node, and restarts. Many messages are plausible, so that the node is elected, follows,
truncates and downloads snapshots before it gets invalid ones. It may refuse everything; it must not stop, and it must
be able to read what it has written.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fuzz.one_node import CLUSTER, OneNode
from fuzz.target import Target
from insync.quorum import messages
from insync.quorum import snapshot_store as snapshots
from insync.quorum.config import QuorumConfig
from insync.quorum.messages import LeaderInfo, OffsetAndEpoch
from insync.sansio import Request, Response, Send
from insync.sim.engine.disk import SimDisk
from insync.wire import control
from insync.wire.errors import ErrorCode
from insync.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote

VOTERS = (1, 2, 3)
STEPS = 60
ERRORS = (
    ErrorCode.none,
    ErrorCode.none,
    ErrorCode.none,
    ErrorCode.none,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.not_leader_or_follower,
    ErrorCode.kafka_storage_error,
    ErrorCode.invalid_request,
)


class Conversation:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.disk = SimDisk()
        self.node = OneNode(self.disk, VOTERS)
        self.tokens = 1 << 40

    def run(self) -> None:
        for _ in range(STEPS):
            chance = self.rng.random()
            if chance < 0.3:
                self._ask()
            elif chance < 0.75:
                self._answer()
            elif chance < 0.96:
                self.node.advance(self.rng.choice((1, 20, 300, 2_500, 20_000)))
            else:
                self._restart()
            if self.node.stop is not None:
                raise AssertionError(f"the node stopped: {self.node.stop.reason}")
        self._restart()

    def _restart(self) -> None:
        if self.rng.random() < 0.5:
            self.disk.lossy_crash(self.rng)
        else:
            self.disk.crash()
        self.node = OneNode(self.disk, VOTERS)

    # --- values ------------------------------------------------------------------------------------------------------

    def epoch(self) -> int:
        known = self.node.node.quorum.epoch
        likely = (known, known, known, known + 1, known + 1, known - 1)
        extreme = (0, -1, known + 10_000, known + 10_001, 2**31 - 2, 2**31 - 1, -(2**31))
        return self.rng.choice(likely) if self.rng.random() < 0.8 else self.rng.choice(extreme)

    def offset(self) -> int:
        quorum = self.node.node.quorum
        likely = (quorum.leo, quorum.leo, quorum.hwm, quorum.log.log_start, 0, quorum.leo + 1, quorum.leo - 1)
        extreme = (-1, 2**62, 2**62 + 1, 2**63 - 1, -(2**63))
        return self.rng.choice(likely) if self.rng.random() < 0.8 else self.rng.choice(extreme)

    def position(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.offset(), self.epoch())

    def voter(self) -> int:
        return self.rng.choice((2, 2, 3, 3, 1, -1, 99, 2**31 - 1))

    def leader_info(self, peer: int) -> LeaderInfo:
        leader = self.rng.choice((peer, peer, peer, -1, self.voter()))
        return LeaderInfo(self.epoch(), leader, self.rng.choice(ERRORS))

    def size(self) -> int:
        return self.rng.choice((1 << 20, 1 << 20, 200, 0, -1, 2**31 - 1, -(2**31)))

    # --- requests ----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        rng, sender = self.rng, self.voter()
        config = QuorumConfig(fetch_max_bytes=self.size(), fetch_max_wait_ms=rng.choice((0, 500, 2**31 - 1)))
        request = rng.choice(
            (
                lambda: messages.vote_request(
                    CLUSTER, 1, sender, self.epoch(), self.position(), pre_vote=rng.random() < 0.5
                ),
                lambda: messages.begin_request(CLUSTER, 1, sender, self.epoch()),
                lambda: messages.end_request(CLUSTER, sender, self.epoch(), [self.voter() for _ in range(3)]),
                lambda: messages.fetch_request(CLUSTER, sender, self.epoch(), self.position(), self.offset(), config),
                lambda: messages.fetch_snapshot_request(
                    CLUSTER, sender, self.epoch(), self.position(), self.offset(), self.size()
                ),
            )
        )()
        self.tokens += 1
        self.node.ignored[self.tokens] = None
        self.node.deliver(Request(self.tokens, request))

    # --- answers -----------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        if not self.node.asked:
            self.node.advance(200)
            return
        send = self.node.asked.pop(0)
        answer = None if self.rng.random() < 0.1 else self._answer_to(send)
        self.node.deliver(Response(send, answer))

    def _answer_to(self, send: Send) -> Any:
        info = self.leader_info(send.peer)
        if isinstance(send.request, vote.VoteRequest):
            return messages.vote_response(info, granted=self.rng.random() < 0.7)
        if isinstance(send.request, begin_quorum_epoch.BeginQuorumEpochRequest):
            return messages.begin_response(info)
        if isinstance(send.request, end_quorum_epoch.EndQuorumEpochRequest):
            return messages.end_response(info)
        if isinstance(send.request, fetch_snapshot.FetchSnapshotRequest):
            return self._snapshot_chunk(send.request, info)
        if isinstance(send.request, fetch.FetchRequest):
            return messages.fetch_response(info, hwm=self.offset(), log_start=self.offset(), **self._content())
        return None

    def _content(self) -> dict[str, Any]:
        chance = self.rng.random()
        if chance < 0.5:
            return {"records": self._records()}
        if chance < 0.6:
            return {"diverging": self.position()}
        return {"snapshot": self.position()} if chance < 0.7 else {}

    def _records(self) -> bytes:
        """Leader-change records, which are valid in the log and do not affect the image."""
        made = bytearray()
        base = self.offset()
        for _ in range(self.rng.randrange(1, 4)):
            base = min(max(base, 0), 2**62)
            made += control.leader_change_batch(
                leader_id=2,
                voters=VOTERS,
                granting_voters=VOTERS,
                base_offset=base,
                leader_epoch=max(0, self.epoch()),
                timestamp_ms=1,
            )
            base += 1 if self.rng.random() < 0.9 else self.rng.choice((0, 2))
        if self.rng.random() < 0.1:
            made[self.rng.randrange(len(made))] ^= 1 << self.rng.randrange(8)
        return bytes(made)

    def _snapshot_chunk(self, request: Any, info: LeaderInfo) -> Any:
        asked = request.topics[0].partitions[0]
        named = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        content = bytes(snapshots.encode([], named, 1)) if 0 <= named.epoch < 2**31 else b""
        if self.rng.random() < 0.3:
            named = self.position()
        size = len(content) if self.rng.random() < 0.8 else self.size()
        chunk = content[max(0, asked.position) :] if self.rng.random() < 0.8 else b"x" * 50
        return messages.fetch_snapshot_response(info, named, size=size, position=asked.position, chunk=chunk)


def run(data: bytes) -> None:
    Conversation(Random(data)).run()


def seeds() -> list[bytes]:
    return [b"%d" % number for number in range(8)]


def mutate(data: bytes, rng: Random) -> bytes:
    return data[:8] + rng.randbytes(6)


TARGET = Target(name="quorums", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=60)
