"""What AlterConfigs and IncrementalAlterConfigs have in common: one line per resource."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from insync.sansio import Message
from insync.wire.errors import ErrorCode


def refused(api: ModuleType | Any, request: Message, error: ErrorCode) -> tuple[Message, ...]:
    """The same answer for every resource that the request names."""
    return tuple(
        api.AlterConfigsResourceResponse(
            error_code=error,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    )
