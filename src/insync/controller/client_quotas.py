"""AlterClientQuotas: entity by entity, as Kafka's ClientQuotaControlManager decides it.

Kafka resolves the name of a host to the address of an IP quota. The protocol does no name lookups: an IP quota has an
address.
"""

from __future__ import annotations

from ipaddress import ip_address
from math import isfinite

from insync.controller.decision import Decision
from insync.controller.reassignment import OK, Outcome
from insync.controller.state import ControllerState
from insync.metadata.security_records import to_quota_record
from insync.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_client_quotas as api
from insync.wire.types import NO_DURATION

_MAX_INT, _MAX_LONG = 2**31 - 1, 2**63 - 1
_LIMITS: dict[str, int | None] = {
    PRODUCER_BYTE_RATE: _MAX_LONG,
    CONSUMER_BYTE_RATE: _MAX_LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""Quotas of users and client ids, with the largest value of those that are whole numbers."""
_IP_LIMITS: dict[str, int | None] = {CONNECTION_CREATION_RATE: _MAX_INT}

EntityKey = tuple[tuple[str, str | None], ...]


def entity_key(entry: api.RequestEntry) -> EntityKey:
    """Equal for entries of one entity. As in Kafka, the last of several names of one type counts."""
    return tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))


def alter(state: ControllerState, request: api.AlterClientQuotasRequest, now: int) -> Decision:
    made: list[records.ClientQuotaRecord] = []
    results: dict[EntityKey, Outcome] = {}
    for entry in request.entries:
        key = entity_key(entry)
        if key in results:
            results[key] = ErrorCode.invalid_request, f"Ignoring duplicate entity {_format(key)}"
        else:
            results[key] = _alter_entity(state, key, entry.ops, made)
    return Decision(records=() if request.validate_only else tuple(made), response=_make_response(results))


def refuse(request: api.AlterClientQuotasRequest, error: ErrorCode) -> api.AlterClientQuotasResponse:
    return _make_response({entity_key(entry): (error, None) for entry in request.entries})


def _alter_entity(
    state: ControllerState, key: EntityKey, ops: tuple[api.OpData, ...], made: list[records.ClientQuotaRecord]
) -> Outcome:
    """All changes of an entity are made, or none."""
    outcome = _check_entity(dict(key))
    entity = QuotaEntity.of(dict(key))
    if outcome != OK or entity is None:
        return outcome
    limits = _LIMITS if entity.ip is None else _IP_LIMITS
    current = state.image.client_quotas.get(entity, {})
    changes: dict[str, float | None] = {}
    for op in ops:
        if op.key in changes:
            return ErrorCode.invalid_request, f"Duplicate quota key {op.key} for the entity {_format(key)}"
        changes[op.key] = None if op.remove else op.value
    for name, value in changes.items():
        problem = None if value is None else _find_value_error(limits, name, value)
        if problem is not None:
            return ErrorCode.invalid_request, problem
    made += [to_quota_record(entity, name, value) for name, value in changes.items() if current.get(name) != value]
    return OK


def _check_entity(names: dict[str, str | None]) -> Outcome:
    if not names:
        return ErrorCode.invalid_request, "Invalid empty client quota entity"
    for kind, name in names.items():
        if kind not in ENTITY_TYPES:
            return ErrorCode.invalid_request, f"Unhandled client quota entity type: {kind}"
        if name == "":
            return ErrorCode.invalid_request, f"Empty {kind} not supported"
    if "ip" not in names:
        return OK
    if len(names) > 1:
        message = "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        return ErrorCode.invalid_request, message
    address = names["ip"]
    try:
        ip_address(address or "127.0.0.1")
    except ValueError:
        return ErrorCode.invalid_request, f"{address} is not a valid IP address; host names are not resolved."
    return OK


def _find_value_error(limits: dict[str, int | None], name: str, value: float) -> str | None:
    if name not in limits:
        return f"Invalid configuration key {name}"
    if not isfinite(value):
        return f"Quota {name} must be a finite number"
    if value <= 0:
        return f"Quota {name} must be greater than 0"
    largest = limits[name]
    if largest is None:
        return None
    if value > largest:
        return f"Proposed value for {name} is too large for {'an INT' if largest == _MAX_INT else 'a LONG'}."
    return f"{name} cannot be a fractional value." if value % 1 > 1e-6 else None


def _format(key: EntityKey) -> str:
    return ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in key)


def _make_response(results: dict[EntityKey, Outcome]) -> api.AlterClientQuotasResponse:
    return api.AlterClientQuotasResponse(
        throttle_time=NO_DURATION,
        entries=tuple(
            api.ResponseEntry(
                error_code=error,
                error_message=message,
                entity=tuple(api.ResponseEntity(entity_type=kind, entity_name=name) for kind, name in key),
            )
            for key, (error, message) in results.items()
        ),
    )
