"""AlterConfigs (33): replace all configs of a resource; those not named go back to their defaults (E8)."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.node import config_answers
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_configs as api
from insync.wire.types import NO_DURATION

KEY = 33
VERSIONS = (0, 2)


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.alter_configs(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AlterConfigsResponse(throttle_time=NO_DURATION, responses=config_answers.refused(api, request, error))
