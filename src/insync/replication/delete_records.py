"""DeleteRecords: the leader raises its log start at once, and answers when every live replica has followed.

Followers get the new log start with their next fetch response, raise their own, and report it with the fetch after
that. Until then one of them could become leader and serve records again that the client believes to be deleted. The low
watermark is the lowest log start of the replicas on live brokers, as in Kafka. A request that times out says so; what
it has deleted stays deleted.
"""

from __future__ import annotations

from insync.replication import offsets
from insync.replication.leader import Leader
from insync.replication.state import ReplicationState
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_records as messages
from insync.wire.types import NO_DURATION, millis

MAX_PARKED = 1_000
"""Requests that may wait at one broker, which checks all of them in every step. Further ones time out at once."""
_NONE = ErrorCode.none


class Deletion:
    """One partition of a request. `offset` is the low watermark it waits for; `leader` is None once it is decided."""

    __slots__ = ("error", "index", "leader", "low_watermark", "offset")

    def __init__(self, index: int) -> None:
        self.index = index
        self.leader: Leader | None = None
        self.offset = self.low_watermark = -1
        self.error = _NONE


class ParkedDelete:
    __slots__ = ("deadline", "deletions", "token")

    def __init__(self, token: int, deadline: int, deletions: dict[str, list[Deletion]]) -> None:
        self.token = token
        self.deadline = deadline
        self.deletions = deletions


class DeleteServer:
    __slots__ = ("_state", "parked")

    def __init__(self, state: ReplicationState) -> None:
        self._state = state
        self.parked: dict[int, ParkedDelete] = {}

    def delete(self, request: messages.DeleteRecordsRequest, token: int, now: int) -> None:
        deletions = {
            topic.name: [self._delete(topic.name, line.partition_index, line.offset) for line in topic.partitions]
            for topic in request.topics
        }
        parked = ParkedDelete(token, now + millis(request.timeout), deletions)
        if self._is_decided(parked) or len(self.parked) >= MAX_PARKED:
            self._reply(parked)
        else:
            self.parked[token] = parked

    def complete_decided(self, now: int) -> None:
        """Answer the requests that are decided or have timed out. To be called at the end of every step."""
        for parked in list(self.parked.values()):
            if self._is_decided(parked) or parked.deadline <= now:
                del self.parked[parked.token]
                self._reply(parked)

    def abandon(self, token: int) -> None:
        parked = self.parked.pop(token, None)
        if parked is not None:
            self._reply(parked)

    def next_deadline(self) -> int | None:
        return min((parked.deadline for parked in self.parked.values()), default=None)

    def _delete(self, topic: str, index: int, before: int) -> Deletion:
        deletion = Deletion(index)
        leader = offsets.leader_by_name(self._state, topic, index, -1)
        if isinstance(leader, ErrorCode):
            deletion.error = leader
            return deletion
        log = leader.replica.log
        result = log.delete_records(before)
        if isinstance(result, ErrorCode):
            deletion.error = result
        else:
            leader.replica.wake_fetches(self._state.woken)
            deletion.leader = leader
            deletion.offset = log.hwm if before == -1 else before
        return deletion

    def _is_decided(self, parked: ParkedDelete) -> bool:
        """Update every deletion of a request; whether all of them are decided."""
        deletions = [deletion for topic in parked.deletions.values() for deletion in topic]
        for deletion in deletions:
            leader = deletion.leader
            if leader is None:
                continue
            if leader.replica.role is not leader:
                deletion.leader, deletion.error = None, ErrorCode.not_leader_or_follower
                continue
            deletion.low_watermark = self._low_watermark(leader)
            if deletion.low_watermark >= deletion.offset:
                deletion.leader = None
        return all(deletion.leader is None for deletion in deletions)

    def _low_watermark(self, leader: Leader) -> int:
        """The log start of a follower that has not fetched from this leader is unknown (-1)."""
        cluster = self._state.cluster
        log_starts = [p.log_start for p in leader.followers.values() if not cluster.is_fenced(p.broker)]
        return min(log_starts, default=leader.replica.log.log_start)

    def _reply(self, parked: ParkedDelete) -> None:
        topics = tuple(
            messages.DeleteRecordsTopicResult(name=name, partitions=tuple(map(_make_result, deletions)))
            for name, deletions in parked.deletions.items()
        )
        response = messages.DeleteRecordsResponse(throttle_time=NO_DURATION, topics=topics)
        self._state.out.reply(parked.token, response)


def _make_result(deletion: Deletion) -> messages.DeleteRecordsPartitionResult:
    error = deletion.error if deletion.leader is None else ErrorCode.request_timed_out
    return messages.DeleteRecordsPartitionResult(
        partition_index=deletion.index,
        low_watermark=deletion.low_watermark if error is _NONE else -1,
        error_code=error,
    )
