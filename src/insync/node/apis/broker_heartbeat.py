"""BrokerHeartbeat (63): alive, caught up, leaving (B3, B4, B7). Between nodes only."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat as api
from insync.wire.types import NO_DURATION

KEY = 63


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.broker_heartbeat(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.BrokerHeartbeatResponse(throttle_time=NO_DURATION, error_code=error, should_shut_down=False)
