"""Fetching from leaders (F1, F2, F6, R6): one fetcher per leader broker, one request in flight, many partitions in it.

In an incremental session a request names only partitions whose position has changed, so a round in which nothing was
new costs nothing per partition. After a lost response the state of the session is unknown, and a new one is opened.

Notes: late_fetch_answer_dropped(partition, reason).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from insync.metadata.partition import PartitionKey
from insync.replication import follower
from insync.replication.fetch_session import INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from insync.replication.replica import Replica
from insync.replication.state import ReplicationState
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import ZERO_UUID, ms

CHANNEL = "fetch"
CORRUPT_FETCH = "corrupt_fetch"
_DAMAGED = (ErrorCode.corrupt_message, ErrorCode.kafka_storage_error)
_SESSION_LOST = (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch)


@dataclass(slots=True, eq=False)
class Position:
    """One partition in a fetcher: the epoch it is fetched in, and its state when it was last requested."""

    replica: Replica
    leader_epoch: int
    requested_epoch: int = -1
    requested_offset: int = -1
    requested_last_epoch: int = -1
    requested_log_start: int = -1
    held_back: bool = False
    """R6: it was noted that the throttle holds this partition back."""
    reported_damage: bool = False
    """D6: the finding says that the leader's records are damaged."""


class Fetcher:
    __slots__ = (
        "_backoff_until",
        "_delayed",
        "_finish_step",
        "_in_flight",
        "_in_session",
        "_is_stopped",
        "_leader",
        "_positions",
        "_session_epoch",
        "_session_id",
        "_state",
        "_to_forget",
        "_to_send",
    )

    def __init__(self, state: ReplicationState, leader: int, finish_step: Callable[[int], None]) -> None:
        self._state = state
        self._leader = leader
        self._finish_step = finish_step
        self._positions: dict[PartitionKey, Position] = {}
        self._to_send: dict[PartitionKey, None] = {}
        self._to_forget: dict[PartitionKey, None] = {}
        self._in_session: dict[PartitionKey, None] = {}
        self._delayed: dict[PartitionKey, int] = {}
        """Partitions that are left out of requests, and until when."""
        self._backoff_until = 0
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._in_flight = False
        self._is_stopped = False

    def add(self, replica: Replica, leader_epoch: int) -> None:
        """F6: fetch this replica from its LEO on, in this epoch; responses to earlier requests are late."""
        key = replica.key
        position = self._positions.get(key)
        if position is None:
            self._positions[key] = Position(replica, leader_epoch)
        else:
            position.replica = replica
            position.leader_epoch = leader_epoch
            position.held_back = position.reported_damage = False
        self._delayed.pop(key, None)
        self._to_forget.pop(key, None)
        self._to_send[key] = None
        self._state.findings.clear(CORRUPT_FETCH, replica.partition.name)

    def remove(self, key: PartitionKey) -> None:
        """F6: this replica leads now, or is gone; the session forgets it with the next request."""
        position = self._positions.pop(key, None)
        self._delayed.pop(key, None)
        self._remove_from_session(key)
        if position is not None:
            self._state.findings.clear(CORRUPT_FETCH, position.replica.partition.name)

    def stop(self) -> None:
        self._is_stopped = True

    def next_deadline(self) -> int | None:
        if self._in_flight or self._is_stopped or not self._positions:
            return None
        if len(self._delayed) < len(self._positions):
            return self._backoff_until
        return max(self._backoff_until, min(self._delayed.values()))

    # --- requests ---

    def maybe_send(self, now: int) -> None:
        if self._in_flight or self._is_stopped or now < self._backoff_until:
            return
        for key in [key for key, until in self._delayed.items() if until <= now]:
            del self._delayed[key]
            self._to_send[key] = None
            self._to_forget.pop(key, None)
        if self._state.follower_throttle.is_exceeded(now):
            self._hold_back(now)
        if len(self._delayed) == len(self._positions):
            return
        is_full = self._session_epoch == INITIAL_EPOCH
        keys = [key for key in self._positions if key not in self._delayed] if is_full else list(self._to_send)
        request = self._make_request(keys, () if is_full else tuple(self._to_forget))
        if is_full:
            self._in_session.clear()
        self._in_session.update(dict.fromkeys(keys))
        self._to_send.clear()
        self._to_forget.clear()
        self._in_flight = True
        timeout_ms = self._state.config.replica_fetch_timeout_ms
        self._state.out.send(self._leader, CHANNEL, request, self._on_response, timeout_ms)

    def _make_request(self, keys: list[PartitionKey], forgotten: tuple[PartitionKey, ...]) -> fetch.FetchRequest:
        """F2: our LEO, and the epochs by which the leader sees whether our log diverges."""
        config = self._state.config
        topics: dict[UUID, list[fetch.FetchPartition]] = {}
        for key in keys:
            position = self._positions[key]
            log = position.replica.log
            position.requested_epoch = position.leader_epoch
            position.requested_offset = log.leo
            position.requested_last_epoch = log.epochs.last_epoch
            position.requested_log_start = log.log_start
            topics.setdefault(key[0], []).append(
                fetch.FetchPartition(
                    partition=key[1],
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.requested_offset,
                    last_fetched_epoch=position.requested_last_epoch,
                    log_start_offset=position.requested_log_start,
                    partition_max_bytes=config.replica_fetch_max_bytes,
                )
            )
        forgotten_topics: dict[UUID, list[int]] = {}
        for topic_id, index in forgotten:
            forgotten_topics.setdefault(topic_id, []).append(index)
        return fetch.FetchRequest(
            replica_state=fetch.ReplicaState(
                replica_id=self._state.broker_id, replica_epoch=self._state.cluster.broker_epoch
            ),
            max_wait=ms(config.replica_fetch_wait_max_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=tuple(
                fetch.FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
            forgotten_topics_data=tuple(
                fetch.ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes))
                for topic_id, indexes in forgotten_topics.items()
            ),
        )

    # --- responses ---

    def _on_response(self, response: fetch.FetchResponse | None, now: int) -> None:
        self._in_flight = False
        if self._is_stopped:
            return
        if response is None or response.error_code is not ErrorCode.none:
            asked_for_new = self._session_epoch == INITIAL_EPOCH
            # The request that opens the next session names this one, which closes it if it still exists.
            self._session_epoch = INITIAL_EPOCH
            if response is None or response.error_code not in _SESSION_LOST or asked_for_new:
                self._backoff_until = now + self._state.config.replica_fetch_backoff_ms
        else:
            self._session_id = response.session_id
            if response.session_id == NO_SESSION:
                self._session_epoch = INITIAL_EPOCH
            else:
                self._session_epoch = self._session_epoch + 1 if self._session_epoch < MAX_EPOCH else 1
            for topic in response.responses:
                topic_id = topic.topic_id or ZERO_UUID
                for fetched in topic.partitions:
                    self._apply((topic_id, fetched.partition_index), fetched, now)
        self._finish_step(now)

    def _apply(self, key: PartitionKey, fetched: fetch.PartitionData, now: int) -> None:
        position = self._positions.get(key)
        if position is None or key in self._delayed:
            self._note_dropped(key, "removed")
            return
        if not is_of_this_epoch(position.requested_epoch, position.leader_epoch):
            self._note_dropped(key, "epoch")
            return
        replica = position.replica
        log = replica.log
        if not is_at_leo(position.requested_offset, log.leo):
            self._to_send[key] = None
            self._note_dropped(key, "offset")
            return
        error = follower.apply_fetched(self._state, replica, fetched)
        if fetched.records and self._counts_as_copy(replica):
            self._state.follower_throttle.count(len(fetched.records), now)
        if error is not ErrorCode.none:
            if error in _DAMAGED:
                self._report_damage(position, error)
            self._delay(key, now + self._state.config.replica_fetch_backoff_ms)
            return
        if position.reported_damage:
            position.reported_damage = False
            self._state.findings.clear(CORRUPT_FETCH, replica.partition.name)
        if (
            log.leo != position.requested_offset
            or log.epochs.last_epoch != position.requested_last_epoch
            or log.log_start != position.requested_log_start
        ):
            self._to_send[key] = None

    def _report_damage(self, position: Position, error: ErrorCode) -> None:
        """D6: say why this replica makes no progress, and so does not join the ISR."""
        position.reported_damage = True
        text = (
            f"The records of leader {self._leader} from offset {position.requested_offset} on are damaged "
            f"({error.name.upper()}), so this replica does not catch up. It retries until a leader has an intact copy."
        )
        self._state.findings.report(CORRUPT_FETCH, position.replica.partition.name, text)

    def _note_dropped(self, key: PartitionKey, reason: str) -> None:
        replica = self._state.replicas.get(key)
        name = f"{key[0]}-{key[1]}" if replica is None else replica.partition.name
        self._state.out.note("late_fetch_answer_dropped", partition=name, reason=reason)

    # --- leaving partitions out ---

    def _counts_as_copy(self, replica: Replica) -> bool:
        """R6: whether records for this replica count against the throttled rate."""
        partition = replica.partition
        return self._state.follower_throttle.covers(partition, self._state.broker_id, partition.isr)

    def _hold_back(self, now: int) -> None:
        """R6: the rate is exceeded, so the partitions it covers are not requested. Members of the ISR always are."""
        throttle = self._state.follower_throttle
        for key, position in self._positions.items():
            if key in self._delayed or not self._counts_as_copy(position.replica):
                continue
            self._delay(key, throttle.retry_at(now))
            if not position.held_back:
                position.held_back = True
                throttle.note_throttled(position.replica.partition, self._state.broker_id)

    def _delay(self, key: PartitionKey, until: int) -> None:
        """One partition's error does not delay the others: it leaves the session for a while."""
        self._delayed[key] = until
        self._remove_from_session(key)

    def _remove_from_session(self, key: PartitionKey) -> None:
        self._to_send.pop(key, None)
        if key in self._in_session:
            del self._in_session[key]
            self._to_forget[key] = None


