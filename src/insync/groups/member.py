"""One member of a group, and what it is waiting for.

`join_token` and `sync_token` are requests that wait for an answer: for the next generation, for the assignment.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.groups.records import StoredMember
from insync.groups.room import MEMBER
from insync.groups.timers import Alarm

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "id",
        "instance_id",
        "is_new",
        "join_token",
        "protocols",
        "rebalance_timeout",
        "session",
        "session_timeout",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        *,
        client_id: str,
        client_host: str,
        session_timeout: int,
        rebalance_timeout: int,
        protocols: Protocols,
        session: Alarm,
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout = session_timeout
        self.rebalance_timeout = rebalance_timeout
        self.protocols = protocols
        self.assignment = b""
        self.join_token: int | None = None
        self.sync_token: int | None = None
        self.is_new = False
        self.session = session

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def weight(self) -> int:
        """What it takes of the room for groups."""
        said = sum(len(name) + len(data) for name, data in self.protocols)
        names = len(self.id) + len(self.instance_id or "") + len(self.client_id) + len(self.client_host)
        return MEMBER + names + said + len(self.assignment)

    def heard(self, now: int) -> None:
        self.session.set(now + self.session_timeout)

    def excused(self) -> bool:
        """A member that waits for an answer cannot heartbeat, and need not. A new one is not waited for that long."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: Sequence[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            member_id=self.id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout,
            session_timeout=self.session_timeout,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )
