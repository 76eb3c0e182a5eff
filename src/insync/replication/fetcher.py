"""Fetching from leaders (F1, F2, F6, R6): one fetcher per leader broker, one request in flight, many partitions in it.

In an incremental session a request names only partitions whose position has changed, so a round in which nothing was
new costs nothing per partition. After a lost answer nobody knows how far the session got, and it starts anew.

Notes: late_fetch_answer_dropped(partition, reason).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


class Position:
    """One partition in a fetcher: the epoch it is fetched in, and where it stood when it was last asked for."""

    __slots__ = (
        "asked_epoch",
        "asked_last_epoch",
        "asked_log_start",
        "asked_offset",
        "held_back",
        "leader_epoch",
        "replica",
    )

    def __init__(self, replica: Replica, leader_epoch: int) -> None:
        self.replica = replica
        self.leader_epoch = leader_epoch
        self.asked_epoch = self.asked_offset = self.asked_last_epoch = self.asked_log_start = -1
        self.held_back = False


class Fetcher:
    __slots__ = (
        "_backoff_until",
        "_delayed",
        "_finish",
        "_forget",
        "_in_session",
        "_leader",
        "_session_epoch",
        "_session_id",
        "_state",
        "_stopped",
        "_to_send",
        "in_flight",
        "positions",
    )

    def __init__(self, state: ReplicationState, leader: int, finish: Callable[[int], None]) -> None:
        self._state = state
        self._leader = leader
        self._finish = finish
        self.positions: dict[PartitionKey, Position] = {}
        self._to_send: dict[PartitionKey, None] = {}
        self._forget: dict[PartitionKey, None] = {}
        self._in_session: dict[PartitionKey, None] = {}
        self._delayed: dict[PartitionKey, int] = {}
        self._backoff_until = 0
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self.in_flight = False
        self._stopped = False

    def add(self, replica: Replica, leader_epoch: int) -> None:
        """F6: fetch it from its LEO on, in this epoch; an answer from before is late."""
        position = self.positions.get(replica.key)
        if position is None:
            self.positions[replica.key] = Position(replica, leader_epoch)
        else:
            position.replica = replica
            position.leader_epoch = leader_epoch
            position.held_back = False
        self._delayed.pop(replica.key, None)
        self._forget.pop(replica.key, None)
        self._to_send[replica.key] = None
        self._state.findings.clear(CORRUPT_FETCH, replica.partition.name)

    def remove(self, key: PartitionKey) -> None:
        """F6: it leads now, or is gone; the session forgets it with the next request."""
        position = self.positions.pop(key, None)
        self._drop_from_session(key)
        if position is not None:
            self._state.findings.clear(CORRUPT_FETCH, position.replica.partition.name)

    def stop(self) -> None:
        self._stopped = True

    def next_deadline(self) -> int | None:
        if self.in_flight or self._stopped or not self.positions:
            return None
        if len(self._delayed) < len(self.positions):
            return self._backoff_until
        return max(self._backoff_until, min(self._delayed.values()))

    # --- asking ---

    def maybe_send(self, now: int) -> None:
        if self.in_flight or self._stopped or now < self._backoff_until:
            return
        self._end_delays(now)
        if self._state.follower_throttle.is_exceeded(now):
            self._hold_back(now)
        if len(self._delayed) == len(self.positions):
            return
        full = self._session_epoch == INITIAL_EPOCH
        wanted = [key for key in self.positions if key not in self._delayed] if full else list(self._to_send)
        request = self._request(wanted, () if full else tuple(self._forget))
        if full:
            self._in_session.clear()
        self._in_session.update(dict.fromkeys(wanted))
        self._to_send.clear()
        self._forget.clear()
        self.in_flight = True
        self._state.out.send(
            self._leader, CHANNEL, request, self._on_response, self._state.config.replica_fetch_timeout_ms
        )

    def _request(self, wanted: list[PartitionKey], forgotten: tuple[PartitionKey, ...]) -> fetch.FetchRequest:
        config = self._state.config
        state = fetch.ReplicaState(replica_id=self._state.broker_id, replica_epoch=self._state.cluster.broker_epoch)
        return fetch.FetchRequest(
            replica_state=state,
            max_wait=ms(config.replica_fetch_wait_max_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=tuple(
                fetch.FetchTopic(topic_id=topic_id, partitions=tuple(self._ask(topic_id, index) for index in indexes))
                for topic_id, indexes in _by_topic(wanted)
            ),
            forgotten_topics_data=tuple(
                fetch.ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes))
                for topic_id, indexes in _by_topic(forgotten)
            ),
        )

    def _ask(self, topic_id: UUID, index: int) -> fetch.FetchPartition:
        """F2: our LEO, and the epochs that let the leader see whether it fits."""
        position = self.positions[topic_id, index]
        log = position.replica.log
        position.asked_epoch = position.leader_epoch
        position.asked_offset = log.leo
        position.asked_last_epoch = log.last_epoch
        position.asked_log_start = log.log_start
        return fetch.FetchPartition(
            partition=index,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=log.leo,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=log.log_start,
            partition_max_bytes=self._state.config.replica_fetch_max_bytes,
        )

    # --- hearing ---

    def _on_response(self, response: fetch.FetchResponse | None, now: int) -> None:
        self.in_flight = False
        if self._stopped:
            return
        if response is None:
            self._restart_session()
            self._backoff_until = now + self._state.config.replica_fetch_backoff_ms
        elif response.error_code is not ErrorCode.none:
            self._restart_session()
            if response.error_code not in _SESSION_LOST:
                self._backoff_until = now + self._state.config.replica_fetch_backoff_ms
        else:
            self._continue_session(response.session_id)
            for topic in response.responses:
                topic_id = topic.topic_id or ZERO_UUID
                for answer in topic.partitions:
                    self._take((topic_id, answer.partition_index), answer, now)
        self._finish(now)

    def _take(self, key: PartitionKey, answer: fetch.PartitionData, now: int) -> None:
        position = self.positions.get(key)
        if position is None or key in self._delayed:
            return self._drop(key, "removed")
        if not is_of_this_epoch(position.asked_epoch, position.leader_epoch):
            return self._drop(key, "epoch")
        log = position.replica.log
        if not is_at_leo(position.asked_offset, log.leo):
            self._to_send[key] = None
            return self._drop(key, "offset")
        error = follower.apply_fetched(self._state, position.replica, answer)
        if answer.records and self._copies(position.replica):
            self._state.follower_throttle.count(len(answer.records), now)
        self._tell_damage(position, error)
        if error is not ErrorCode.none:
            self._delay(key, now + self._state.config.replica_fetch_backoff_ms)
        elif (
            log.leo != position.asked_offset
            or log.last_epoch != position.asked_last_epoch
            or log.log_start != position.asked_log_start
        ):
            self._to_send[key] = None
        return None

    def _tell_damage(self, position: Position, error: ErrorCode) -> None:
        """D6: why this replica does not get on, and so does not join the ISR."""
        name, findings = position.replica.partition.name, self._state.findings
        if error in _DAMAGED:
            text = (
                f"The records of leader {self._leader} from offset {position.asked_offset} on are damaged "
                f"({error.name.upper()}), so this replica does not catch up. It asks again until a leader "
                "has an intact copy."
            )
            findings.report(CORRUPT_FETCH, name, text)
        elif error is ErrorCode.none and findings.has(CORRUPT_FETCH, name):
            findings.clear(CORRUPT_FETCH, name)

    def _drop(self, key: PartitionKey, reason: str) -> None:
        replica = self._state.replicas.get(key)
        name = f"{key[0]}-{key[1]}" if replica is None else replica.partition.name
        self._state.out.note("late_fetch_answer_dropped", partition=name, reason=reason)

    # --- leaving partitions out ---

    def _copies(self, replica: Replica) -> bool:
        """R6: what is fetched for this replica counts against the throttled rate."""
        partition = replica.partition
        return self._state.follower_throttle.covers(partition, self._state.broker_id, partition.isr)

    def _hold_back(self, now: int) -> None:
        """R6: the rate is exceeded, so what it covers is not asked for. Members of the ISR always are."""
        throttle = self._state.follower_throttle
        for key, position in self.positions.items():
            if key in self._delayed or not self._copies(position.replica):
                continue
            self._delay(key, throttle.retry_at(now))
            if not position.held_back:
                position.held_back = True
                throttle.note_throttled(position.replica.partition, self._state.broker_id)

    def _delay(self, key: PartitionKey, until: int) -> None:
        """One partition's trouble does not hold up the others: it leaves the session for a while."""
        self._delayed[key] = until
        self._drop_from_session(key, keep_delay=True)

    def _end_delays(self, now: int) -> None:
        for key in [key for key, until in self._delayed.items() if until <= now]:
            del self._delayed[key]
            self._to_send[key] = None
            self._forget.pop(key, None)

    def _drop_from_session(self, key: PartitionKey, *, keep_delay: bool = False) -> None:
        self._to_send.pop(key, None)
        if not keep_delay:
            self._delayed.pop(key, None)
        if key in self._in_session:
            del self._in_session[key]
            self._forget[key] = None

    def _continue_session(self, session_id: int) -> None:
        self._session_id = session_id
        if session_id == NO_SESSION:
            self._session_epoch = INITIAL_EPOCH
        else:
            self._session_epoch = self._session_epoch + 1 if self._session_epoch < MAX_EPOCH else 1

    def _restart_session(self) -> None:
        """The old one, if there still is one, is closed by naming it in the request that opens the new one."""
        self._session_epoch = INITIAL_EPOCH


def is_of_this_epoch(asked_epoch: int, leader_epoch: int) -> bool:
    """F6: the answer is to a question of the epoch we follow in now."""
    return asked_epoch == leader_epoch


def is_at_leo(asked_offset: int, leo: int) -> bool:
    """F5, F6: the answer continues the log exactly where it ends now."""
    return asked_offset == leo


class Fetchers:
    """All fetchers of one broker, and which of them has which partition."""

    __slots__ = ("_finish", "_home", "_state", "_stopped", "by_leader")

    def __init__(self, state: ReplicationState, finish: Callable[[int], None]) -> None:
        self._state = state
        self._finish = finish
        self.by_leader: dict[int, Fetcher] = {}
        self._home: dict[PartitionKey, Fetcher] = {}
        self._stopped = False

    def add(self, replica: Replica, leader: int, leader_epoch: int) -> None:
        fetcher = self.by_leader.get(leader)
        if fetcher is None:
            fetcher = self.by_leader[leader] = Fetcher(self._state, leader, self._finish)
        if self._home.get(replica.key) is not fetcher:
            self.remove(replica.key)
            self._home[replica.key] = fetcher
        fetcher.add(replica, leader_epoch)

    def remove(self, key: PartitionKey) -> None:
        fetcher = self._home.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)

    def send_ready(self, now: int) -> None:
        if not self._stopped:
            for fetcher in self.by_leader.values():
                fetcher.maybe_send(now)

    def stop(self) -> None:
        self._stopped = True
        for fetcher in self.by_leader.values():
            fetcher.stop()

    def next_deadline(self) -> int | None:
        due = [at for fetcher in self.by_leader.values() if (at := fetcher.next_deadline()) is not None]
        return min(due) if due and not self._stopped else None


def _by_topic(keys: Iterable[PartitionKey]) -> list[tuple[UUID, list[int]]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return list(topics.items())
