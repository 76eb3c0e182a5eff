"""CreateAcls (30): refused, as there is no authorizer that would go by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node.apis.describe_acls import NO_AUTHORIZER
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_acls as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 30


def handle(node: Node, request: Message, token: int, now: int) -> None:
    refused = api.AclCreationResult(error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER)
    results = (refused,) * len(request.creations)
    node.out.reply(token, api.CreateAclsResponse(throttle_time=NO_DURATION, results=results))
