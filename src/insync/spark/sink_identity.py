"""Who writes, as brokers see it. Why it is made this way is in `sink_fence`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

EPOCHS = 30_000
"""Micro-batches of one producer id; an epoch has 15 bits."""
_MADE_UP = 1 << 62
"""Brokers hand out producer ids from 0 upwards: ours never meet them."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Who writes: a query, or one batch job."""

    id: str
    batch: int = 0

    @property
    def epoch(self) -> int:
        return self.batch % EPOCHS

    def producer_id(self, task: int, level: int) -> int:
        name = f"{self.id}/{task}/{self.batch // EPOCHS}/{level}"
        return _MADE_UP | (int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) & (_MADE_UP - 1))
