"""The interface between the protocol and its drivers: events go in, effects come out.

The protocol opens no socket and no file, reads no clock, and draws no random number by itself. A driver (the asyncio
server, the simulator) passes a node one `Event` and the time, and carries out the `Effect`s in the node's `Outbox`.
Times are whole milliseconds of the node's own monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

Message = Any
"""Any Kafka request or response, in the version that nodes speak. Handlers take the classes of `wire.messages`."""

OnResponse = Callable[[Message | None, int], None]
"""Called with the response, or None if the connection was lost or the request timed out, and the time."""

OnDone = Callable[[int], None]


class FlushJob(Protocol):
    """Blocking disk work that may run off the event loop: it does not touch protocol state."""

    def run(self) -> None: ...


# --- effects ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Send:
    """Send a request to `peer`. Requests of one (peer, channel) pair arrive in order, over one connection."""

    peer: int
    channel: str
    request: Message
    on_response: OnResponse
    timeout_ms: int


@dataclass(slots=True, eq=False)
class Reply:
    """Answer the request with this `token`; None: no response is sent (acks=0)."""

    token: int
    response: Message | None


@dataclass(slots=True, eq=False)
class HangUp:
    """Close the connection of the request with this `token` once earlier responses are sent: the request is not served
    here, or it failed with acks=0, and no response can say so."""

    token: int
    reason: str


@dataclass(slots=True, eq=False)
class Sync:
    """Run `job` off the event loop, then deliver `Synced(self)`, or `DiskFailed` if it fails."""

    job: FlushJob
    on_done: OnDone


@dataclass(slots=True, eq=False)
class WriteFile:
    """Replace a small file atomically (write, fsync, rename, fsync directory), off the loop; nothing waits for it."""

    path: str
    data: bytes


@dataclass(slots=True, eq=False)
class Stop:
    """The node has stopped: after a controlled shutdown, or because its disk failed or the cluster refused it."""

    clean: bool
    reason: str
    error: OSError | None = None
    """The error of the disk or the operating system, if that is the cause."""
    permanent: bool = False
    """A restart fails in the same way until an operator acts."""


@dataclass(slots=True, eq=False)
class Note:
    """Something worth a log line, a counter or a probe. It has no other effect."""

    kind: str
    fields: dict[str, Any]


Effect = Send | Reply | HangUp | Sync | WriteFile | Stop | Note


class Outbox:
    """The effects of all components of one node, in the order in which the driver carries them out."""

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
    """The client that sent a request, as far as its connection shows. A few responses depend on it."""

    id: str = ""
    host: str = ""
    version: int = -1
    """The version of the client's request before its translation; -1: the nodes' own."""
    principal: str = "User:ANONYMOUS"
    """As Kafka writes it, type:name. Listeners without authentication have only this one."""
    listener: str = ""
    """The name of the listener that accepted the connection; empty: the request came without one."""
    on_node_listener: bool = True
    """Whether other nodes use this listener too: the inter-broker listener, or one of the controllers'."""

    @property
    def user(self) -> str:
        """The name of the principal, as quotas have it."""
        return self.principal.partition(":")[2]


UNKNOWN_CLIENT = Client()


@dataclass(slots=True, eq=False)
class Request:
    """A request arrived; the `Reply` with the same token answers it."""

    token: int
    request: Message
    client: Client = UNKNOWN_CLIENT
    more: bool = False
    """Another request follows at once, or `TurnEnded` does. Work that this client does not need may be left to it."""


@dataclass(slots=True, eq=False)
class TurnEnded:
    """The last request announced another, and none follows: the work that was left to it is due now."""


@dataclass(slots=True, eq=False)
class RequestAbandoned:
    """The connection of this request has ended. The request still gets one `Reply`, at once if it was parked, which the
    driver drops."""

    token: int
    request: Message


@dataclass(slots=True, eq=False)
class Response:
    """The response to an earlier `Send`, or None: connection lost, refused or timed out."""

    send: Send
    response: Message | None


@dataclass(slots=True, eq=False)
class Synced:
    sync: Sync


@dataclass(slots=True, eq=False)
class DiskFailed:
    """Disk work failed. The node stops, as Kafka does when its last log directory fails."""

    error: OSError


@dataclass(slots=True, eq=False)
class Timer:
    """The time of `Node.next_deadline()` is reached."""


@dataclass(slots=True, eq=False)
class PeerLost:
    """A peer closed its connections: a hint that its process died, not a proof."""

    peer: int


@dataclass(slots=True, eq=False)
class Shutdown:
    """Begin a controlled shutdown (B7)."""


Event = Request | TurnEnded | RequestAbandoned | Response | Synced | DiskFailed | Timer | PeerLost | Shutdown
