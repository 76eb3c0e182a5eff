"""One replica of the metadata log, as the node sees it: requests in, answers and sends out by the `Outbox` (Q1-Q6).

`Quorum` checks that a request is for this cluster and about this log, and gives it to whoever decides: `election`,
`leader`, `follower`, `snapshot`. All state is in `Core`, what a replica is at the moment in `Core.role`.

Notes are listed where they are made: `election`, `leader`, `follower`, `snapshot`, `core`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from insync.errors import InvariantError
from insync.findings import Findings
from insync.quorum import bounds, damage, describe, election, messages, snapshot
from insync.quorum.config import QuorumConfig, QuorumListener
from insync.quorum.core import Core
from insync.quorum.follower import Follower
from insync.quorum.leader import Leader
from insync.quorum.messages import OffsetAndEpoch
from insync.sansio import Message, Outbox
from insync.storage.disk import Disk
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.types import millis

READ_BYTES = 1 << 20


class Quorum:
    """A voter if `node_id` is one of `voters`, else an observer. `now` is not used before `start`."""

    __slots__ = ("_core",)

    def __init__(
        self,
        *,
        node_id: int,
        voters: tuple[int, ...],
        cluster_id: str,
        log: Log,
        disk: Disk,
        directory: str,
        config: QuorumConfig,
        rng: random.Random,
        out: Outbox,
        listener: QuorumListener,
        findings: Findings | None = None,
        now: int = 0,
    ) -> None:
        self._core = Core(
            node_id=node_id,
            voters=voters,
            cluster_id=cluster_id,
            log=log,
            disk=disk,
            directory=directory,
            config=config,
            rng=rng,
            out=out,
            listener=listener,
            findings=findings or Findings(out),
        )

    def start(self, now: int) -> None:
        """Load the snapshot, take up the role that the last uptime left, and begin its timers."""
        core = self._core
        snapshot.open_replica(core, now)
        damage.record_condition(core)
        left = core.election
        if core.voters == (core.node_id,):
            core.become_prospective(now)
        elif left.leader_id == core.node_id:
            core.become_resigned(core.other_voters, "restarted", now)
        elif left.leader_id in core.voters:
            core.become_follower(left.epoch, left.leader_id, now)
        else:
            core.become_unattached(left.epoch, now, core.first_deadline(now))

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        return self._core.leader_id

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def is_leader(self) -> bool:
        return self._core.role.is_leader

    def marks(self) -> tuple[object, ...]:
        """Changes whenever the leader, the epoch, one's own role or what is committed does."""
        core = self._core
        return (core.role, core.election, core.hwm)

    @property
    def role(self) -> str:
        return self._core.role.name

    @property
    def hwm(self) -> int:
        return self._core.hwm

    @property
    def leo(self) -> int:
        return self._core.log.leo

    @property
    def log(self) -> Log:
        return self._core.log

    @property
    def refusal(self) -> str:
        """B9: why this node has no place here: a majority of its voters belongs to another cluster. Else empty."""
        core = self._core
        if len(core.foreign) < core.majority:
            return ""
        voters = ",".join(str(voter) for voter in sorted(core.foreign))
        return (
            f"the voters {voters} belong to another cluster than this node, whose log directory is of cluster "
            f"{core.cluster_id}. Correct controller.quorum.voters or log.dirs."
        )

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        core = self._core
        if core.role.is_leader or not core.waits_for_disk:
            core.role.tick(now)
        core.sync_checkpoint(now)

    def peer_lost(self, peer: int, now: int) -> None:
        self._core.role.peer_lost(peer, now)

    def abandon(self, token: int) -> None:
        self._core.role.abandon(token)

    def next_deadline(self) -> int | None:
        core = self._core
        return core.role.next_deadline() if core.role.is_leader or not core.waits_for_disk else None

    # --- the leader's part -------------------------------------------------------------------------------------------

    def propose(self, payloads: Sequence[bytes], now: int) -> int:
        """Append one batch and return the offset of its last record (Q2: it counts once `on_committed` passes that)."""
        role = self._core.role
        if not isinstance(role, Leader):
            raise InvariantError("Q1", f"node {self._core.node_id} proposes as {role.name}")
        return role.propose(payloads, now)

    def resign(self, now: int) -> None:
        """Give up leadership, if held, and ask the voters to elect another at once."""
        role = self._core.role
        if isinstance(role, Leader):
            role.resign("asked", now)

    def close(self) -> None:
        """A clean stop: the log and the offset checkpoint are durable on return."""
        self._core.log.close()
        self._core.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_committed(self, from_offset: int, to_offset: int) -> Iterator[tuple[int, int, bytes]]:
        """(offset, epoch, payload) of the data records in [from, to), which must be committed and not yet pruned."""
        log = self._core.log
        if from_offset < log.log_start or to_offset > self._core.hwm:
            known = f"[{log.log_start}, {self._core.hwm})"
            raise InvariantError("Q6", f"read of [{from_offset}, {to_offset}) where {known} is there")
        position = from_offset
        while position < to_offset:
            data = self._core.read_log(position, READ_BYTES, to_offset)
            for pos, header in batch.iter_headers(data):
                position = header.next_offset
                if not header.is_control:
                    yield from _payloads(data, pos, header.leader_epoch, from_offset, to_offset)

    def begin_snapshot(self, offset: int, epoch: int) -> snapshot.SnapshotBuilder | None:
        """For the image that all records below `offset` make; None if there is a newer one (Q6)."""
        return snapshot.begin(self._core, OffsetAndEpoch(offset, epoch))

    def write_snapshot(self, builder: snapshot.SnapshotBuilder) -> None:
        """Its payloads are complete. It counts once it is on disk."""
        snapshot.write(self._core, builder)

    # --- requests ----------------------------------------------------------------------------------------------------

    def handle_vote(self, request: Message, token: int, now: int) -> None:
        self._answer(request, token, lambda asked: election.answer_vote(self._core, asked, now))

    def handle_begin_quorum_epoch(self, request: Message, token: int, now: int) -> None:
        self._answer(request, token, lambda asked: self._begin(asked, now))

    def handle_end_quorum_epoch(self, request: Message, token: int, now: int) -> None:
        self._answer(request, token, lambda asked: self._end(asked, now))

    def handle_fetch_snapshot(self, request: Message, token: int, now: int) -> None:
        self._answer(request, token, lambda asked: self._piece(request, asked, now))

    def handle_describe_quorum(self, request: Message, token: int, now: int) -> None:
        self._core.out.reply(token, self.description(now))

    def description(self, now: int) -> Message:
        """The answer to DescribeQuorum; only a leader's tells of voters and observers."""
        return describe.describe(self._core, now)

    def handle_fetch(self, request: Message, token: int, now: int) -> None:
        """Serve a fetch of the metadata log, now or when there is something new."""
        asked = self._about_us(request, token)
        if asked is None:
            return
        role = self._core.role
        error = self._fetch_error(request, asked)
        if error is not ErrorCode.none:
            self._core.out.reply(token, messages.fetch_response(self._core.standing(error)))
        elif isinstance(role, Leader):
            role.fetch(request, asked, token, now)

    def _about_us(self, request: Message, token: int) -> Any | None:
        """The partition that the request is about; a request for another cluster or log is answered with an error."""
        foreign = request.cluster_id is not None and request.cluster_id != self._core.cluster_id
        asked = messages.only(request.topics)
        if asked is None or foreign:
            error = ErrorCode.inconsistent_cluster_id if foreign else ErrorCode.invalid_request
            self._core.out.reply(token, messages.refusal_of(request, error))
            return None
        return asked

    def _answer(self, request: Message, token: int, decide: Callable[[Any], Message]) -> None:
        asked = self._about_us(request, token)
        if asked is not None:
            self._core.out.reply(token, decide(asked))

    def _begin(self, asked: Any, now: int) -> Message:
        """A leader names itself."""
        core = self._core
        error = self._sender_error(asked)
        if error is ErrorCode.none and not core.learn(asked.leader_epoch, asked.leader_id, now, asked=False):
            self._back_to(asked.leader_id, now)
        return messages.begin_response(core.standing(error))

    def _back_to(self, leader_id: int, now: int) -> None:
        """A voter that doubted its leader hears from it again."""
        core = self._core
        if not isinstance(core.role, Follower | Leader) and core.leader_id == leader_id:
            core.become_follower(core.epoch, leader_id, now)

    def _end(self, asked: Any, now: int) -> Message:
        """A leader ends its epoch."""
        core = self._core
        error = self._sender_error(asked)
        if error is ErrorCode.none:
            core.learn(asked.leader_epoch, asked.leader_id, now, asked=False)
            if isinstance(core.role, Follower) and core.role.leader_id == asked.leader_id:
                core.role.leader_ends([each.candidate_id for each in asked.preferred_candidates], now)
        return messages.end_response(core.standing(error))

    def _sender_error(self, asked: Any) -> ErrorCode:
        if asked.leader_epoch < self._core.epoch:
            return ErrorCode.fenced_leader_epoch
        if not self._core.is_voter or asked.leader_id not in self._core.other_voters:
            return ErrorCode.inconsistent_voter_set
        reason = bounds.claim_error(self._core, asked.leader_epoch, asked.leader_id, asked=False)
        if reason:
            self._core.refuse_claim(asked.leader_epoch, asked.leader_id, reason)
            return ErrorCode.invalid_request
        return ErrorCode.none

    def _fetch_error(self, request: Any, asked: Any) -> ErrorCode:
        if asked.fetch_offset < 0 or millis(request.max_wait) < 0:
            return ErrorCode.invalid_request
        if not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch:
            return ErrorCode.invalid_request
        return self._leadership_error(asked.current_leader_epoch)

    def _leadership_error(self, epoch: int) -> ErrorCode:
        """F3, for the metadata log: only the leader of exactly this epoch serves."""
        if epoch < self._core.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > self._core.epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none if self._core.role.is_leader else ErrorCode.not_leader_or_follower

    def _piece(self, request: Any, asked: Any, now: int) -> Message:
        """A piece of a snapshot."""
        core = self._core
        error = self._leadership_error(asked.current_leader_epoch)
        named = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        if error is ErrorCode.none and named not in core.snapshots.ids:
            error = ErrorCode.snapshot_not_found
        if error is not ErrorCode.none or not isinstance(core.role, Leader):
            return messages.fetch_snapshot_response(core.standing(error))
        core.role.heard_from(request.replica_id, now)
        most = max(0, min(request.max_bytes, core.config.snapshot_chunk_bytes))
        size, chunk = core.snapshots.read(named, max(0, asked.position), most)
        if not 0 <= asked.position < size:
            return messages.fetch_snapshot_response(core.standing(ErrorCode.position_out_of_range))
        return messages.fetch_snapshot_response(core.standing(), named, size=size, position=asked.position, chunk=chunk)


def _payloads(
    data: bytes | bytearray, pos: int, epoch: int, from_offset: int, to_offset: int
) -> Iterator[tuple[int, int, bytes]]:
    for record in batch.records(data, pos):
        if from_offset <= record.offset < to_offset:
            yield record.offset, epoch, record.value or b""
