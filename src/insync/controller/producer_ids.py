"""Blocks of producer ids: each is handed out once in the life of the cluster (P4)."""

from __future__ import annotations

from typing import Any

from insync.controller import eligibility
from insync.controller.context import Context
from insync.controller.decision import Decision
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import allocate_producer_ids
from insync.wire.types import NO_DURATION

_LAST = 2**63 - 1


def allocate(ctx: Context, request: Any, now: int) -> Decision:
    if not eligibility.epoch_is_current(ctx.image, request.broker_id, request.broker_epoch):
        return Decision(response=_response(ErrorCode.stale_broker_epoch))  # B8
    first, size = ctx.image.next_producer_id, ctx.config.producer_id_block
    if first > _LAST - size:
        return Decision(response=_response(ErrorCode.unknown_server_error))
    record = records.ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + size
    )
    return Decision(records=(record,), response=_response(ErrorCode.none, first, size))


def _response(error: ErrorCode, first: int = -1, size: int = 0) -> allocate_producer_ids.AllocateProducerIdsResponse:
    return allocate_producer_ids.AllocateProducerIdsResponse(
        throttle_time=NO_DURATION, error_code=error, producer_id_start=first, producer_id_len=size
    )
