"""Fetch sessions on the serving side (KIP-227): a request names only what has changed, an answer only what is new.

A session remembers where its fetcher stands in each partition. `dirty` are the partitions that may have news for it,
marked by the replicas themselves, so a round in which nothing happened looks at no partition at all. Each dirty
partition keeps its place in the queue until it has been served: a small answer cannot starve the ones at the end.

A request outside any session is served as a session that lasts for one answer. So is one for which there is no room:
sessions are a convenience, of which consumers get what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.metadata.partition import PartitionKey
from insync.replication.core import Core
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import ZERO_UUID

if TYPE_CHECKING:
    from insync.replication.fetch_server import ParkedFetch
    from insync.replication.replica import Replica

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_EPOCH = 0x7FFFFFFF
CONSUMER = -1
DEBUG_CONSUMER = -2
"""Kafka's replica verification: reads as a consumer does, from any replica."""


class CachedPartition:
    """Where one fetcher stands in one partition."""

    __slots__ = (
        "fetch_offset",
        "from_follower",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "replica",
        "sent_hwm",
        "sent_log_start",
        "session",
        "session_replica",
    )

    def __init__(self, session: Session, key: PartitionKey) -> None:
        self.session: Session | None = session
        self.session_replica = session.replica_id
        self.from_follower = session.replica_id >= 0
        self.key = key
        self.replica: Replica | None = None
        self.fetch_offset = self.leader_epoch = self.last_fetched_epoch = self.log_start = self.max_bytes = -1
        self.sent_hwm = self.sent_log_start = -1

    def update(self, asked: fetch.FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start = asked.log_start_offset
        self.max_bytes = asked.partition_max_bytes

    def mark(self, woken: dict[Session, None]) -> None:
        session = self.session
        if session is not None:
            session.dirty[self] = None
            if session.parked is not None:
                woken[session] = None

    def mark_quietly(self) -> None:
        if self.session is not None:
            self.session.dirty[self] = None

    def watch(self, replica: Replica) -> None:
        if self.replica is not replica:
            self.unwatch()
            self.replica = replica
            replica.watchers[self] = None

    def unwatch(self) -> None:
        if self.replica is not None:
            self.replica.watchers.pop(self, None)
            self.replica = None

    def close(self) -> None:
        self.unwatch()
        self.session = None


class Session:
    __slots__ = ("dirty", "epoch", "id", "last_fetch_ms", "parked", "partitions", "replica_epoch", "replica_id")

    def __init__(self, session_id: int, replica_id: int, replica_epoch: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}
        self.parked: ParkedFetch | None = None
        self.last_fetch_ms = 0

    def take(self, topics: tuple[fetch.FetchTopic, ...]) -> None:
        """What a request names is fetched now and in every later round, until it is forgotten."""
        for topic in topics:
            topic_id = topic.topic_id or ZERO_UUID
            for asked in topic.partitions:
                key = (topic_id, asked.partition)
                cached = self.partitions.get(key)
                if cached is None:
                    cached = self.partitions[key] = CachedPartition(self, key)
                cached.update(asked)
                self.dirty[cached] = None

    def forget(self, topics: tuple[fetch.ForgottenTopic, ...]) -> None:
        for topic in topics:
            topic_id = topic.topic_id or ZERO_UUID
            for index in topic.partitions:
                cached = self.partitions.pop((topic_id, index), None)
                if cached is not None:
                    self.dirty.pop(cached, None)
                    cached.close()

    def close(self) -> None:
        for cached in self.partitions.values():
            cached.close()
        self.partitions.clear()
        self.dirty.clear()


class SessionCache:
    __slots__ = ("_core", "_next_id", "_sessions", "partitions")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._sessions: dict[int, Session] = {}  # least recently used first
        self._next_id = NO_SESSION
        self.partitions = 0
        """In all sessions together."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: fetch.FetchRequest, now: int) -> Session | ErrorCode:
        """F1: the session that this request is part of, brought up to date with what it names."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.drop(request.session_id)
            session = self._new(request, now)
        else:
            found = self._continue(request)
            if isinstance(found, ErrorCode):
                return found
            session = found
            before = len(session.partitions)
            session.forget(request.forgotten_topics_data)
            self.partitions += len(session.partitions) - before
        before = len(session.partitions)
        session.take(request.topics)
        session.last_fetch_ms = now
        if session.id != NO_SESSION:
            self.partitions += len(session.partitions) - before
            self._keep_within_limits(session)
        if request.session_epoch == INITIAL_EPOCH and session.replica_id >= 0:
            self._drop_overtaken(session)
        return session

    def drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.partitions)
            session.close()

    def _keep_within_limits(self, session: Session) -> None:
        """Consumers' sessions make room, the one used longest ago first; then this one does, if it is a consumer's."""
        limit = self._core.config.max_fetch_session_partitions
        if self.partitions <= limit:
            return
        for other in [each for each in self._sessions.values() if each.replica_id < 0 and each is not session]:
            self.drop(other.id)
            if self.partitions <= limit:
                return
        if session.replica_id < 0:
            del self._sessions[session.id]
            self.partitions -= len(session.partitions)
            session.id = NO_SESSION

    def _drop_overtaken(self, session: Session) -> None:
        """A follower fetches a partition in one session only, so an older one that has it too is not used any more.

        1. A follower's opening request is held up; it gives up and opens a session with another one. 2. The first
        request arrives after all. 3. The follower goes on in its session, but its partitions, level with the leader
        and therefore not named in any round, would be looked for in the session of (2), where nobody fetches, and the
        follower would drop out of the ISR for good. Told that its session is gone, it opens one more.
        """
        for other in list(self._sessions.values()):
            mine = other is not session and other.replica_id == session.replica_id
            if mine and any(key in other.partitions for key in session.partitions):
                self.drop(other.id)

    def drop_uptimes_before(self, replica_id: int, replica_epoch: int) -> None:
        """A restarted broker does not come back to its old sessions."""
        for session in list(self._sessions.values()):
            if session.replica_id == replica_id and session.replica_epoch < replica_epoch:
                self.drop(session.id)

    def _new(self, request: fetch.FetchRequest, now: int) -> Session:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
        if replica_id >= 0:
            self.drop_uptimes_before(replica_id, replica_epoch)
        if request.session_epoch == FINAL_EPOCH or not self._make_room(replica_id, now):
            return Session(NO_SESSION, replica_id, replica_epoch)
        session = Session(self._fresh_id(), replica_id, replica_epoch)
        session.epoch = 1
        self._sessions[session.id] = session
        return session

    def _continue(self, request: fetch.FetchRequest) -> Session | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None or session.replica_id != request.replica_state.replica_id:
            return ErrorCode.fetch_session_id_not_found
        if session.replica_epoch != request.replica_state.replica_epoch:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        session.epoch = session.epoch + 1 if session.epoch < MAX_EPOCH else 1
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def _make_room(self, replica_id: int, now: int) -> bool:
        """Followers have a right to a session; consumers do without when none is free."""
        if len(self._sessions) < self._core.config.max_incremental_fetch_sessions:
            return True
        for session in self._sessions.values():
            unused = now - session.last_fetch_ms > self._core.config.session_eviction_ms
            if unused or (replica_id >= 0 and session.replica_id < 0):
                self.drop(session.id)
                return True
        return False

    def _fresh_id(self) -> int:
        """Ids start elsewhere in each uptime, so that a client of the last one does not step into another's session."""
        if self._next_id == NO_SESSION:
            self._next_id = (self._core.cluster.broker_epoch * 2_654_435_761 + self._core.broker_id) & MAX_EPOCH
        self._next_id = self._next_id % MAX_EPOCH + 1
        while self._next_id in self._sessions:
            self._next_id = self._next_id % MAX_EPOCH + 1
        return self._next_id
