"""Blocks of producer ids: each block is allocated once in the life of the cluster (P4)."""

from __future__ import annotations

from insync.controller.decision import Decision
from insync.controller.state import ControllerState
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import allocate_producer_ids
from insync.wire.types import NO_DURATION

_MAX_ID = 2**63 - 1


def allocate(state: ControllerState, request: allocate_producer_ids.AllocateProducerIdsRequest, now: int) -> Decision:
    if not state.is_current_epoch(request.broker_id, request.broker_epoch):
        return Decision(response=_make_response(ErrorCode.stale_broker_epoch))  # B8
    first, size = state.image.next_producer_id, state.config.producer_id_block
    if first > _MAX_ID - size:
        return Decision(response=_make_response(ErrorCode.unknown_server_error))
    record = records.ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + size
    )
    return Decision(records=(record,), response=_make_response(ErrorCode.none, first, size))


def _make_response(
    error: ErrorCode, first: int = -1, size: int = 0
) -> allocate_producer_ids.AllocateProducerIdsResponse:
    return allocate_producer_ids.AllocateProducerIdsResponse(
        throttle_time=NO_DURATION, error_code=error, producer_id_start=first, producer_id_len=size
    )
