"""Fetch sessions on the serving side (KIP-227): a request names only what has changed, a response only what is new.

A session remembers the fetcher's position in each partition. `dirty` holds the partitions that may have something new
for it; the replicas mark them, so a round in which nothing happened visits no partition at all. A dirty partition keeps
its place in the queue until it has been served: a small response cannot starve the partitions at the end.

A request outside any session is served as a session that lasts for one response. So is a consumer's request when the
session cache is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol
from uuid import UUID

from insync.metadata.partition import PartitionKey
from insync.replication.cluster import ClusterView
from insync.replication.config import ReplicationConfig
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import ZERO_UUID, millis

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_EPOCH = 0x7FFFFFFF
CONSUMER = -1
DEBUG_CONSUMER = -2
"""The replica id of Kafka's replica verification tool: it reads as a consumer does, from any replica."""
MAX_WAIT_MS = 300_000
"""The limit for `max_wait`: while a request is open, its connection does not count as idle."""


class ReadRights(Protocol):
    """What a consumer may read, by the ACLs at the time of each call."""

    @property
    def principal(self) -> str: ...

    def may_read(self, topic_id: UUID) -> bool: ...

    def change_token(self) -> tuple[object, ...]:
        """Changes whenever the rights may have changed."""
        ...


class CachedPartition:
    """The position of one fetcher in one partition."""

    __slots__ = (
        "_watchers",
        "fetch_offset",
        "from_follower",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start",
        "max_bytes",
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
        self._watchers: dict[CachedPartition, None] | None = None
        self.fetch_offset = self.leader_epoch = self.last_fetched_epoch = self.log_start = self.max_bytes = -1
        self.sent_hwm = self.sent_log_start = -1

    def mark_dirty(self, woken: dict[Session, None]) -> None:
        session = self.session
        if session is not None:
            session.dirty[self] = None
            if session.parked is not None:
                woken[session] = None

    def watch(self, watchers: dict[CachedPartition, None]) -> None:
        """Join the watchers of a replica, and leave those of the replica watched before."""
        if self._watchers is not watchers:
            self.unwatch()
            self._watchers = watchers
            watchers[self] = None

    def unwatch(self) -> None:
        if self._watchers is not None:
            self._watchers.pop(self, None)
            self._watchers = None

    def close(self) -> None:
        self.unwatch()
        self.session = None


class Session:
    __slots__ = (
        "dirty",
        "epoch",
        "id",
        "last_fetch_ms",
        "parked",
        "partitions",
        "principal",
        "replica_epoch",
        "replica_id",
        "rights",
        "rights_token",
    )

    def __init__(self, session_id: int, replica_id: int, replica_epoch: int, principal: str = "") -> None:
        """`principal`: of the consumer, where consumers have rights."""
        self.id = session_id
        self.principal = principal
        self.epoch = INITIAL_EPOCH
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}
        self.parked: ParkedFetch | None = None
        self.last_fetch_ms = 0
        self.rights: ReadRights | None = None
        self.rights_token: tuple[object, ...] = ()

    def set_rights(self, rights: ReadRights) -> None:
        """A6: with other rights than before, every partition may have another answer."""
        token = rights.change_token()
        if token != self.rights_token:
            self.rights_token = token
            self.dirty.update(dict.fromkeys(self.partitions.values()))
        self.rights = rights

    def add(self, topics: tuple[fetch.FetchTopic, ...]) -> None:
        """Fetch what a request names, now and in every later round until it is forgotten."""
        for topic in topics:
            topic_id = topic.topic_id or ZERO_UUID
            for requested in topic.partitions:
                key = (topic_id, requested.partition)
                cached = self.partitions.get(key)
                if cached is None:
                    cached = self.partitions[key] = CachedPartition(self, key)
                cached.fetch_offset = requested.fetch_offset
                cached.leader_epoch = requested.current_leader_epoch
                cached.last_fetched_epoch = requested.last_fetched_epoch
                cached.log_start = requested.log_start_offset
                cached.max_bytes = requested.partition_max_bytes
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


class ParkedFetch:
    """A fetch request that has not been answered. `full`: the response lists every partition, changed or not."""

    __slots__ = ("deadline", "full", "isolation", "max_bytes", "min_bytes", "session", "token")

    def __init__(
        self, request: fetch.FetchRequest, session: Session, consumer_max_bytes: int, token: int, now: int
    ) -> None:
        self.session = session
        self.token = token
        self.full = request.session_epoch <= 0
        self.deadline = now + min(millis(request.max_wait), MAX_WAIT_MS)
        self.max_bytes = request.max_bytes
        if session.replica_id < 0:
            # W17: one batch is due, whatever the limits say.
            self.max_bytes = max(1, min(request.max_bytes, consumer_max_bytes))
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.isolation = request.isolation_level


