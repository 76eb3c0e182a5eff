"""BrokerRegistration (62): one uptime of one broker gets its epoch (B1, B2). Between nodes only."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision, Slices
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_registration as api
from insync.wire.types import NO_DURATION

KEY = 62


def decide(controller: Controller, request: Message, now: int) -> Decision | Slices:
    return controller.register_broker(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.BrokerRegistrationResponse(throttle_time=NO_DURATION, error_code=error)
