"""What a handler of the controller returns: the records that make the change, and the response once they are committed.

Decide, then replay: a handler changes nothing itself. The records are appended as one batch; replaying them on the
pending image lets the next decision see this one (Q3). The response is sent when the last record is committed (Q2); a
decision without records read the pending image, so its response waits for what was pending then.

A change of thousands of partitions would keep the controller from heartbeats and from the quorum. It is decided in
slices (ADR 21): an iterator of decisions, one per step, each made on the pending image of its own step. Other decisions
come in between, and the controller may be deposed after any slice. So every slice leaves a valid state, and the
remaining work follows from the image and the next request, never from the slices themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from insync.sansio import Message
from insync.wire.metadata_records import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    records: tuple[MetadataRecord, ...] = ()
    response: Message | None = None
    """None if no request asked for the change."""
    rest: Slices | None = None
    """What follows in later steps. The response does not wait for it."""


Charge = Callable[[int], bool]
"""Counts partitions that a client creates or deletes; False if its quota does not allow them now."""


def charge_nothing(partitions: int) -> bool:
    """For clients without a quota."""
    return True


Slices = Iterator[Decision]
"""The response is that of the last decision."""
