"""DescribeAcls, from the image that every node has."""

from __future__ import annotations

from insync.controller.acls import NO_AUTHORIZER
from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.security.acl import Acl, AclFilter, find_filter_error
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_acls as api
from insync.wire.types import NO_DURATION


def describe(node: NodeView, event: Request, now: int) -> None:
    node.out.reply(event.token, _describe(node, event.request))


def _describe(node: NodeView, request: api.DescribeAclsRequest) -> api.DescribeAclsResponse:
    if node.config.authorizer is None:
        return _answer(ErrorCode.security_disabled, NO_AUTHORIZER)
    acl_filter = AclFilter.of(request)
    problem = find_filter_error(acl_filter)
    if problem is not None:
        return _answer(ErrorCode.invalid_request, problem)
    by_resource: dict[tuple[int, str, int], list[api.AclDescription]] = {}
    for acl in node.image.acls.values():
        if acl_filter.matches(acl):
            resource = (acl.resource_type, acl.resource_name, acl.pattern_type)
            by_resource.setdefault(resource, []).append(_describe_acl(acl))
    resources = tuple(
        api.DescribeAclsResource(
            resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=tuple(acls)
        )
        for (resource_type, name, pattern_type), acls in sorted(by_resource.items(), key=lambda entry: entry[0])
    )
    return _answer(ErrorCode.none, None, resources)


def _describe_acl(acl: Acl) -> api.AclDescription:
    return api.AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )


def _answer(
    error: ErrorCode, message: str | None, resources: tuple[api.DescribeAclsResource, ...] = ()
) -> api.DescribeAclsResponse:
    return api.DescribeAclsResponse(
        throttle_time=NO_DURATION, error_code=error, error_message=message, resources=resources
    )