def is_of_this_epoch(requested_epoch: int, leader_epoch: int) -> bool:
    """F6: the response is to a request of the epoch in which this replica follows now."""
    return requested_epoch == leader_epoch


def is_at_leo(requested_offset: int, leo: int) -> bool:
    """F5, F6: the response continues the log exactly where it ends now."""
    return requested_offset == leo


class Fetchers:
    """All fetchers of one broker, and which partition each of them has."""

    __slots__ = ("_by_leader", "_by_partition", "_finish_step", "_is_stopped", "_state")

    def __init__(self, state: ReplicationState, finish_step: Callable[[int], None]) -> None:
        self._state = state
        self._finish_step = finish_step
        self._by_leader: dict[int, Fetcher] = {}
        self._by_partition: dict[PartitionKey, Fetcher] = {}
        self._is_stopped = False

    def add(self, replica: Replica, leader: int, leader_epoch: int) -> None:
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = Fetcher(self._state, leader, self._finish_step)
        if self._by_partition.get(replica.key) is not fetcher:
            self.remove(replica.key)
            self._by_partition[replica.key] = fetcher
        fetcher.add(replica, leader_epoch)

    def remove(self, key: PartitionKey) -> None:
        fetcher = self._by_partition.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)

    def send_ready(self, now: int) -> None:
        if not self._is_stopped:
            for fetcher in self._by_leader.values():
                fetcher.maybe_send(now)

    def stop(self) -> None:
        self._is_stopped = True
        for fetcher in self._by_leader.values():
            fetcher.stop()

    def next_deadline(self) -> int | None:
        if self._is_stopped:
            return None
        deadlines = (fetcher.next_deadline() for fetcher in self._by_leader.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)
