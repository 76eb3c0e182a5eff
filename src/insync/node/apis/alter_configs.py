"""AlterConfigs (33): replace all configs of a resource; those not named go back to their defaults (E8)."""

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_configs as api
from insync.wire.types import NO_DURATION

KEY = 33
VERSIONS = (0, 2)
REQUEST = api.AlterConfigsRequest


def decide(controller: Controller, request: Message, now: int) -> Decision:
    return controller.alter_configs(request, now)


def refuse(request: Message, error: ErrorCode) -> Message:
    return api.AlterConfigsResponse(
        throttle_time=NO_DURATION,
        responses=tuple(
            api.AlterConfigsResourceResponse(
                error_code=error,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ),
    )
