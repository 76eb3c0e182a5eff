"""DescribeClientQuotas, from the image that every node has, as Kafka's ClientQuotasImage answers it.

A filter names entity types. A strict one matches entities of exactly these types; the other also those with more.
"""

from __future__ import annotations

from insync.metadata.image import Image
from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.security.quotas import DEFAULT, ENTITY_TYPES, QuotaEntity
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_client_quotas as api
from insync.wire.types import NO_DURATION

EXACT, DEFAULT_NAME, ANY_NAME = range(3)


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.DescribeClientQuotasRequest = event.request
    error, message = _find_filter_error(request.components)
    answer = api.DescribeClientQuotasResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        error_message=message,
        entries=_describe(node.image, request) if error is ErrorCode.none else None,
    )
    node.out.reply(event.token, answer)


def _find_filter_error(components: tuple[api.ComponentData, ...]) -> tuple[ErrorCode, str | None]:
    kinds: dict[str, None] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            return ErrorCode.invalid_request, "Invalid empty entity type."
        if kind in kinds:
            return ErrorCode.invalid_request, f"Entity type {kind} cannot appear more than once in the filter."
        if kind not in ENTITY_TYPES:
            return ErrorCode.unsupported_version, f"Unsupported entity type {kind}"
        if component.match_type not in (EXACT, DEFAULT_NAME, ANY_NAME):
            return ErrorCode.invalid_request, f"Unknown match type {component.match_type}"
        if component.match_type == EXACT and component.match is None:
            return ErrorCode.invalid_request, f"The filter asks for one {kind} and does not name it."
        if component.match_type != EXACT and component.match is not None:
            return ErrorCode.invalid_request, f"The filter names a {kind}, and does not ask for one by name."
        kinds[kind] = None
    if "ip" in kinds and len(kinds) > 1:
        return ErrorCode.invalid_request, "An ip cannot be combined with a user or client-id in a filter."
    return ErrorCode.none, None


def _describe(image: Image, request: api.DescribeClientQuotasRequest) -> tuple[api.EntryData, ...]:
    return tuple(
        api.EntryData(
            entity=tuple(api.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.names().items()),
            values=tuple(api.ValueData(key=key, value=value) for key, value in limits.items()),
        )
        for entity, limits in image.client_quotas.items()
        if _matches(entity, request)
    )


def _matches(entity: QuotaEntity, request: api.DescribeClientQuotasRequest) -> bool:
    if request.strict and sum(name is not None for name in entity) != len(request.components):
        return False
    return all(_matches_component(entity, component) for component in request.components)


def _matches_component(entity: QuotaEntity, component: api.ComponentData) -> bool:
    name: str | None = getattr(entity, ENTITY_TYPES[component.entity_type])
    if component.match_type == ANY_NAME:
        return name is not None
    # An exact filter for the empty name matches nothing: no entity has it.
    return name == (DEFAULT if component.match_type == DEFAULT_NAME else component.match or None) and name is not None
