"""UnregisterBroker (64): forget a broker that will not come back (I5)."""

from insync.controller.controller import Controller
from insync.controller.decision import Slices
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import unregister_broker as api
from insync.wire.types import NO_DURATION

KEY = 64


def decide(controller: Controller, request: Message, now: int) -> Slices:
    return controller.unregister_broker(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.UnregisterBrokerResponse(throttle_time=NO_DURATION, error_code=error, error_message=None)
