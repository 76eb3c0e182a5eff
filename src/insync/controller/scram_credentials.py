"""AlterUserScramCredentials: user by user, as Kafka's ScramControlManager decides it.

A client sends the salted password, never the password. What is kept is derived from it and proves a password without
allowing to log in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from insync.controller.decision import Decision, Slices
from insync.controller.reassignment import OK, Outcome
from insync.controller.state import ControllerState
from insync.metadata.security_records import MECHANISMS, make_mock_record, to_scram_record
from insync.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, MOCK, credential_of_salted_password
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_user_scram_credentials as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:  # the classes are made when they are first looked up
    _Change = api.ScramCredentialDeletion | api.ScramCredentialUpsertion
_CHECKED_PER_SLICE = 10
"""To check a change takes so much less time than to make its record."""
_TWICE: Outcome = (ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")


def alter(state: ControllerState, request: api.AlterUserScramCredentialsRequest, now: int) -> Slices:
    changes: dict[str, _Change] = {}
    errors: dict[str, Outcome] = {}
    size = state.config.max_slice_records
    for number, change in enumerate(_list_changes(request), 1):
        if number % (_CHECKED_PER_SLICE * size) == 0:
            yield Decision()
        if change.name in errors:
            continue
        outcome = _TWICE if changes.pop(change.name, None) is not None else _check(state, change)
        if outcome == OK:
            changes[change.name] = change
        else:
            errors[change.name] = outcome
    accepted = list(changes.values())
    mock = _make_mock_record(state, accepted)
    while len(mock) + len(accepted) > size:
        count = size - len(mock)
        yield Decision(records=(*mock, *_make_records(state, accepted[:count])))
        mock = ()
        del accepted[:count]
    response = _make_response([*((name, OK) for name in changes), *errors.items()])
    yield Decision(records=(*mock, *_make_records(state, accepted)), response=response)


def refuse(request: api.AlterUserScramCredentialsRequest, error: ErrorCode) -> api.AlterUserScramCredentialsResponse:
    names = dict.fromkeys(change.name for change in _list_changes(request))
    return _make_response([(name, (error, None)) for name in names])


def _list_changes(request: api.AlterUserScramCredentialsRequest) -> list[_Change]:
    return [*request.deletions, *request.upsertions]


def _check(state: ControllerState, change: _Change) -> Outcome:
    mechanism = MECHANISMS.get(change.mechanism)
    if not change.name:
        return ErrorCode.unacceptable_credential, "Username must not be empty"
    if mechanism is None:
        return ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"
    if isinstance(change, api.ScramCredentialDeletion):
        if (mechanism, change.name) not in state.image.scram_credentials:
            return ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
        return OK
    if change.iterations < MIN_ITERATIONS:
        return ErrorCode.unacceptable_credential, "Too few iterations"
    if change.iterations > MAX_ITERATIONS:
        return ErrorCode.unacceptable_credential, "Too many iterations"
    if not change.salted_password:
        return ErrorCode.unacceptable_credential, "The salted password is empty"
    return OK


def _make_mock_record(state: ControllerState, changes: list[_Change]) -> tuple[records.UserScramCredentialRecord, ...]:
    """With the first user of the cluster."""
    has_new = any(isinstance(change, api.ScramCredentialUpsertion) for change in changes)
    return (make_mock_record(state.rng.randbytes),) if has_new and MOCK not in state.image.scram_credentials else ()


def _make_records(
    state: ControllerState, changes: list[_Change]
) -> Iterator[records.UserScramCredentialRecord | records.RemoveUserScramCredentialRecord]:
    for change in changes:
        mechanism = MECHANISMS[change.mechanism]
        if isinstance(change, api.ScramCredentialUpsertion):
            salted = change.salted_password
            credential = credential_of_salted_password(mechanism, salted, change.salt, change.iterations)
            yield to_scram_record(mechanism, change.name, credential)
        elif (mechanism, change.name) in state.image.scram_credentials:  # another request may have removed it since
            yield records.RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _make_response(results: list[tuple[str, Outcome]]) -> api.AlterUserScramCredentialsResponse:
    return api.AlterUserScramCredentialsResponse(
        throttle_time=NO_DURATION,
        results=tuple(
            api.AlterUserScramCredentialsResult(user=name, error_code=error, error_message=message)
            for name, (error, message) in results
        ),
    )
