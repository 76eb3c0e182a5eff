"""One simulated TCP connection and the endpoints that it connects."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from insync.sansio import Message, Send


class Endpoint(Protocol):
    """A process on the network: a node or a client."""

    @property
    def id(self) -> int: ...
    @property
    def generation(self) -> int:
        """The number of starts of the process."""

    @property
    def alive(self) -> bool: ...
    @property
    def powered_off(self) -> bool:
        """A machine without power does not refuse connections, it does not answer at all."""

    def on_request(self, connection: Connection, correlation: int, request: Message) -> None: ...
    def on_response(self, send: Send, response: Message | None) -> None: ...
    def on_peer_lost(self, peer: int) -> None: ...


class Connection:
    """One TCP connection; `outstanding` holds the requests whose source still waits for a response."""

    __slots__ = (
        "backward",
        "channel",
        "dst",
        "dst_generation",
        "forward",
        "held_backward",
        "held_forward",
        "last_backward",
        "last_forward",
        "next_correlation",
        "open",
        "outstanding",
        "src",
        "src_generation",
        "timeout_check_at",
    )

    def __init__(self, src: int, dst: int, channel: str, src_generation: int, ready_at: int) -> None:
        self.src = src
        self.dst = dst
        self.channel = channel
        self.src_generation = src_generation
        self.dst_generation = -1
        self.open = True
        self.next_correlation = 0
        self.outstanding: dict[int, tuple[int, Send]] = {}
        self.forward: deque[tuple[int, Message]] = deque()
        self.backward: deque[tuple[int, Message]] = deque()
        self.held_forward = 0
        self.held_backward = 0
        self.last_forward = ready_at
        self.last_backward = 0
        self.timeout_check_at = 0
