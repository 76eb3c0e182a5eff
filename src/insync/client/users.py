"""Users that log in by SCRAM: listing them, setting passwords, removing credentials. No password leaves this process:
the cluster gets the salted one, and keeps what proves it."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from insync.client import apis
from insync.client.client import Client
from insync.client.errors import ErrorCode, raise_for_error
from insync.security.scram import HASHES, MECHANISM_CODES, SALT_BYTES

_MECHANISMS = {code: name for name, code in MECHANISM_CODES.items()}


async def list_users(client: Client, names: list[str] | None = None) -> dict[str, dict[str, int]]:
    """By user and mechanism, the iterations; all users, or those of these names that exist."""
    values = {"users": None if names is None else [{"name": name} for name in names]}

    async def attempt() -> Any:
        answer = await client.call_any(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, values)
        raise_for_error(answer.error_code, "listing users", answer.error_message)
        return answer

    answer = await client.retry(attempt)
    users = {}
    for result in answer.results:
        if result.error_code is not ErrorCode.resource_not_found:
            raise_for_error(result.error_code, f"describing user '{result.user}'", result.error_message)
            infos = result.credential_infos
            users[result.user] = {_MECHANISMS.get(i.mechanism, str(i.mechanism)): i.iterations for i in infos}
    return dict(sorted(users.items()))


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


async def remove_credential(client: Client, name: str, mechanism: str) -> None:
    deletion = {"name": name, "mechanism": MECHANISM_CODES[mechanism]}
    await _alter(client, f"removing {mechanism} of user '{name}'", {"deletions": [deletion], "upsertions": []})


async def _alter(client: Client, what: str, values: dict[str, Any]) -> None:
    async def attempt() -> None:
        answer = await client.call_controller(apis.ALTER_USER_SCRAM_CREDENTIALS, values)
        for result in answer.results:
            raise_for_error(result.error_code, what, result.error_message)

    await client.retry(attempt)
