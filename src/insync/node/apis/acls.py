"""DescribeAcls, CreateAcls, DeleteAcls: refused as Kafka refuses them where no authorizer is configured."""

from __future__ import annotations

from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_acls, delete_acls, describe_acls
from insync.wire.types import NO_DURATION

NO_AUTHORIZER = "No Authorizer is configured."


def describe(node: NodeView, event: Request, now: int) -> None:
    answer = describe_acls.DescribeAclsResponse(
        throttle_time=NO_DURATION, error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER, resources=()
    )
    node.out.reply(event.token, answer)


def create(node: NodeView, event: Request, now: int) -> None:
    request: create_acls.CreateAclsRequest = event.request
    refused = create_acls.AclCreationResult(error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER)
    results = (refused,) * len(request.creations)
    node.out.reply(event.token, create_acls.CreateAclsResponse(throttle_time=NO_DURATION, results=results))


def delete(node: NodeView, event: Request, now: int) -> None:
    request: delete_acls.DeleteAclsRequest = event.request
    refused = delete_acls.DeleteAclsFilterResult(
        error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER, matching_acls=()
    )
    results = (refused,) * len(request.filters)
    node.out.reply(event.token, delete_acls.DeleteAclsResponse(throttle_time=NO_DURATION, filter_results=results))
