"""`format("insync")` for streams.

Spark asks `initialOffset` when there is no checkpoint, `latestOffset` before each batch, and `partitions` for the tasks
of the batch; after a restart it asks `partitions` again for a batch that was planned and not finished. A batch is
settled by its two offsets (see `stream_offsets`), so what was decided here once, such as what "latest" was or where a
new partition begins, holds for every repetition. For its beginning to be written down, even a stream without new
records begins with a batch, an empty one: from then on "latest" is a fact of the checkpoint.

That Spark asks `latestOffset(start)` means that the batch which ends at `start` is done: that is when a group's offsets
are committed (`groupId`). `commit` comes at the same time, but not after the last batch of an AvailableNow run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from insync.client.errors import ClientError
from insync.spark import seen, tasks
from insync.spark.cluster_view import ClusterView
from insync.spark.options import EARLIEST, LATEST, Position, SourceOptions
from insync.spark.planning import OffsetRange, Offsets, backlog, limited, split
from insync.spark.seen import Seen
from insync.spark.stream_offsets import StreamOffset, plain

log = logging.getLogger("insync.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._view_: ClusterView | None = None
        self._initial: StreamOffset | None = None
        self._target: Seen | None = None
        """With AvailableNow: where all of it ends."""
        self._reported: Offsets = {}
        self._committed: Offsets = {}
        self._triggered: float | None = None

    # --- what Spark asks ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:
            self._initial = self._beginning()
        return self._initial.to_dict()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = seen.look(self._view, insist=False)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        return ReadAllAvailable() if options.min_offsets is None else ReadMinRows(options.min_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        done = StreamOffset.of(start)
        if not done.initial:
            self._commit_group(done.offsets)
        self._view.remember((done.id_of(topic), index, epoch) for (topic, index), epoch in done.epochs.items())
        now = self._target or seen.look(self._view, insist=False)
        self._reported = now.offsets
        begin = seen.beginning(self._view, done, now, fail=self._options.fail_on_data_loss)
        everything = isinstance(limit, ReadAllAvailable)
        if not everything and not done.initial and self._too_early(begin, now.offsets):
            return start
        most = self._options.max_offsets
        end = now.offsets if everything or most is None else limited(begin, now.offsets, most)
        end = {key: max(offset, begin[key]) for key, offset in end.items()}
        if not done.initial and end == begin and begin == done.offsets:
            return start
        self._triggered = time.monotonic()
        origin = begin if done.initial else {key: at for key, at in begin.items() if done.offsets.get(key) != at}
        return StreamOffset(end, now.epochs, now.ids, origin).to_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return plain(self._reported) or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after = StreamOffset.of(start), StreamOffset.of(end)
        begin = before.offsets | after.origin
        if unknown := [key for key in after.offsets if key not in begin]:  # planned by someone who does not say
            begin |= self._view.at_each(dict.fromkeys(unknown, EARLIEST))
        ranges = [OffsetRange(*key, begin[key], until) for key, until in after.offsets.items() if begin[key] < until]
        cut = split(ranges, min_partitions=self._options.min_partitions, max_records=self._options.max_records)
        return [
            tasks.Task(each, self._options, self._columns, after.id_of(each.topic), after.epochs.get(each.key, -1))
            for each in cut
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return tasks.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._commit_group(StreamOffset.of(end).offsets)

    def stop(self) -> None:
        if self._view_ is not None:
            self._view_.close()
            self._view_ = None

    # --- helpers -----------------------------------------------------------------------------------------------------

    @property
    def _view(self) -> ClusterView:
        """Made when it is needed: Spark copies readers to executors."""
        if self._view_ is None:
            self._view_ = ClusterView.of_source(self._options)
        return self._view_

    def _beginning(self) -> StreamOffset:
        options = self._options
        position = options.start or Position(LATEST)
        now = seen.look(self._view, insist=True)
        keys = sorted(now.offsets)
        offsets = self._view.resolve(position, keys, latest_without_match=options.latest_without_match)
        if self._target is not None:  # what came since it was prepared is after the end: the beginning is not later
            ends = self._target.offsets
            named = {key for key, offset in position.offsets.items() if offset >= 0}
            offsets = {key: at if key in named else min(at, ends.get(key, at)) for key, at in offsets.items()}
        return StreamOffset(offsets, now.epochs, now.ids, initial=True)

    def _too_early(self, begin: Offsets, latest: Offsets) -> bool:
        """Fewer records than the least that a batch is to have, and the delay is not over. With AvailableNow there is
        nothing to wait for."""
        least = self._options.min_offsets
        if least is None or self._target is not None or sum(backlog(begin, latest).values()) >= least:
            return False
        waited = None if self._triggered is None else (time.monotonic() - self._triggered) * 1_000
        return waited is not None and waited < self._options.max_delay_ms

    def _commit_group(self, done: Offsets) -> None:
        """For who watches lag. It must not stop the query: the checkpoint is what counts."""
        if not self._options.group or not done or done == self._committed:
            return
        try:
            self._view.commit(self._options.group, done)
        except ClientError as error:
            log.warning("the lag of group '%s' is not up to date: %s", self._options.group, error)
        else:
            self._committed = done


__all__ = ["StreamReader"]
