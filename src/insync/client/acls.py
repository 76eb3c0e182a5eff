"""ACLs: listing, creating and deleting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from insync.client import apis
from insync.client.client import Client
from insync.client.errors import raise_for_error
from insync.client.propagation import wait_for_propagation
from insync.security.acl import Acl, AclFilter


async def list_acls(client: Client, acl_filter: AclFilter) -> list[Acl]:
    """The ACLs that match, sorted by resource and principal."""

    async def attempt() -> Any:
        answer = await client.call_any(apis.DESCRIBE_ACLS, acl_filter.kafka_fields())
        raise_for_error(answer.error_code, "listing ACLs", answer.error_message)
        return answer

    answer = await client.retry(attempt)
    acls = [Acl.of(resource, acl, resource.pattern_type) for resource in answer.resources for acl in resource.acls]
    return sorted(
        acls,
        key=lambda acl: (
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.operation,
            acl.permission,
            acl.host,
        ),
    )


async def create_acls(client: Client, acls: Sequence[Acl]) -> None:
    """An ACL that exists already is left as it is. The first that is refused raises; others may have been created."""
    values = {"creations": [acl.creation_fields() for acl in acls]}

    async def attempt() -> None:
        answer = await client.call_controller(apis.CREATE_ACLS, values)
        for acl, result in zip(acls, answer.results, strict=True):
            raise_for_error(result.error_code, f"creating the ACL '{acl}'", result.error_message)

    async def has_acls(broker: int) -> bool:
        return all([await _count_at(client, broker, AclFilter.exactly(acl)) for acl in acls])

    await client.retry(attempt)
    await wait_for_propagation(client, has_acls)


async def delete_acls(client: Client, filters: Sequence[AclFilter]) -> list[Acl]:
    """The ACLs that were deleted. If an attempt fails after it had an effect, those that it deleted are not included.

    The first filter that is refused raises; others may have had an effect.
    """
    values = {"filters": [acl_filter.kafka_fields() for acl_filter in filters]}

    async def attempt() -> Any:
        answer = await client.call_controller(apis.DELETE_ACLS, values)
        for result in answer.filter_results:
            raise_for_error(result.error_code, "deleting ACLs", result.error_message)
            for acl in result.matching_acls:
                raise_for_error(acl.error_code, "deleting an ACL", acl.error_message)
        return answer

    async def has_none(broker: int) -> bool:
        return not any([await _count_at(client, broker, acl_filter) for acl_filter in filters])

    answer = await client.retry(attempt)
    await wait_for_propagation(client, has_none)
    deleted = [Acl.of(acl, acl, acl.pattern_type) for result in answer.filter_results for acl in result.matching_acls]
    return list(dict.fromkeys(deleted))


async def _count_at(client: Client, broker: int, acl_filter: AclFilter) -> int:
    answer = await client.call_broker(broker, apis.DESCRIBE_ACLS, acl_filter.kafka_fields())
    raise_for_error(answer.error_code, "listing ACLs", answer.error_message)
    return len(answer.resources)
