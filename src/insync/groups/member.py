"""One member of a group, and the requests of it that wait.

`join_token` is a JoinGroup that waits for the next generation, `sync_token` a SyncGroup that waits for the assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from insync.groups.memory_budget import MEMBER_BYTES
from insync.groups.records import StoredMember
from insync.groups.timers import Timer

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""


@dataclass(slots=True, eq=False, kw_only=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    session_timer: Timer
    assignment: bytes = b""
    join_token: int | None = None
    sync_token: int | None = None
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def size_bytes(self) -> int:
        """What it takes of the memory budget."""
        protocols = sum(len(name) + len(data) for name, data in self.protocols)
        names = len(self.id) + len(self.instance_id or "") + len(self.client_id) + len(self.client_host)
        return MEMBER_BYTES + names + protocols + len(self.assignment)

    def extend_session(self, now: int) -> None:
        self.session_timer.set(now + self.session_timeout_ms)

    def is_waiting_for_answer(self) -> bool:
        """A member that waits for an answer cannot heartbeat. A new one has its own, limited time for that."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote_for_protocol(self, candidates: Sequence[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def to_record(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            member_id=self.id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )
