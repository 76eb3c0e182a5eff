"""Requests that only the controller can decide: a broker forwards them and returns the answer.

A request travels in Kafka's Envelope, so that a controller can tell a forwarded request (never forwarded again) from
one that a client sent to it. The envelope names the client, whose rights the controller checks (A1). While there is no
controller, or the one asked is no longer it, the broker retries until the request's timeout. It also retries when an
answer is lost: the controller may then answer from the state that the first attempt left (a topic that exists already),
which is what Kafka's clients expect of a retry.

A request that would keep the controller busy for long is sent in parts, one after the other: each part is decided,
committed and answered by itself, and other requests are served in between. If the controller changes meanwhile, the
remaining parts go to the next one.

Requests under way are limited in number and bytes. Above the limit a request fails immediately with REQUEST_TIMED_OUT;
the client may retry.

Notes: forwarding_refused(peer, error).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from insync.node.config import NodeConfig
from insync.node.controller_apis import Forwardable
from insync.node.parts import Parts
from insync.sansio import UNKNOWN_CLIENT, Client, Message, Outbox
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.forwarded_client import encode_address, encode_principal
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
        self._waiting: list[_Forwarded] = []  # to be retried
        self._requests = 0  # under way, including those that wait
        self._bytes = 0

    @property
    def under_way(self) -> int:
        return self._requests

    def forward(self, api: Forwardable, request: Message, token: int, client: Client, now: int) -> None:
        self._begin(api, request, lambda answer, _now: self.out.reply(token, answer), token, client, now)

    def ask(
        self, api: Forwardable, request: Message, on_answer: OnAnswer, now: int, client: Client = UNKNOWN_CLIENT
    ) -> None:
        """Forward a request of this broker, or one that it makes for `client`. `on_answer` gets the controller's
        answer, or a refusal."""
        self._begin(api, request, on_answer, None, client, now)

    def abandon(self, token: int) -> None:
        """The client's connection has ended: do not retry."""
        for forwarded in [waiting for waiting in self._waiting if waiting.token == token]:
            self._waiting.remove(forwarded)
            self._release(forwarded)
            self.out.reply(token, None)

    def tick(self, now: int) -> None:
        due = [f for f in self._waiting if now >= f.retry_at]
        if due:
            self._waiting = [f for f in self._waiting if now < f.retry_at]
            for forwarded in due:
                self._attempt(forwarded, now)

    def next_deadline(self) -> int | None:
        return min(f.retry_at for f in self._waiting) if self._waiting else None

    def _begin(
        self, api: Forwardable, request: Message, on_answer: OnAnswer, token: int | None, client: Client, now: int
    ) -> None:
        parts = (request,) if api.parts is None else api.parts.divide(request)
        if api.parts is None or len(parts) == 1:
            self._begin_one(api, request, on_answer, token, client, now)
        else:
            self._begin_parts(api, api.parts, parts, on_answer, client, now)

    def _begin_parts(
        self,
        api: Forwardable,
        division: Parts,
        parts: tuple[Message, ...],
        on_answer: OnAnswer,
        client: Client,
        now: int,
    ) -> None:
        answers: list[Message] = []

        def on_part(answer: Message, now: int) -> None:
            previous = answers[-1] if answers else None
            answers.append(answer if division.share is None else division.share(answer, previous))
            if len(answers) == len(parts):
                on_answer(division.join(answers), now)
            else:
                self._begin_one(api, parts[len(answers)], on_part, None, client, now)

        self._begin_one(api, parts[0], on_part, None, client, now)

    def _begin_one(
        self, api: Forwardable, request: Message, on_answer: OnAnswer, token: int | None, client: Client, now: int
    ) -> None:
        data = codec.encode_request(request, 0, client.id)
        forwarded = _Forwarded(api, request, data, on_answer, token, client, now + self.config.forward_timeout_ms)
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
            self._retry_later(forwarded, now)
            return

        def on_response(response: Message | None, now: int) -> None:
            if response is None or response.error_code is ErrorCode.not_controller:
                self._retry_later(forwarded, now)
            elif response.error_code is not ErrorCode.none:
                # As in Kafka: this broker was refused, and its client cannot do anything about that.
                self.out.note("forwarding_refused", peer=peer, error=response.error_code.name)
                self._refuse(forwarded, ErrorCode.unknown_server_error, now)
            else:
                _, answer = codec.decode_response(response.response_data, type(forwarded.request))
                self._release(forwarded)
                forwarded.on_answer(answer, now)

        client = forwarded.client
        wrapped = envelope.EnvelopeRequest(
            request_data=forwarded.data,
            request_principal=None if client is UNKNOWN_CLIENT else encode_principal(client.principal),
            client_host_address=encode_address(client.host.lstrip("/")),
            client_version=client.version,
        )
        self.out.send(peer, CHANNEL, wrapped, on_response, timeout_ms=max(1, forwarded.deadline - now))

    def _retry_later(self, forwarded: _Forwarded, now: int) -> None:
        forwarded.retry_at = now + self.config.forward_retry_ms
        self._waiting.append(forwarded)

    def _refuse(self, forwarded: _Forwarded, error: ErrorCode, now: int) -> None:
        self._release(forwarded)
        forwarded.on_answer(forwarded.api.refuse(forwarded.request, error), now)

    def _release(self, forwarded: _Forwarded) -> None:
        self._requests -= 1
        self._bytes -= len(forwarded.data)


@dataclass(slots=True, eq=False)
class _Forwarded:
    api: Forwardable
    request: Message
    data: bytes
    on_answer: OnAnswer
    token: int | None
    """Of the client's request; None for the broker's own."""
    client: Client
    deadline: int
    retry_at: int = 0
