"""The seam between the protocol and the world: events go in, effects come out.

Nothing in the protocol opens a socket or a file of its own, reads a clock, or draws a random number. A driver (the
asyncio server, the simulator) hands a node one `Event` and the time, and carries out the `Effect`s that the node put
in its `Outbox`. Times are whole milliseconds of the node's own monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

Message = Any
"""A kio entity: one Kafka request or response, in the version that `wire.messages` pins."""

OnResponse = Callable[[Message | None, int], None]
"""Called with the answer, or None when the connection was lost or the request timed out, and the time."""

OnDone = Callable[[int], None]


class FlushJob(Protocol):
    """Blocking disk work that may run off the event loop: it touches no protocol state."""

    def run(self) -> None: ...


# --- effects ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Send:
    """Ask `peer`. Requests of one (peer, channel) pair arrive in order, over one connection."""

    peer: int
    channel: str
    request: Message
    on_response: OnResponse
    timeout_ms: int


@dataclass(slots=True, eq=False)
class Reply:
    """Answer the request that came with `token`; None means that no answer is due (acks=0)."""

    token: int
    response: Message | None


@dataclass(slots=True, eq=False)
class HangUp:
    """The request that came with `token` gets no answer, and its connection is closed once earlier answers have left:
    it is not served here, or it failed with acks=0, and there is no other way to say so."""

    token: int
    reason: str


@dataclass(slots=True, eq=False)
class Sync:
    """Run `job` off the loop, then deliver `Synced(self)`. A failure is delivered as `DiskFailed`."""

    job: FlushJob
    on_done: OnDone


@dataclass(slots=True, eq=False)
class WriteFile:
    """Replace a small file atomically (write, fsync, rename, fsync directory), off the loop; nobody waits for it."""

    path: str
    data: bytes


@dataclass(slots=True, eq=False)
class Stop:
    """The node has ended: cleanly after a controlled shutdown, or because its disk failed or the cluster refused it."""

    clean: bool
    reason: str
    error: OSError | None = None
    """What the disk or the operating system said, if that is why."""
    permanent: bool = False
    """Starting the node again would not help before an operator has acted."""


@dataclass(slots=True, eq=False)
class Note:
    """Something worth a log line, a counter or a probe. It changes nothing."""

    kind: str
    fields: dict[str, Any]


Effect = Send | Reply | HangUp | Sync | WriteFile | Stop | Note


class Outbox:
    """Where all parts of one node leave their effects, in the order in which they are to happen."""

    __slots__ = ("effects",)

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def send(
        self, peer: int, channel: str, request: Message, on_response: OnResponse, timeout_ms: int = 30_000
    ) -> None:
        self.effects.append(Send(peer, channel, request, on_response, timeout_ms))

    def reply(self, token: int, response: Message | None) -> None:
        self.effects.append(Reply(token, response))

    def hang_up(self, token: int, reason: str) -> None:
        self.effects.append(HangUp(token, reason))

    def sync(self, job: FlushJob, on_done: OnDone) -> None:
        self.effects.append(Sync(job, on_done))

    def write_file(self, path: str, data: bytes) -> None:
        self.effects.append(WriteFile(path, data))

    def stop(self, *, clean: bool, reason: str) -> None:
        self.effects.append(Stop(clean, reason))

    def note(self, kind: str, **fields: Any) -> None:
        self.effects.append(Note(kind, fields))

    def drain(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Client:
    """Who asked, as far as the connection tells. A few answers depend on it, not on the request alone."""

    id: str = ""
    host: str = ""
    version: int = -1
    """The version of the API that the client spoke before its request was translated; -1: the node's own."""


UNKNOWN_CLIENT = Client()


@dataclass(slots=True, eq=False)
class Request:
    """A request arrived; its answer is the `Reply` with the same token."""

    token: int
    request: Message
    client: Client = UNKNOWN_CLIENT
    more: bool = False
    """Another request follows at once, or `TurnEnded` does. What concerns others than who asked may wait for it."""


@dataclass(slots=True, eq=False)
class TurnEnded:
    """The last request said that another follows, and none does: what was left for it is due now."""


@dataclass(slots=True, eq=False)
class RequestAbandoned:
    """Nobody waits for the answer to this request any longer: its connection has ended. It has its one `Reply` all the
    same, at once if it was parked; nobody reads it."""

    token: int
    request: Message


@dataclass(slots=True, eq=False)
class Response:
    """The answer to an earlier `Send`, or None: connection lost, refused or timed out."""

    send: Send
    response: Message | None


@dataclass(slots=True, eq=False)
class Synced:
    sync: Sync


@dataclass(slots=True, eq=False)
class DiskFailed:
    """Disk work failed; a node whose disk fails stops, as Kafka does when its last log directory goes."""

    error: OSError


@dataclass(slots=True, eq=False)
class Timer:
    """The time of `Node.next_deadline()` has come."""


@dataclass(slots=True, eq=False)
class PeerLost:
    """A peer's process dropped its connections: a hint that it died, never proof."""

    peer: int


@dataclass(slots=True, eq=False)
class Shutdown:
    """Begin a controlled shutdown (B7)."""


Event = Request | TurnEnded | RequestAbandoned | Response | Synced | DiskFailed | Timer | PeerLost | Shutdown
