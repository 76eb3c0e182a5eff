"""Making a log durable, in three acts: begin on the log's thread, run anywhere, finish on the log's thread.

`run` touches only descriptors taken at `begin_flush`, so the log may be appended to, cut or deleted meanwhile. If the
log was cut in between, `finish_flush` takes no credit for it: offsets up to `upto` may since have been written anew.
"""

from __future__ import annotations

from insync.storage.disk import SyncLater


class LogFlush:
    __slots__ = ("_syncs", "cuts", "names", "upto")

    def __init__(self, upto: int, cuts: int, names: int, syncs: list[SyncLater]) -> None:
        self.upto = upto
        self.cuts = cuts
        self.names = names
        self._syncs = syncs

    def run(self) -> None:
        for sync in self._syncs:
            sync()
