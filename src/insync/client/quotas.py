"""Client quotas: listing and changing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from insync.client import apis
from insync.client.client import Client
from insync.client.errors import raise_for_error
from insync.client.propagation import wait_for_propagation
from insync.security.quotas import QuotaEntity

_ALL = {"components": [], "strict": False}


async def list_quotas(client: Client) -> dict[QuotaEntity, dict[str, float]]:
    """By entity and quota name, the limit. Entities of types that this client does not know are left out."""

    async def attempt() -> dict[QuotaEntity, dict[str, float]]:
        return _parse(await client.call_any(apis.DESCRIBE_CLIENT_QUOTAS, _ALL))

    return await client.retry(attempt)


def _parse(answer: Any) -> dict[QuotaEntity, dict[str, float]]:
    raise_for_error(answer.error_code, "listing quotas", answer.error_message)
    quotas = {}
    for entry in answer.entries or ():
        entity = QuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity})
        if entity is not None:
            quotas[entity] = {value.key: value.value for value in entry.values}
    return quotas


async def alter_quotas(client: Client, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Set limits of one entity; None removes a limit. All changes are made, or none."""
    names = entity.names()
    values = {
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names.items()],
                "ops": [
                    {"key": key, "value": 0.0 if limit is None else limit, "remove": limit is None}
                    for key, limit in changes.items()
                ],
            }
        ],
        "validate_only": False,
    }

    async def attempt() -> None:
        answer = await client.call_controller(apis.ALTER_CLIENT_QUOTAS, values)
        for entry in answer.entries:
            raise_for_error(entry.error_code, f"changing the quotas of {entity}", entry.error_message)

    await client.retry(attempt)

    async def has_change(broker: int) -> bool:
        limits = _parse(await client.call_broker(broker, apis.DESCRIBE_CLIENT_QUOTAS, _ALL)).get(entity, {})
        return all(limits.get(key) == limit for key, limit in changes.items())

    await wait_for_propagation(client, has_change)
