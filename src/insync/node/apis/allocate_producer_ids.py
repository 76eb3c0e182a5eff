"""AllocateProducerIds (67): a block of producer ids for one broker (P4). Between nodes only."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import allocate_producer_ids as api
from insync.wire.types import NO_DURATION

KEY = 67


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.allocate_producer_ids(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AllocateProducerIdsResponse(
        throttle_time=NO_DURATION, error_code=error, producer_id_start=-1, producer_id_len=0
    )
