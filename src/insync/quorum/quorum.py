"""One replica of the metadata log, as the node sees it: requests in, answers and sends out by the `Outbox` (Q1-Q6).

`Quorum` checks that a request is for this cluster and about this log, and passes it to the module that decides:
`election`, `leader`, `follower` or `snapshot`. All state is in `RaftState`; `RaftState.role` is the current role.

Each module lists the notes that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from insync.errors import InvariantError
from insync.quorum import describe, election, messages, snapshot
from insync.quorum.follower import Follower
from insync.quorum.leader import Leader
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.snapshot_store import SnapshotBuilder
from insync.quorum.state import NoRole, RaftState
from insync.quorum.transitions import RoleTransitions
from insync.sansio import Message
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import begin_quorum_epoch, describe_quorum, end_quorum_epoch, fetch, fetch_snapshot, vote
from insync.wire.types import millis

READ_BYTES = 1 << 20


class Quorum:
    """A voter if the state's `node_id` is one of its `voters`, else an observer."""

    __slots__ = ("_state", "_transitions")

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._transitions = RoleTransitions(state)
        state.role = NoRole(state, self._transitions)

    def start(self, now: int) -> None:
        """Load the snapshot, enter the role that follows from the stored election state, and begin its timers."""
        state = self._state
        snapshot.open_replica(state, now)
        state.record_condition()
        stored = state.election
        if state.voters == (state.node_id,):
            self._transitions.become_prospective(now)
        elif stored.leader_id == state.node_id:
            self._transitions.become_resigned(state.other_voters, "restarted", now)
        elif stored.leader_id in state.voters:
            self._transitions.become_follower(stored.epoch, stored.leader_id, now)
        else:
            self._transitions.become_unattached(stored.epoch, now, state.timeouts.first_deadline(now))

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        return self._state.leader_id

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def is_leader(self) -> bool:
        return self._state.role.is_leader

    @property
    def is_waiting_for_disk(self) -> bool:
        """Whether the outcome of an election is not on disk yet; until then nothing of it is sent."""
        return self._state.is_waiting_for_disk

    def change_token(self) -> tuple[object, ...]:
        """Changes whenever the leader, the epoch, the role or the high watermark does."""
        state = self._state
        return (state.role, state.election, state.hwm)

    @property
    def role(self) -> str:
        return self._state.role.name

    @property
    def hwm(self) -> int:
        return self._state.hwm

    @property
    def has_leaders_hwm(self) -> bool:
        """Whether `hwm` is what the leader of the current epoch, perhaps this node, has as its high watermark."""
        role = self._state.role
        if isinstance(role, Leader):
            return role.has_committed_own_epoch
        return isinstance(role, Follower) and 0 <= role.leader_hwm <= self._state.hwm

    @property
    def leo(self) -> int:
        return self._state.log.leo

    @property
    def log(self) -> Log:
        return self._state.log

    @property
    def cluster_mismatch(self) -> str:
        """B9: says that a majority of the voters belongs to another cluster than this node; empty if it does not."""
        state = self._state
        if len(state.foreign_voters) < state.majority:
            return ""
        voters = ",".join(str(voter) for voter in sorted(state.foreign_voters))
        return (
            f"voters {voters} belong to another cluster than this node, whose log directory has cluster id "
            f"{state.cluster_id}. Correct controller.quorum.voters or log.dirs."
        )

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        state = self._state
        if state.role.is_leader or not state.is_waiting_for_disk:
            state.role.tick(now)
        state.sync_checkpoint(now)

    def peer_lost(self, peer: int, now: int) -> None:
        self._state.role.peer_lost(peer, now)

    def abandon(self, token: int) -> None:
        self._state.role.abandon(token)

    def next_deadline(self) -> int | None:
        state = self._state
        return state.role.next_deadline() if state.role.is_leader or not state.is_waiting_for_disk else None

    # --- the leader's part -------------------------------------------------------------------------------------------

    def propose(self, payloads: Sequence[bytes], now: int) -> int:
        """Append one batch and return the offset of its last record (Q2: it counts once `hwm` passes that)."""
        role = self._state.role
        if not isinstance(role, Leader):
            raise InvariantError("Q1", f"node {self._state.node_id} proposes as {role.name}")
        return role.propose(payloads, now)

    def resign(self, now: int) -> None:
        """Give up leadership, if held, and ask the voters to elect another at once."""
        role = self._state.role
        if isinstance(role, Leader):
            role.resign("asked", now)

    def close(self) -> None:
        """A clean stop: the log and the offset checkpoint are durable on return."""
        self._state.log.close()
        self._state.close()

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_committed(self, from_offset: int, to_offset: int) -> Iterator[tuple[int, int, bytes]]:
        """(offset, epoch, payload) of the data records in [from, to), which must be committed and not yet pruned."""
        log = self._state.log
        if from_offset < log.log_start or to_offset > self._state.hwm:
            available = f"[{log.log_start}, {self._state.hwm})"
            raise InvariantError("Q6", f"read of [{from_offset}, {to_offset}), but only {available} is available")
        position = from_offset
        while position < to_offset:
            data = self._state.read_log(position, READ_BYTES, to_offset)
            for pos, header in batch.iter_headers(data):
                position = header.next_offset
                if not header.is_control:
                    yield from _payloads(data, pos, header.leader_epoch, from_offset, to_offset)

    def begin_snapshot(self, offset: int, epoch: int) -> SnapshotBuilder | None:
        """Begin a snapshot of the image that all records below `offset` make; None if there is a newer one (Q6)."""
        return snapshot.begin(self._state, OffsetAndEpoch(offset, epoch))

    def write_snapshot(self, builder: SnapshotBuilder) -> None:
        """Write a snapshot whose payloads are complete. It replaces older ones once it is on disk."""
        snapshot.write(self._state, builder)

    # --- requests ----------------------------------------------------------------------------------------------------

    def handle_vote(self, request: vote.VoteRequest, token: int, now: int) -> None:
        self._reply(
            request, token, lambda partition: election.answer_vote(self._state, self._transitions, partition, now)
        )

    def handle_begin_quorum_epoch(
        self, request: begin_quorum_epoch.BeginQuorumEpochRequest, token: int, now: int
    ) -> None:
        self._reply(request, token, lambda partition: self._begin_epoch(partition, now))

    def handle_end_quorum_epoch(self, request: end_quorum_epoch.EndQuorumEpochRequest, token: int, now: int) -> None:
        self._reply(request, token, lambda partition: self._end_epoch(partition, now))

    def handle_fetch_snapshot(self, request: fetch_snapshot.FetchSnapshotRequest, token: int, now: int) -> None:
        self._reply(request, token, lambda partition: self._read_snapshot_chunk(request, partition, now))

    def handle_describe_quorum(self, request: describe_quorum.DescribeQuorumRequest, token: int, now: int) -> None:
        self._state.out.reply(token, self.describe(now))

    def describe(self, now: int) -> describe_quorum.DescribeQuorumResponse:
        """The answer to DescribeQuorum; only a leader knows voters and observers."""
        return describe.describe(self._state, now)

    def handle_fetch(self, request: fetch.FetchRequest, token: int, now: int) -> None:
        """Serve a fetch of the metadata log, now or when there is something new."""
        partition = self._checked_partition(request, token)
        if partition is None:
            return
        role = self._state.role
        error = self._fetch_error(request, partition)
        if error is not ErrorCode.none:
            self._state.out.reply(token, messages.fetch_response(self._state.leader_info(error)))
        elif isinstance(role, Leader):
            role.fetch(request, partition, token, now)

    def _checked_partition(self, request: Message, token: int) -> Any | None:
        """The partition in the request; None after refusing a request for another cluster or another log."""
        is_foreign = request.cluster_id is not None and request.cluster_id != self._state.cluster_id
        partition = messages.metadata_partition(request.topics)
        if partition is None or is_foreign:
            error = ErrorCode.inconsistent_cluster_id if is_foreign else ErrorCode.invalid_request
            self._state.out.reply(token, messages.error_response(request, error))
            return None
        return partition

    def _reply(self, request: Message, token: int, decide: Callable[[Any], Message]) -> None:
        partition = self._checked_partition(request, token)
        if partition is not None:
            self._state.out.reply(token, decide(partition))

    def _begin_epoch(
        self, partition: begin_quorum_epoch.RequestPartition, now: int
    ) -> begin_quorum_epoch.BeginQuorumEpochResponse:
        """The sender says that it leads. A voter that doubted this leader returns to it."""
        state, leader_id = self._state, partition.leader_id
        error = self._sender_error(partition)
        if error is ErrorCode.none:
            learned = self._transitions.learn(partition.leader_epoch, leader_id, now, solicited=False)
            doubts_leader = not isinstance(state.role, Follower | Leader) and state.leader_id == leader_id
            if not learned and doubts_leader:
                self._transitions.become_follower(state.epoch, leader_id, now)
        return messages.begin_response(state.leader_info(error))

    def _end_epoch(
        self, partition: end_quorum_epoch.RequestPartition, now: int
    ) -> end_quorum_epoch.EndQuorumEpochResponse:
        """The sender, a leader, has resigned."""
        state = self._state
        error = self._sender_error(partition)
        if error is ErrorCode.none:
            self._transitions.learn(partition.leader_epoch, partition.leader_id, now, solicited=False)
            if isinstance(state.role, Follower) and state.role.leader_id == partition.leader_id:
                successors = [candidate.candidate_id for candidate in partition.preferred_candidates]
                state.role.on_leader_resigned(successors, now)
        return messages.end_response(state.leader_info(error))

    def _sender_error(
        self, partition: begin_quorum_epoch.RequestPartition | end_quorum_epoch.RequestPartition
    ) -> ErrorCode:
        if partition.leader_epoch < self._state.epoch:
            return ErrorCode.fenced_leader_epoch
        if not self._state.is_voter or partition.leader_id not in self._state.other_voters:
            return ErrorCode.inconsistent_voter_set
        reason = self._state.claim_error(partition.leader_epoch, partition.leader_id, solicited=False)
        if reason:
            self._state.refuse_claim(partition.leader_epoch, partition.leader_id, reason)
            return ErrorCode.invalid_request
        return ErrorCode.none

    def _fetch_error(self, request: fetch.FetchRequest, partition: fetch.FetchPartition) -> ErrorCode:
        if partition.fetch_offset < 0 or millis(request.max_wait) < 0:
            return ErrorCode.invalid_request
        if not 0 <= partition.last_fetched_epoch <= partition.current_leader_epoch:
            return ErrorCode.invalid_request
        return self._leadership_error(partition.current_leader_epoch)

    def _leadership_error(self, epoch: int) -> ErrorCode:
        """F3, for the metadata log: only the leader of exactly this epoch serves."""
        if epoch < self._state.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > self._state.epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none if self._state.role.is_leader else ErrorCode.not_leader_or_follower

    def _read_snapshot_chunk(
        self, request: fetch_snapshot.FetchSnapshotRequest, partition: fetch_snapshot.RequestPartition, now: int
    ) -> fetch_snapshot.FetchSnapshotResponse:
        state, position = self._state, partition.position
        error = self._leadership_error(partition.current_leader_epoch)
        snapshot_id = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if error is ErrorCode.none and snapshot_id not in state.snapshots.ids:
            error = ErrorCode.snapshot_not_found
        if error is not ErrorCode.none or not isinstance(state.role, Leader):
            return messages.fetch_snapshot_response(state.leader_info(error))
        state.role.record_fetch(request.replica_id, now)
        max_bytes = max(0, min(request.max_bytes, state.config.snapshot_chunk_bytes))
        size, chunk = state.snapshots.read(snapshot_id, max(0, position), max_bytes)
        if not 0 <= position < size:
            return messages.fetch_snapshot_response(state.leader_info(ErrorCode.position_out_of_range))
        return messages.fetch_snapshot_response(
            state.leader_info(), snapshot_id, size=size, position=position, chunk=chunk
        )


def _payloads(
    data: bytes | bytearray, pos: int, epoch: int, from_offset: int, to_offset: int
) -> Iterator[tuple[int, int, bytes]]:
    for record in batch.records(data, pos):
        if from_offset <= record.offset < to_offset:
            yield record.offset, epoch, record.value or b""
