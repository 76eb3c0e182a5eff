"""CreateAcls and DeleteAcls: entry by entry, as Kafka's AclControlManager decides them.

An ACL that exists already is created again without a record. A filter that matches many ACLs removes them in slices,
those that allow first (A8).
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from insync.controller.decision import Decision, Slices
from insync.controller.state import ControllerState
from insync.metadata import security_records
from insync.security.acl import Acl, AclFilter, Permission, find_creation_error, find_filter_error
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_acls, delete_acls
from insync.wire.types import NO_DURATION

NO_AUTHORIZER = "No Authorizer is configured."
_COMPARED_PER_STEP = 5_000
"""ACLs that are compared with filters in one step."""
_MAX_MATCHES = 100_000
"""ACLs in the answer to one request; one may be in it several times."""


def create(state: ControllerState, request: create_acls.CreateAclsRequest, now: int) -> Decision:
    if not state.has_authorizer:
        return Decision(response=refuse_creations(request, ErrorCode.security_disabled, NO_AUTHORIZER))
    made: dict[Acl, records.AccessControlEntryRecord] = {}
    results = []
    for creation in request.creations:
        acl = Acl.of(creation, creation, creation.resource_pattern_type)
        problem = find_creation_error(acl)
        if problem is None and acl not in made and not state.image.has_acl(acl):
            made[acl] = security_records.to_acl_record(UUID(int=state.rng.getrandbits(128), version=4), acl)
        error = ErrorCode.none if problem is None else ErrorCode.invalid_request
        results.append(create_acls.AclCreationResult(error_code=error, error_message=problem))
    response = create_acls.CreateAclsResponse(throttle_time=NO_DURATION, results=tuple(results))
    return Decision(records=tuple(made.values()), response=response)


def delete(state: ControllerState, request: delete_acls.DeleteAclsRequest, now: int) -> Slices:
    """All filters are compared with the ACLs that there are at the beginning: an ACL may be in several results."""
    if not state.has_authorizer:
        yield Decision(response=refuse_filters(request, ErrorCode.security_disabled, NO_AUTHORIZER))
        return
    acls = dict(state.image.acls)
    results = []
    removed: dict[UUID, Acl] = {}
    matches = compared = 0
    for wanted in request.filters:
        acl_filter = AclFilter.of(wanted)
        problem = find_filter_error(acl_filter) if matches <= _MAX_MATCHES else _TOO_MANY
        matching = {} if problem else {acl_id: acl for acl_id, acl in acls.items() if acl_filter.matches(acl)}
        error = ErrorCode.invalid_request if problem else ErrorCode.none
        results.append(_make_filter_result(error, problem, tuple(_to_match(acl) for acl in matching.values())))
        removed |= matching
        matches += len(matching)
        compared += len(acls) + 1
        if compared > _COMPARED_PER_STEP:
            compared = 0
            yield Decision()
    ordered = order_removals(removed)
    size = state.config.max_slice_records
    while len(ordered) > size:
        yield Decision(records=_remove(state, ordered[:size]))
        del ordered[:size]
    response = delete_acls.DeleteAclsResponse(throttle_time=NO_DURATION, filter_results=tuple(results))
    yield Decision(records=_remove(state, ordered), response=response)


def order_removals(removed: Mapping[UUID, Acl]) -> list[UUID]:
    """A8: no slice leaves a client with more than it may do before or after the whole change."""
    return sorted(removed, key=lambda acl_id: removed[acl_id].permission is Permission.DENY)


_TOO_MANY = f"The filters before this one matched more than {_MAX_MATCHES} ACLs; delete the rest by another request."


def _remove(state: ControllerState, acl_ids: list[UUID]) -> tuple[records.RemoveAccessControlEntryRecord, ...]:
    """Without those that another request has removed since."""
    return tuple(records.RemoveAccessControlEntryRecord(id=acl_id) for acl_id in acl_ids if acl_id in state.image.acls)


def refuse_creations(
    request: create_acls.CreateAclsRequest, error: ErrorCode, message: str | None = None
) -> create_acls.CreateAclsResponse:
    refused = create_acls.AclCreationResult(error_code=error, error_message=message)
    return create_acls.CreateAclsResponse(throttle_time=NO_DURATION, results=(refused,) * len(request.creations))


def refuse_filters(
    request: delete_acls.DeleteAclsRequest, error: ErrorCode, message: str | None = None
) -> delete_acls.DeleteAclsResponse:
    refused = _make_filter_result(error, message, ())
    return delete_acls.DeleteAclsResponse(throttle_time=NO_DURATION, filter_results=(refused,) * len(request.filters))


def _to_match(acl: Acl) -> delete_acls.DeleteAclsMatchingAcl:
    return delete_acls.DeleteAclsMatchingAcl(error_code=ErrorCode.none, error_message=None, **acl.kafka_fields())


def _make_filter_result(
    error: ErrorCode, message: str | None, matching: tuple[delete_acls.DeleteAclsMatchingAcl, ...]
) -> delete_acls.DeleteAclsFilterResult:
    return delete_acls.DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=matching)
