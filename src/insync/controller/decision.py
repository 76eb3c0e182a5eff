"""What a handler of the controller returns: the records that make the change, and the answer once they are committed.

Decide, then replay: a handler changes nothing itself. The records are appended as one batch; replaying them on the
pending image is what makes the next decision see this one (Q3). The answer leaves when the last record is committed
(Q2); a decision without records read the pending image, so its answer waits for what was pending then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from insync.wire.metadata_records import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    records: tuple[MetadataRecord, ...] = ()
    response: Any = None
    """A kio response, or None when nobody asked (the controller's own doing)."""
