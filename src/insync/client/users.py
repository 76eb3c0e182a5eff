"""Users that log in by SCRAM: listing them, setting passwords, removing credentials. No password leaves this process:
the cluster gets the salted one, and keeps what proves it."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from insync.client import apis
from insync.client.client import Client
from insync.client.errors import ErrorCode, raise_for_error
from insync.client.propagation import wait_for_propagation
from insync.security.scram import HASHES, MECHANISM_CODES, SALT_BYTES

_MECHANISMS = {code: name for name, code in MECHANISM_CODES.items()}


async def list_users(client: Client, names: list[str] | None = None) -> dict[str, dict[str, int]]:
    """By user and mechanism, the iterations; all users, or those of these names that exist."""

    async def attempt() -> dict[str, dict[str, int]]:
        return _parse(await client.call_any(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, _values(names)))

    return dict(sorted((await client.retry(attempt)).items()))


def _values(names: list[str] | None) -> dict[str, Any]:
    return {"users": None if names is None else [{"name": name} for name in names]}


def _parse(answer: Any) -> dict[str, dict[str, int]]:
    raise_for_error(answer.error_code, "listing users", answer.error_message)
    users = {}
    for result in answer.results:
        if result.error_code is not ErrorCode.resource_not_found:
            raise_for_error(result.error_code, f"describing user '{result.user}'", result.error_message)
            infos = sorted(result.credential_infos, key=lambda info: info.mechanism)
            users[result.user] = {_MECHANISMS.get(i.mechanism, str(i.mechanism)): i.iterations for i in infos}
    return users


async def set_password(client: Client, name: str, password: str, mechanism: str, iterations: int) -> None:
    """Create the credential, or replace it."""
    salt = secrets.token_bytes(SALT_BYTES)
    upsertion = {
        "name": name,
        "mechanism": MECHANISM_CODES[mechanism],
        "iterations": iterations,
        "salt": salt,
        "salted_password": hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations),
    }
    await _alter(client, f"setting the password of user '{name}'", {"deletions": [], "upsertions": [upsertion]})
    await _wait_for_iterations(client, name, mechanism, iterations)


async def remove_credential(client: Client, name: str, mechanism: str) -> None:
    deletion = {"name": name, "mechanism": MECHANISM_CODES[mechanism]}
    await _alter(client, f"removing {mechanism} of user '{name}'", {"deletions": [deletion], "upsertions": []})
    await _wait_for_iterations(client, name, mechanism, None)


async def _alter(client: Client, what: str, values: dict[str, Any]) -> None:
    async def attempt() -> None:
        answer = await client.call_controller(apis.ALTER_USER_SCRAM_CREDENTIALS, values)
        for result in answer.results:
            raise_for_error(result.error_code, what, result.error_message)

    await client.retry(attempt)


async def _wait_for_iterations(client: Client, name: str, mechanism: str, iterations: int | None) -> None:
    """Until every broker has the credential, as far as one can see, or with None no longer has it."""

    async def has_change(broker: int) -> bool:
        users = _parse(await client.call_broker(broker, apis.DESCRIBE_USER_SCRAM_CREDENTIALS, _values([name])))
        return users.get(name, {}).get(mechanism) == iterations

    await wait_for_propagation(client, has_change)
