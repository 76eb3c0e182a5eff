"""AlterConfigs (33): replace all configs of a resource; those not named go back to their defaults (E8)."""

from insync.controller.controller import Controller
from insync.controller.decision import Slices
from insync.node import config_answers, request_parts
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_configs as api
from insync.wire.types import NO_DURATION

KEY = 33


def split(request: Message) -> list[Message]:
    return request_parts.split_flat(request, "resources", lambda entry: (entry.resource_type, entry.resource_name))


def merge(answers: list[Message]) -> Message:
    lines = tuple(line for answer in answers for line in answer.responses)
    return api.AlterConfigsResponse(throttle_time=NO_DURATION, responses=lines)


def decide(controller: Controller, request: Message, now: int) -> Slices:
    return controller.alter_configs(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AlterConfigsResponse(throttle_time=NO_DURATION, responses=config_answers.refused(api, request, error))
