"""ListPartitionReassignments (46): what is under way (R6)."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_partition_reassignments as api
from insync.wire.types import NO_DURATION

KEY = 46


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.list_partition_reassignments(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.ListPartitionReassignmentsResponse(
        throttle_time=NO_DURATION, error_code=error, error_message=None, topics=()
    )
