"""How a supervisor names the process that it starts, so as to know it again: by the incarnation id of its broker."""

from __future__ import annotations

import os
from uuid import UUID

VARIABLE = "INSYNC_INCARNATION_ID"


def given_incarnation() -> UUID | None:
    """None if the supervisor gave no id; the node then draws its own."""
    given = os.environ.get(VARIABLE)
    return UUID(given) if given else None
