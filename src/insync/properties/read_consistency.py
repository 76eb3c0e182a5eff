"""S8: what a consumer has read stays true for other readers and in the log."""

from __future__ import annotations

from collections.abc import Container

from insync.properties.committed_log import CommittedLog
from insync.properties.history import Fingerprint, Read
from insync.properties.violation import Property

PROPERTY = Property(
    "S8",
    "Read Consistency",
    "A consumer reads committed records only, and a record read at an offset stays at that offset.",
)

NOTHING: frozenset[Fingerprint] = frozenset()


def check(read: Read, committed: CommittedLog, forgiven: Container[Fingerprint] = NOTHING) -> str | None:
    """`forgiven`: batches that a permitted unclean election removed; a consumer may have read them before."""
    for batch in read.batches:
        if batch.base_offset < committed.start or batch in forgiven:
            continue
        expected = committed.at(batch.base_offset)
        if expected is None:
            return f"{read.reader} read {batch}, which is not committed (committed is {committed.end})"
        if expected != batch:
            return f"{read.reader} read {batch}, committed there is {expected}"
    return None


def check_next(read: Read, expected: int) -> str | None:
    """A consumer that reads on misses nothing; `expected` is one past what it has read so far, 0 at first."""
    if read.offset <= expected:
        return None
    return f"{read.reader} got {read.offset} after {expected - 1}: it missed what is between"
