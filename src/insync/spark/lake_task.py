"""Reads the lake's part of a query, on an executor: the rows of a range of offsets, with the source's columns.

Also what was planned for the log and is gone when it is to be read: it may have been archived in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from insync.columnar.buffers import TYPES, rows_without_columns
from insync.lake.coverage import list_pieces, select_pieces
from insync.lake.directory import load_ledger
from insync.lake.location import open_store
from insync.lake.reader import Selection, Unit, read_rows
from insync.lake.store import LakeError
from insync.spark.data_loss import DataLossError
from insync.spark.lake_view import LakeTask
from insync.spark.read_task import ReadTask
from insync.spark.task_reader import TaskReader, client_for, read_task

BATCH_ROWS = 40_000
"""Suits Spark best."""


def read_lake(task: LakeTask) -> Iterator[pa.RecordBatch]:
    """If a compaction deletes files while they are read, the rest comes from the files that took their place."""
    position, units, entries = task.range.start, task.units, -1
    columns = ["offset", "timestamp", *(name for name in task.columns if name in TYPES)]
    while position < task.range.end:
        selection = Selection(from_offset=position, to_offset=task.range.end)
        try:
            for table in read_rows(open_store(task.lake), units, selection, position, list(dict.fromkeys(columns))):
                for batch in table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
                    position = batch.column("offset")[-1].as_py() + 1
                    yield _to_rows(batch, task)
            return
        except FileNotFoundError as error:
            ledger = load_ledger(task.lake)
            if ledger.entries == entries:  # it is missing indeed
                raise LakeError(
                    f"{error.filename or error} is missing: run `archive --verify` on {task.lake}"
                ) from None
            entries = ledger.entries
            units = _find_units(task, position)


def read_log_or_lake(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """A task of a query with a lake that reads the log. What the log has lost since the query was planned comes from
    the lake if it has it by now; the rest is a loss."""
    strict = replace(task.options, fail_on_data_loss=True)
    position = task.range.start
    while position < task.range.end:
        reader = TaskReader(_continue_at(replace(task, options=strict), position), client_for(task.options))
        try:
            yield from reader.batches()
            return
        except DataLossError:
            archived = _find_archived(task, reader.position)
            if archived is None:
                yield from read_task(_continue_at(task, reader.position))
                return
        yield from read_lake(archived)
        position = archived.range.end


def _continue_at(task: ReadTask, position: int) -> ReadTask:
    return replace(task, range=replace(task.range, start=position))


def _find_archived(task: ReadTask, position: int) -> LakeTask | None:
    """What the lake has from `position` on without a gap; None if it does not have the next offset."""
    pieces = list_pieces(load_ledger(task.options.lake), task.range.key, task.topic_id)
    units, end = [], position
    for piece in select_pieces(pieces, position, task.range.end):
        if piece.start > end:
            break
        units.append(piece.to_unit())
        end = piece.end
    if not units:
        return None
    offsets = replace(task.range, start=position, end=end)
    return LakeTask(offsets, task.options.lake, task.topic_id, tuple(units), task.columns)


def _find_units(task: LakeTask, position: int) -> tuple[Unit, ...]:
    pieces = list_pieces(load_ledger(task.lake), task.range.key, task.topic_id)
    needed = select_pieces(pieces, position, task.range.end)
    covered = sum(piece.end - piece.start for piece in needed)
    if covered < task.range.end - position:
        where = f"{task.range.topic}-{task.range.partition} offsets {position} to {task.range.end - 1}"
        raise LakeError(f"{where}: rows were removed from {task.lake} while they were read")
    return tuple(piece.to_unit() for piece in needed)


def _to_rows(batch: pa.RecordBatch, task: LakeTask) -> pa.RecordBatch:
    rows = batch.num_rows
    constants = {
        "topic": lambda: pa.repeat(task.range.topic, rows),
        "partition": lambda: pa.repeat(pa.scalar(task.range.partition, pa.int32()), rows),
    }
    arrays = [constants[name]() if name in constants else batch.column(name).cast(TYPES[name]) for name in task.columns]
    return pa.RecordBatch.from_arrays(arrays, list(task.columns)) if arrays else rows_without_columns(rows)
