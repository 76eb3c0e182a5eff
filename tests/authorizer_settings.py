"""The settings of nodes that check ACLs."""

from __future__ import annotations

from insync.server.property_keys import STANDARD_AUTHORIZER


def authorizer_settings(*super_users: str) -> dict[str, str]:
    return {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": ";".join(f"User:{name}" for name in super_users),
    }
