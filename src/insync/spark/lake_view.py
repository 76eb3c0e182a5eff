"""A topic as one history: what a lake has of it, and the rest from the log (option `lake`).

`LakeView` answers a driver's questions about offsets for both together: the earliest offset is the lake's if it reaches
further back, and times are looked up in the lake where the log no longer has the records. `plan_lake_tasks` then
divides the offsets of a query: the lake's part becomes tasks that read files, the rest stays for the log. Offsets that
are in neither are lost, and `failOnDataLoss` decides. Since each offset is read from exactly one of the two, there is
neither a gap nor an overlap, and a batch of a stream that is repeated has the same rows, even if more of it is in the
lake by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql.datasource import InputPartition

from insync.client.model import Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.client.sync_client import SyncClient
from insync.lake.coverage import Piece, find_offset_by_time, list_pieces, select_pieces
from insync.lake.directory import load_ledger
from insync.lake.ledger import Ledger
from insync.lake.location import Location
from insync.lake.reader import Unit
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, Expected, Loss, report_losses, truncated
from insync.spark.planning import OffsetRange, Offsets, split_ranges
from insync.spark.source_options import SourceOptions

TASK_BYTES = 64 << 20
"""Of files, that a task reads: smaller neighbours share a task."""


@dataclass
class LakeTask(InputPartition):
    """Pickled to an executor."""

    range: OffsetRange
    lake: Location
    topic_id: str
    units: tuple[Unit, ...]
    columns: tuple[str, ...]


def open_view(options: SourceOptions) -> ClusterView:
    return LakeView(options) if options.lake else ClusterView(options)


class LakeView(ClusterView):
    """As ClusterView, for the log and a lake together."""

    def __init__(self, options: SourceOptions, client: SyncClient | None = None) -> None:
        super().__init__(options, client)
        self._options = options

    @cached_property
    def ledger(self) -> Ledger:
        return load_ledger(self._options.lake)

    def list_offsets_and_epochs(
        self, times: Mapping[TopicPartition, int], described: Mapping[str, Topic] | None = None
    ) -> dict[TopicPartition, Offset]:
        """LATEST is the log's: a lake is never ahead of it, unless the log was truncated."""
        known = super().list_offsets_and_epochs(times, described)
        before = {key: time for key, time in times.items() if time != LATEST}
        if not before:
            return known
        pieces = self.list_pieces(before, described)
        log_starts = self.list_log_starts(key for key in before if pieces[key])
        for key, log_start in log_starts.items():
            older = select_pieces(pieces[key], 0, log_start)
            offset = -1
            if before[key] == EARLIEST and older:
                offset = older[0].start
            elif before[key] >= 0:
                offset = find_offset_by_time(self.ledger.lake, older, before[key])
            if offset >= 0:
                known[key] = replace(known[key], offset=offset)
        return known

    def list_log_starts(self, keys: Iterable[TopicPartition]) -> Offsets:
        starts = super().list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST))
        return {key: start.offset for key, start in starts.items()}

    def list_pieces(
        self, keys: Iterable[TopicPartition], described: Mapping[str, Topic] | None = None
    ) -> dict[TopicPartition, list[Piece]]:
        topics = described or self.describe_topics(must_exist=False)
        self.ledger.refresh()
        return {key: list_pieces(self.ledger, key, str(topics[key[0]].id)) if key[0] in topics else [] for key in keys}


