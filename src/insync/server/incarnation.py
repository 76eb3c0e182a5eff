"""A supervisor gives the process that it starts an incarnation id, by which it recognises the process later."""

from __future__ import annotations

import os
from uuid import UUID

VARIABLE = "INSYNC_INCARNATION_ID"


def given_incarnation() -> UUID | None:
    """The id from the supervisor; None if there is none, and the node makes one."""
    incarnation_id = os.environ.get(VARIABLE)
    return UUID(incarnation_id) if incarnation_id else None
