"""DeleteAcls (31): refused, as there is no authorizer that would have any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.apis.describe_acls import NO_AUTHORIZER
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_acls as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 31


def handle(node: Node, request: Message, token: int, now: int) -> None:
    refused = api.DeleteAclsFilterResult(
        error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER, matching_acls=()
    )
    results = (refused,) * len(request.filters)
    node.out.reply(token, api.DeleteAclsResponse(throttle_time=NO_DURATION, filter_results=results))
