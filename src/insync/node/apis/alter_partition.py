"""AlterPartition (56): a leader proposes an ISR (I3, I4). Between nodes only."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition as api
from insync.wire.types import NO_DURATION

KEY = 56


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.alter_partition(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AlterPartitionResponse(throttle_time=NO_DURATION, error_code=error, topics=())
