"""Producer ids: the controller allocates blocks, so that no two brokers assign the same id (P4)."""

from __future__ import annotations

from collections.abc import Callable

from insync.node.config import NodeConfig
from insync.sansio import Outbox
from insync.wire.errors import ErrorCode
from insync.wire.messages import allocate_producer_ids, init_producer_id
from insync.wire.types import NO_DURATION

CHANNEL = "producer-ids"


class ProducerIds:
    def __init__(
        self, config: NodeConfig, out: Outbox, controller_id: Callable[[], int], broker_epoch: Callable[[], int]
    ) -> None:
        self.config = config
        self.out = out
        self._controller_id = controller_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._waiting: list[tuple[int, int]] = []  # (token, deadline)
        self._request_in_flight = False
        self._retry_at: int | None = None

    def init(self, request: init_producer_id.InitProducerIdRequest, token: int, now: int) -> None:
        """P4: an idempotent producer gets a new id, whatever id it sent: as in Kafka, an id without a transactional id
        belongs to no producer yet, so no producer can take over another's.
        """
        error = _find_error(request)
        if error is not None:
            self.out.reply(token, _answer(error, -1, -1))
            return
        self._waiting.append((token, now + self.config.forward_timeout_ms))
        self._serve(now)

    def abandon(self, token: int) -> None:
        kept = [waiting for waiting in self._waiting if waiting[0] != token]
        if len(kept) < len(self._waiting):
            self._waiting = kept
            self.out.reply(token, None)

    def tick(self, now: int) -> None:
        expired = [token for token, deadline in self._waiting if now >= deadline]
        if expired:
            self._waiting = [w for w in self._waiting if now < w[1]]
            for token in expired:
                self.out.reply(token, _answer(ErrorCode.request_timed_out, -1, -1))
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self._serve(now)

    def next_deadline(self) -> int | None:
        if not self._waiting:
            return self._retry_at
        first = min(deadline for _, deadline in self._waiting)
        return first if self._retry_at is None else min(first, self._retry_at)

    def _serve(self, now: int) -> None:
        while self._waiting and self._next < self._end:
            token, _ = self._waiting.pop(0)
            self.out.reply(token, _answer(ErrorCode.none, self._next, 0))
            self._next += 1
        if self._waiting and not self._request_in_flight and self._retry_at is None:
            self._request_block(now)

    def _request_block(self, now: int) -> None:
        peer = self._controller_id()
        if peer < 0 or self._broker_epoch() < 0:
            self._retry_at = now + self.config.forward_retry_ms
            return
        self._request_in_flight = True
        request = allocate_producer_ids.AllocateProducerIdsRequest(
            broker_id=self.config.node_id, broker_epoch=self._broker_epoch()
        )
        self.out.send(peer, CHANNEL, request, self._on_block, timeout_ms=self.config.forward_timeout_ms)

    def _on_block(self, response: allocate_producer_ids.AllocateProducerIdsResponse | None, now: int) -> None:
        self._request_in_flight = False
        if response is None or response.error_code is not ErrorCode.none:
            self._retry_at = now + self.config.forward_retry_ms
            return
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len
        self._serve(now)


def _find_error(request: init_producer_id.InitProducerIdRequest) -> ErrorCode | None:
    half_an_identity = (request.producer_id == -1) != (request.producer_epoch == -1)
    if half_an_identity or request.transactional_id == "":
        return ErrorCode.invalid_request
    return None if request.transactional_id is None else ErrorCode.transactional_id_authorization_failed


def _answer(error: ErrorCode, producer_id: int, producer_epoch: int) -> init_producer_id.InitProducerIdResponse:
    return init_producer_id.InitProducerIdResponse(
        throttle_time=NO_DURATION, error_code=error, producer_id=producer_id, producer_epoch=producer_epoch
    )
