"""S7: all nodes apply the same metadata, in the same order."""

from __future__ import annotations

from insync.properties.committed_log import CommittedLog
from insync.properties.history import Fingerprint
from insync.properties.violation import Property

PROPERTY = Property(
    "S7",
    "Metadata Log Matching",
    "What one node considers committed in the metadata log, every other node has at the same offset, or lacks so far.",
)


def check(node: int, batch: Fingerprint, committed: CommittedLog) -> str | None:
    """`node` considers `batch` committed; it has to be what was committed at its offset."""
    if batch.base_offset < committed.start or batch.base_offset >= committed.end:
        return None
    expected = committed.at(batch.base_offset)
    if expected == batch:
        return None
    return f"node {node} considers {batch} committed, the cluster committed {expected}"


def check_truncation(node: int, leo: int, committed_before: int) -> str | None:
    """A running node never truncates what it considered committed."""
    if leo >= committed_before:
        return None
    return f"node {node} truncated its metadata log to {leo}, although {committed_before} was committed"


def check_leader(node: int, epoch: int, leo: int, committed: CommittedLog) -> str | None:
    """A quorum leader of the newest epoch has every committed entry."""
    if leo >= committed.end or (committed.batches and epoch < committed.batches[-1].leader_epoch):
        return None
    return f"quorum leader {node} of epoch {epoch} ends at {leo}, committed is {committed.end}"
