"""Requests that only the controller can decide, arriving at a broker: passed on, and the answer brought back.

A request travels in Kafka's Envelope, so that a controller tells a forwarded request (never forwarded again) from a
client's own. While there is no controller, or the one asked turns out not to be it, the broker tries again until the
request's time is up. A lost answer is asked for again too: the controller may then answer from the state that the first
attempt left (a topic that exists already), which is what Kafka's clients expect of a retry.

A request that would keep the controller busy for long is sent in parts, one after the other (`split` and `merge` of its
API): each part is decided, committed and answered by itself, and what others ask comes in between. If the controller
changes meanwhile, the parts that are left go to the next one.

Only so much is under way at a time. Whoever comes when there is more is told at once what he would be told if nobody
answered, and may try again.
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
MAX_REQUESTS = 1_000
MAX_BYTES = 64 << 20

OnAnswer = Callable[[Message, int], None]
"""(answer, now)."""


class Forwarding:
    def __init__(self, config: NodeConfig, out: Outbox, controller_id: Callable[[], int]) -> None:
        self.config = config
        self.out = out
        self._controller_id = controller_id
        self._waiting: list[_Forwarded] = []  # to be tried again
        self._requests = 0  # under way, these included
        self._bytes = 0

    @property
    def under_way(self) -> int:
        return self._requests

    def forward(self, api: ModuleType, request: Message, token: int, now: int) -> None:
        self._begin(api, request, lambda answer, _now: self.out.reply(token, answer), token, now)

    def ask(self, api: ModuleType, request: Message, on_answer: OnAnswer, now: int) -> None:
        """The broker's own request: `on_answer` gets the controller's answer, or a refusal."""
        self._begin(api, request, on_answer, None, now)

    def abandon(self, token: int) -> None:
        """Nobody waits for it any longer: it is not tried again."""
        for forwarded in [each for each in self._waiting if each.token == token]:
            self._waiting.remove(forwarded)
            self._done(forwarded)
            self.out.reply(token, None)

    def tick(self, now: int) -> None:
        due = [f for f in self._waiting if now >= f.retry_at]
        if due:
            self._waiting = [f for f in self._waiting if now < f.retry_at]
            for forwarded in due:
                self._attempt(forwarded, now)

    def next_deadline(self) -> int | None:
        return min(f.retry_at for f in self._waiting) if self._waiting else None

    def _begin(self, api: ModuleType, request: Message, on_answer: OnAnswer, token: int | None, now: int) -> None:
        parts = api.split(request) if hasattr(api, "split") else [request]
        if len(parts) == 1:
            self._begin_one(api, request, on_answer, token, now)
        else:
            self._begin_parts(api, parts, on_answer, now)

    def _begin_parts(self, api: ModuleType, parts: list[Message], on_answer: OnAnswer, now: int) -> None:
        answers: list[Message] = []

        def answered(answer: Message, now: int) -> None:
            last = answers[-1] if answers else None
            answers.append(api.share(answer, last) if hasattr(api, "share") else answer)
            if len(answers) == len(parts):
                on_answer(api.merge(answers), now)
            else:
                self._begin_one(api, parts[len(answers)], answered, None, now)

        self._begin_one(api, parts[0], answered, None, now)

    def _begin_one(self, api: ModuleType, request: Message, on_answer: OnAnswer, token: int | None, now: int) -> None:
        data = codec.encode_request(request, 0, "forwarded")
        forwarded = _Forwarded(api, request, data, on_answer, token, now + self.config.forward_timeout_ms)
        if not self.has_room(len(data)):
            on_answer(api.refuse(request, ErrorCode.request_timed_out), now)
            return
        self._requests += 1
        self._bytes += len(data)
        self._attempt(forwarded, now)

    def has_room(self, size: int) -> bool:
        return self._requests < MAX_REQUESTS and (self._bytes + size <= MAX_BYTES or not self._requests)

    def _attempt(self, forwarded: _Forwarded, now: int) -> None:
        if now >= forwarded.deadline:
            self._refuse(forwarded, ErrorCode.request_timed_out, now)
            return
        peer = self._controller_id()
        if peer < 0:
            self._later(forwarded, now)
            return

        def on_response(response: Message | None, now: int) -> None:
            if response is None or response.error_code is ErrorCode.not_controller:
                self._later(forwarded, now)
            elif response.error_code is not ErrorCode.none:
                self._refuse(forwarded, response.error_code, now)
            else:
                _, answer = codec.decode_response(response.response_data, type(forwarded.request))
                self._done(forwarded)
                forwarded.on_answer(answer, now)

        wrapped = envelope.EnvelopeRequest(
            request_data=forwarded.data, request_principal=None, client_host_address=b"\x7f\x00\x00\x01"
        )
        self.out.send(peer, CHANNEL, wrapped, on_response, timeout_ms=max(1, forwarded.deadline - now))

    def _later(self, forwarded: _Forwarded, now: int) -> None:
        forwarded.retry_at = now + self.config.forward_retry_ms
        self._waiting.append(forwarded)

    def _refuse(self, forwarded: _Forwarded, error: ErrorCode, now: int) -> None:
        self._done(forwarded)
        forwarded.on_answer(forwarded.api.refuse(forwarded.request, error), now)

    def _done(self, forwarded: _Forwarded) -> None:
        self._requests -= 1
        self._bytes -= len(forwarded.data)


class _Forwarded:
    __slots__ = ("api", "data", "deadline", "on_answer", "request", "retry_at", "token")

    def __init__(
        self, api: ModuleType, request: Message, data: bytes, on_answer: OnAnswer, token: int | None, deadline: int
    ) -> None:
        self.api = api
        self.request = request
        self.data = data
        self.on_answer = on_answer
        self.token = token
        """Of the client's request, if it is one."""
        self.deadline = deadline
        self.retry_at = 0
