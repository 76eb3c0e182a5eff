"""Requests that only the controller can decide, arriving at a broker: passed on, and the answer brought back.

A request travels in Kafka's Envelope, so that a controller tells a forwarded request (never forwarded again) from a
client's own. While there is no controller, or the one asked turns out not to be it, the broker tries again until the
request's time is up. A lost answer is asked for again too: the controller may then answer from the state that the first
attempt left (a topic that exists already), which is what Kafka's clients expect of a retry.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from insync.node.config import NodeConfig
from insync.sansio import Message, Outbox
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import envelope

CHANNEL = "forward"

OnAnswer = Callable[[Message, int], None]
"""(answer, now)."""


class Forwarding:
    def __init__(self, config: NodeConfig, out: Outbox, controller_id: Callable[[], int]) -> None:
        self.config = config
        self.out = out
        self._controller_id = controller_id
        self._waiting: list[_Forwarded] = []

    def forward(self, api: ModuleType, request: Message, token: int, now: int) -> None:
        self.ask(api, request, lambda answer, _now: self.out.reply(token, answer), now)

    def ask(self, api: ModuleType, request: Message, on_answer: OnAnswer, now: int) -> None:
        """The broker's own request: `on_answer` gets the controller's answer, or a refusal."""
        deadline = now + self.config.forward_timeout_ms
        self._attempt(_Forwarded(api, request, on_answer, deadline), now)

    def tick(self, now: int) -> None:
        due = [f for f in self._waiting if now >= f.retry_at]
        if due:
            self._waiting = [f for f in self._waiting if now < f.retry_at]
            for forwarded in due:
                self._attempt(forwarded, now)

    def next_deadline(self) -> int | None:
        return min(f.retry_at for f in self._waiting) if self._waiting else None

    def _attempt(self, forwarded: _Forwarded, now: int) -> None:
        if now >= forwarded.deadline:
            forwarded.on_answer(forwarded.api.refuse(forwarded.request, ErrorCode.request_timed_out), now)
            return
        peer = self._controller_id()
        if peer < 0:
            self._later(forwarded, now)
            return

        def on_response(response: Message | None, now: int) -> None:
            if response is None or response.error_code is ErrorCode.not_controller:
                self._later(forwarded, now)
            elif response.error_code is not ErrorCode.none:
                forwarded.on_answer(forwarded.api.refuse(forwarded.request, response.error_code), now)
            else:
                _, answer = codec.decode_response(response.response_data, type(forwarded.request))
                forwarded.on_answer(answer, now)

        wrapped = envelope.EnvelopeRequest(
            request_data=codec.encode_request(forwarded.request, 0, "forwarded"),
            request_principal=None,
            client_host_address=b"\x7f\x00\x00\x01",
        )
        self.out.send(peer, CHANNEL, wrapped, on_response, timeout_ms=max(1, forwarded.deadline - now))

    def _later(self, forwarded: _Forwarded, now: int) -> None:
        forwarded.retry_at = now + self.config.forward_retry_ms
        self._waiting.append(forwarded)


class _Forwarded:
    __slots__ = ("api", "deadline", "on_answer", "request", "retry_at")

    def __init__(self, api: ModuleType, request: Message, on_answer: OnAnswer, deadline: int) -> None:
        self.api = api
        self.request = request
        self.on_answer = on_answer
        self.deadline = deadline
        self.retry_at = 0
