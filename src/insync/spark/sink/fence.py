"""The fence: what one run of a task has written, another run of the same task does not write again.

Every row is identified by the query, the micro-batch, the task, the partition it goes to, and how many rows of the task
went there before. All of this fits into what brokers check of an idempotent producer anyway: the producer id is a hash
of query and task, the producer epoch is the micro-batch, and the sequence counts the rows. So a broker stores each row
at most once, and refuses rows of earlier micro-batches once a later one has begun, from any process.

A task begins by asking the leaders for its producer's last sequence. What is stored it reads back (`stored_rows`),
compares with its own rows, and skips. Rows differ if the query is not deterministic: from there on they are written
under another producer id (the next `level`). Then rows may be stored twice, but none is lost.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

EPOCHS = 30_000
"""Micro-batches per producer id; a producer epoch has 15 bits."""
_OWN_IDS = 1 << 62
"""Brokers allocate producer ids from 0 upwards: ours never collide with them."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What identifies the writer: the id of a query or batch job, and the micro-batch."""

    id: str
    batch: int = 0

    @property
    def epoch(self) -> int:
        return self.batch % EPOCHS

    def producer_id(self, task: int, level: int) -> int:
        name = f"{self.id}/{task}/{self.batch // EPOCHS}/{level}"
        return _OWN_IDS | (int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) & (_OWN_IDS - 1))
