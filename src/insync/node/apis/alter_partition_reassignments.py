"""AlterPartitionReassignments (45): start, replace or cancel a reassignment (R)."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition_reassignments as api
from insync.wire.types import NO_DURATION

KEY = 45
VERSIONS = (0, 1)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.alter_partition_reassignments(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AlterPartitionReassignmentsResponse(
        throttle_time=NO_DURATION, error_code=error, error_message=None, responses=()
    )
