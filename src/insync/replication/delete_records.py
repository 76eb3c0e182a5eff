"""DeleteRecords: the leader raises its log start at once, and answers when every live replica has followed.

Followers hear of a new log start with their next answers, raise their own, and say so in the fetch after that. Until
then one of them could become leader and show again what the client believes to be gone. The low watermark is the lowest
log start among the replicas on brokers that are alive, as in Kafka. A request whose time is up hears so; what it has
deleted stays deleted.
"""

from __future__ import annotations

from insync.replication import offsets
from insync.replication.core import Core
from insync.replication.leader import Leader
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_records as messages
from insync.wire.types import NO_DURATION, millis

MAX_PARKED = 1_000
"""Requests that wait at one broker, which looks at all of them in every step; beyond that nobody waits."""
_NONE = ErrorCode.none


class Deletion:
    """One partition of a request. `offset` is the low watermark it waits for; `leader` is None once it is decided."""

    __slots__ = ("error", "index", "leader", "low_watermark", "offset")

    def __init__(self, index: int) -> None:
        self.index = index
        self.leader: Leader | None = None
        self.offset = self.low_watermark = -1
        self.error = _NONE

    def look(self) -> None:
        """Is it decided by now?"""
        leader = self.leader
        if leader is None:
            return
        if leader.replica.role is not leader:
            self.leader, self.error = None, ErrorCode.not_leader_or_follower
            return
        self.low_watermark = low_watermark(leader)
        if self.low_watermark >= self.offset:
            self.leader = None


class Parked:
    __slots__ = ("deadline", "deletions", "token")

    def __init__(self, token: int, deadline: int, deletions: dict[str, list[Deletion]]) -> None:
        self.token = token
        self.deadline = deadline
        self.deletions = deletions

    def look(self) -> bool:
        """Whether everything is decided."""
        every = [deletion for lines in self.deletions.values() for deletion in lines]
        for deletion in every:
            deletion.look()
        return all(deletion.leader is None for deletion in every)


class DeleteServer:
    __slots__ = ("_core", "parked")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.parked: dict[int, Parked] = {}

    def delete(self, request: messages.DeleteRecordsRequest, token: int, now: int) -> None:
        deletions = {
            topic.name: [self._delete(topic.name, asked.partition_index, asked.offset) for asked in topic.partitions]
            for topic in request.topics
        }
        parked = Parked(token, now + millis(request.timeout), deletions)
        if parked.look() or len(self.parked) >= MAX_PARKED:
            self._answer(parked)
        else:
            self.parked[token] = parked

    def settle(self, now: int) -> None:
        """At the end of every step in which anything may have changed."""
        for parked in [each for each in self.parked.values() if each.look() or each.deadline <= now]:
            del self.parked[parked.token]
            self._answer(parked)

    def abandon(self, token: int) -> None:
        parked = self.parked.pop(token, None)
        if parked is not None:
            self._answer(parked)

    def next_deadline(self) -> int | None:
        return min((parked.deadline for parked in self.parked.values()), default=None)

    def _delete(self, topic: str, index: int, before: int) -> Deletion:
        deletion = Deletion(index)
        leader = offsets.leader_by_name(self._core, topic, index, -1)
        if isinstance(leader, ErrorCode):
            deletion.error = leader
            return deletion
        log = leader.replica.log
        result = log.delete_records(before)
        if isinstance(result, ErrorCode):
            deletion.error = result
        else:
            leader.replica.disturbed(self._core.woken)
            deletion.leader = leader
            deletion.offset = log.hwm if before == -1 else before
        return deletion

    def _answer(self, parked: Parked) -> None:
        topics = tuple(
            messages.DeleteRecordsTopicResult(name=name, partitions=tuple(_line(each) for each in lines))
            for name, lines in parked.deletions.items()
        )
        answer = messages.DeleteRecordsResponse(throttle_time=NO_DURATION, topics=topics)
        self._core.out.reply(parked.token, answer)


def low_watermark(leader: Leader) -> int:
    """A follower that has not fetched from this leader yet may have anything."""
    cluster = leader.core.cluster
    alive = [each.log_start for each in leader.followers.values() if not cluster.is_fenced(each.broker)]
    return min(alive, default=leader.replica.log.log_start)


def _line(deletion: Deletion) -> messages.DeleteRecordsPartitionResult:
    error = deletion.error if deletion.leader is None else ErrorCode.request_timed_out
    return messages.DeleteRecordsPartitionResult(
        partition_index=deletion.index,
        low_watermark=deletion.low_watermark if error is _NONE else -1,
        error_code=error,
    )
