"""AssignReplicasToDirs (73): a broker says that one of its replicas cannot be used (D6). Between nodes only."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import assign_replicas_to_dirs as api
from insync.wire.types import NO_DURATION

KEY = 73


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.assign_replicas_to_dirs(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AssignReplicasToDirsResponse(throttle_time=NO_DURATION, error_code=error, directories=())
