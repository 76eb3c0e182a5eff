"""DescribeAcls (29): there is no authorizer, so nobody is allowed or forbidden anything, and that is the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_acls as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 29

NO_AUTHORIZER = "No Authorizer is configured."


def handle(node: Node, request: Message, token: int, now: int) -> None:
    node.out.reply(
        token,
        api.DescribeAclsResponse(
            throttle_time=NO_DURATION,
            error_code=ErrorCode.security_disabled,
            error_message=NO_AUTHORIZER,
            resources=(),
        ),
    )
