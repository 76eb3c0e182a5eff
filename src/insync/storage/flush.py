"""Making a log durable in three steps: begin on the log's thread, run on any thread, finish on the log's thread.

`run` uses only descriptors that were taken by `begin_flush`, so the log may be appended to, truncated or deleted
meanwhile. If it was truncated, `finish_flush` does not raise the recovery point: offsets below `end_offset` may have
been rewritten since.
"""

from __future__ import annotations

from insync.storage.disk import SyncLater


class LogFlush:
    __slots__ = ("_syncs", "end_offset", "name_changes", "truncation_count")

    def __init__(self, end_offset: int, truncation_count: int, name_changes: int, syncs: list[SyncLater]) -> None:
        self.end_offset = end_offset
        self.truncation_count = truncation_count
        self.name_changes = name_changes
        self._syncs = syncs

    def run(self) -> None:
        for sync in self._syncs:
            sync()
