"""DescribeUserScramCredentials, from the image that every node has: mechanisms and iterations, never keys."""

from __future__ import annotations

from collections import Counter

from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.security.scram import MECHANISM_CODES, MOCK
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_user_scram_credentials as api
from insync.wire.types import NO_DURATION


def handle(node: NodeView, event: Request, now: int) -> None:
    """No users, or null: all of them."""
    request: api.DescribeUserScramCredentialsRequest = event.request
    credentials = node.image.scram_credentials
    if request.users:
        users = Counter(user.name for user in request.users)
    else:
        users = Counter(dict.fromkeys(sorted(user for mechanism, user in credentials if (mechanism, user) != MOCK), 1))
    results = []
    for user, times in users.items():
        infos = tuple(
            api.CredentialInfo(mechanism=code, iterations=credentials[mechanism, user].iterations)
            for mechanism, code in MECHANISM_CODES.items()
            if (mechanism, user) in credentials and (mechanism, user) != MOCK
        )
        if times > 1:
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            results.append(_make_result(user, ErrorCode.duplicate_resource, message))
        elif not infos:
            message = f"Attempt to describe a user credential that does not exist: {user}"
            results.append(_make_result(user, ErrorCode.resource_not_found, message))
        else:
            results.append(_make_result(user, ErrorCode.none, None, infos))
    node.out.reply(
        event.token,
        api.DescribeUserScramCredentialsResponse(
            throttle_time=NO_DURATION, error_code=ErrorCode.none, error_message=None, results=tuple(results)
        ),
    )


def _make_result(
    user: str, error: ErrorCode, message: str | None, infos: tuple[api.CredentialInfo, ...] = ()
) -> api.DescribeUserScramCredentialsResult:
    return api.DescribeUserScramCredentialsResult(
        user=user, error_code=error, error_message=message, credential_infos=infos
    )