class SessionCache:
    __slots__ = ("_broker_id", "_cluster", "_config", "_next_id", "_sessions", "partitions")

    def __init__(self, broker_id: int, config: ReplicationConfig, cluster: ClusterView) -> None:
        self._broker_id = broker_id
        self._config = config
        self._cluster = cluster
        self._sessions: dict[int, Session] = {}  # least recently used first
        self._next_id = NO_SESSION
        self.partitions = 0
        """The number of partitions in all sessions together."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: fetch.FetchRequest, now: int, principal: str = "") -> Session | ErrorCode:
        """F1: the session that this request belongs to, updated with the partitions that it names."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            replaced = self._find(request, principal)
            if replaced is not None:
                self.drop(replaced.id)
            session = self._create(request, now, principal)
        else:
            existing = self._continue(request, principal)
            if isinstance(existing, ErrorCode):
                return existing
            session = existing
            if request.forgotten_topics_data:
                before = len(session.partitions)
                session.forget(request.forgotten_topics_data)
                self.partitions += len(session.partitions) - before
        before = len(session.partitions)
        session.add(request.topics)
        session.last_fetch_ms = now
        if session.id != NO_SESSION:
            self.partitions += len(session.partitions) - before
            if self.partitions > self._config.max_fetch_session_partitions:
                self._evict_for(session)
        if request.session_epoch == INITIAL_EPOCH and session.replica_id >= 0:
            self._drop_overtaken(session)
        return session

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.partitions)
            session.close()

    def _evict_for(self, session: Session) -> None:
        """Drop consumers' sessions, least recently used first. If that is not enough, a consumer's `session` becomes
        one that lasts for one response."""
        limit = self._config.max_fetch_session_partitions
        for other in [s for s in self._sessions.values() if s.replica_id < 0 and s is not session]:
            self.drop(other.id)
            if self.partitions <= limit:
                return
        if session.replica_id < 0:
            del self._sessions[session.id]
            self.partitions -= len(session.partitions)
            session.id = NO_SESSION

    def _drop_overtaken(self, session: Session) -> None:
        """A follower fetches a partition in one session only, so an older session with the same partition is dead.

        1. The request with which a follower opens a session is delayed; the follower gives up and opens another. 2. The
        first request arrives after all. 3. The follower goes on in its own session. Its partitions, level with the
        leader and therefore not named in any round, would be looked up in the session of (2), which is not fetched,
        and the follower would drop out of the ISR for good. Instead it gets an error for its session, and opens one
        more.
        """
        for other in list(self._sessions.values()):
            same_follower = other is not session and other.replica_id == session.replica_id
            if same_follower and any(key in other.partitions for key in session.partitions):
                self.drop(other.id)

    def _drop_earlier_incarnations(self, replica_id: int, replica_epoch: int) -> None:
        """A restarted broker does not come back to its old sessions."""
        for session in list(self._sessions.values()):
            if session.replica_id == replica_id and session.replica_epoch < replica_epoch:
                self.drop(session.id)

    def _find(self, request: fetch.FetchRequest, principal: str) -> Session | None:
        """A4: ids are easy to guess, so a session is only that of the replica or principal that opened it."""
        session = self._sessions.get(request.session_id)
        if session is None or session.replica_id != request.replica_state.replica_id or session.principal != principal:
            return None
        return session

    def _create(self, request: fetch.FetchRequest, now: int, principal: str) -> Session:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
        if replica_id >= 0:
            self._drop_earlier_incarnations(replica_id, replica_epoch)
        if request.session_epoch == FINAL_EPOCH or not self._make_room(replica_id, now):
            return Session(NO_SESSION, replica_id, replica_epoch, principal)
        session = Session(self._new_id(), replica_id, replica_epoch, principal)
        session.epoch = 1
        self._sessions[session.id] = session
        return session

    def _continue(self, request: fetch.FetchRequest, principal: str) -> Session | ErrorCode:
        session = self._find(request, principal)
        if session is None or session.replica_epoch != request.replica_state.replica_epoch:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        session.epoch = session.epoch + 1 if session.epoch < MAX_EPOCH else 1
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def _make_room(self, replica_id: int, now: int) -> bool:
        """A follower may evict a consumer's session; a consumer goes without when none is free."""
        if len(self._sessions) < self._config.max_incremental_fetch_sessions:
            return True
        for session in self._sessions.values():
            is_unused = now - session.last_fetch_ms > self._config.session_eviction_ms
            if is_unused or (replica_id >= 0 and session.replica_id < 0):
                self.drop(session.id)
                return True
        return False

    def _new_id(self) -> int:
        """Ids start at another number in each incarnation, so that a client of the last one does not continue a session
        of another client."""
        if self._next_id == NO_SESSION:
            self._next_id = (self._cluster.broker_epoch * 2_654_435_761 + self._broker_id) & MAX_EPOCH
        self._next_id = self._next_id % MAX_EPOCH + 1
        while self._next_id in self._sessions:
            self._next_id = self._next_id % MAX_EPOCH + 1
        return self._next_id