def plan_lake_tasks(
    view: ClusterView, ranges: Sequence[OffsetRange], options: SourceOptions, columns: tuple[str, ...]
) -> tuple[list[InputPartition], list[OffsetRange]]:
    """Tasks for what the lake has, and the ranges to read from the log. Without a lake: none, and all."""
    if not isinstance(view, LakeView):
        return [], list(ranges)
    described = view.describe_topics(must_exist=False)
    pieces = view.list_pieces((offsets.key for offsets in ranges), described)
    lake_ends = {key: own[-1].end for key, own in pieces.items() if own}
    in_lake = [offsets for offsets in ranges if offsets.start < lake_ends.get(offsets.key, 0)]
    pieces = {offsets.key: pieces[offsets.key] for offsets in in_lake}
    losses = _clip_truncated(view, pieces, described)
    log_starts = view.list_log_starts(pieces)
    tasks: list[InputPartition] = []
    from_log = [offsets for offsets in ranges if offsets not in in_lake]
    for offsets in in_lake:
        archived = select_pieces(pieces[offsets.key], offsets.start, offsets.end)
        topic_id = str(described[offsets.topic].id)
        tasks += _make_tasks(view.ledger, offsets, archived, topic_id, options.max_records, columns)
        for rest in _find_rest(offsets, archived):
            log_start = log_starts[offsets.key]
            if rest.start < log_start:
                losses.append(_in_neither(rest, pieces[offsets.key], log_start))
            if rest.end > log_start:
                from_log.append(replace(rest, start=max(rest.start, log_start)))
    report_losses(tuple(losses), fail=options.fail_on_data_loss)
    return tasks, from_log


def _clip_truncated(
    view: LakeView, pieces: dict[TopicPartition, list[Piece]], described: Mapping[str, Topic]
) -> list[Loss]:
    """Forget what the lake has of a history that an unclean election has cut off since."""
    latest = super(LakeView, view).list_offsets_and_epochs(dict.fromkeys(pieces, LATEST), described)
    losses = []
    for key, end in latest.items():
        epoch, seen = view.ledger.last_seen(key)
        topic = described[key[0]]
        expected = Expected(seen if seen >= 0 else pieces[key][-1].end, end.offset, epoch, str(topic.id))
        if loss := truncated(view, key, expected, topic, None, end):
            losses.append(loss)
            pieces[key] = [piece.clip(0, loss.first) for piece in pieces[key] if piece.start < loss.first]
    return losses


def _make_tasks(
    ledger: Ledger,
    offsets: OffsetRange,
    pieces: Sequence[Piece],
    topic_id: str,
    max_records: int | None,
    columns: tuple[str, ...],
) -> Iterator[LakeTask]:
    """Neighbouring pieces share a task up to TASK_BYTES; with `max_records`, a task has at most so many offsets."""
    for own in _group_neighbours(pieces):
        whole = replace(offsets, start=own[0].start, end=own[-1].end)
        for part in split_ranges([whole], max_records=max_records):
            units = tuple(piece.to_unit() for piece in select_pieces(own, part.start, part.end))
            yield LakeTask(part, ledger.lake, topic_id, units, columns)


def _group_neighbours(pieces: Sequence[Piece]) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    for piece in pieces:
        last = groups[-1] if groups else []
        size = sum(own.archived.bytes for own in last) + piece.archived.bytes
        if last and last[-1].end == piece.start and size <= TASK_BYTES:
            last.append(piece)
        else:
            groups.append([piece])
    return groups


def _find_rest(offsets: OffsetRange, pieces: Sequence[Piece]) -> Iterator[OffsetRange]:
    """The parts of a range that no piece has."""
    position = offsets.start
    for piece in pieces:
        if position < piece.start:
            yield replace(offsets, start=position, end=piece.start)
        position = piece.end
    if position < offsets.end:
        yield replace(offsets, start=position)


def _in_neither(rest: OffsetRange, pieces: Sequence[Piece], log_start: int) -> Loss:
    end = min(rest.end, log_start)
    missing = next((piece.missing for piece in pieces if piece.missing and piece.start <= rest.start < piece.end), "")
    why = f"does not have them ({missing})" if missing else f"has offsets {pieces[0].start} to {pieces[-1].end - 1}"
    evidence = f"the lake {why}, and the log begins at offset {log_start}"
    return Loss(Cause.RETENTION, *rest.key, rest.start, end, end, evidence)
