"""What archive and replay have in common: which cluster they use, when they give up, and what they report."""

from __future__ import annotations

from dataclasses import dataclass, field

from insync.client.settings import DEFAULT_SETTINGS, ClientSettings

MAX_FAILED_ROUNDS = 4
PAUSE_S = 1.0
"""After a failed round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """How to reach the cluster, on the driver and on executors."""

    bootstrap: str
    timeout_s: float = 60.0
    client: ClientSettings = DEFAULT_SETTINGS
    """Security and other client settings."""


@dataclass(slots=True, kw_only=True)
class JobSummary:
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False


def no_progress(*_: object) -> None:
    """The progress of a job that is not shown."""


class FailedRounds:
    """Counts rounds in a row that failed and made no progress."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, error: str, *, progressed: bool) -> bool:
        """True if the job should give up."""
        self._count = self._count + 1 if error and not progressed else 0
        return self._count >= MAX_FAILED_ROUNDS
