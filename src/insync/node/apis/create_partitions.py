"""CreatePartitions (37): decided by the controller."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_partitions as api
from insync.wire.types import NO_DURATION

KEY = 37
VERSIONS = (0, 3)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.create_partitions(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.CreatePartitionsResponse(
        throttle_time=NO_DURATION,
        results=tuple(api.CreatePartitionsTopicResult(name=topic.name, error_code=error) for topic in request.topics),
    )
