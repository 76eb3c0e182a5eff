"""Which part of the files on disk is the log, after a clean stop and after an unclean one.

After a clean stop everything was flushed and the recovery point is the end of the log: no batch is read. After an
unclean stop it is only certain that the bytes below the recovery point were synced:

1. Of segments wholly below the recovery point only the last batch header is read. A segment that does not end where the
   next one starts was damaged after it was synced, and is checked like those above the recovery point.
2. In the segment that holds the recovery point, headers are read up to it, to index them, and from there on every batch
   is read and checked. The log is truncated before the first bytes that are not a sound next batch: torn, corrupt, at a
   lower offset, or of an older leader epoch, such as bytes that came back after a truncation. Compaction leaves gaps
   between batches, but never at the end of a segment.
3. Later segments are checked in full. A segment that does not start where the previous one ends is dropped, and so is
   everything after it.
4. Epochs and producers are adjusted to the log. If a file that they come from is missing or contradicts the log, they
   are derived again from the headers of the whole log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from insync.storage import disk as disks
from insync.storage import producer_state, scan
from insync.storage.disk import Disk
from insync.storage.epoch_cache import EpochCache, read_checkpoint
from insync.storage.file_names import INDEX, LOG, SNAPSHOT, TIME_INDEX, file_name, parse_file_name
from insync.storage.producer_state import ProducerStates
from insync.storage.segment import MAX_RELATIVE_OFFSET, Segment
from insync.wire import batch as batches
from insync.wire.batch import BatchHeader


@dataclass(slots=True, kw_only=True)
class RecoveryReport:
    """What this replica lost by an unclean stop."""

    recovery_point: int
    end_offset: int = 0
    truncated_bytes: int = 0
    dropped_segments: int = 0
    below_recovery_point: bool = False
    """The log ends before the recovery point: synced data is missing."""
    damaged_segment: int | None = None
    """The base offset of a segment below the recovery point that does not end where the next one starts."""
    epochs_rebuilt: bool = False
    checked_bytes: int = 0

    @property
    def is_truncated(self) -> bool:
        return bool(self.truncated_bytes or self.dropped_segments or self.below_recovery_point)


@dataclass(slots=True, kw_only=True)
class OpenedLog:
    segments: list[Segment]
    leo: int
    epochs: EpochCache
    producers: ProducerStates
    snapshots: list[int]
    report: RecoveryReport | None


@dataclass(slots=True)
class _Files:
    disk: Disk
    directory: str
    interval: int
    segments: list[Segment] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)


def open_clean(disk: Disk, directory: str, interval: int, end_offset: int) -> OpenedLog | None:
    """The log as a clean stop left it, ending at `end_offset`; None if the files cannot be that log."""
    files = _list_files(disk, directory, interval)
    entries = read_checkpoint(disk, directory)
    if entries is None and end_offset == 0:
        entries = []  # nothing was ever written
    if not files.segments or entries is None or end_offset < files.segments[-1].base:
        return None
    if (end_offset > files.segments[-1].base) != (files.segments[-1].size > 0):
        return None
    producers = _read_snapshot(files, end_offset) if end_offset in files.snapshots else ProducerStates()
    if producers is None:
        return None
    epochs = EpochCache(disk, directory, _ending_at(entries, end_offset))
    correct_checkpoint(epochs, entries)
    return OpenedLog(
        segments=files.segments,
        leo=end_offset,
        epochs=epochs,
        producers=producers,
        snapshots=files.snapshots,
        report=None,
    )


def recover(disk: Disk, directory: str, interval: int, recovery_point: int) -> OpenedLog | None:
    """The log as an unclean stop left it; None if there is no segment at all."""
    files = _list_files(disk, directory, interval)
    _remove_orphans(files)
    if not files.segments:
        return None
    report = RecoveryReport(recovery_point=recovery_point)
    first = max(0, bisect_right([segment.base for segment in files.segments], recovery_point) - 1)
    ends = [last_header(segment) for segment in files.segments[:first]]
    for number, end in enumerate(ends):
        if end is None or end.next_offset != files.segments[number + 1].base:
            report.damaged_segment, first = files.segments[number].base, number
            break
    epochs = _check_segments(files, first, report)
    leo = report.end_offset
    report.below_recovery_point = leo < recovery_point
    _drop_snapshots_above(files, leo)
    return OpenedLog(
        segments=files.segments,
        leo=leo,
        epochs=_recover_epochs(files, first, epochs, ends[:first], report),
        producers=load_producers(files.disk, directory, files.segments, files.snapshots, leo),
        snapshots=files.snapshots,
        report=report,
    )


def segment_sizes(disk: Disk, directory: str) -> dict[int, int]:
    """The sizes of the segment files in a directory, by base offset, in order."""
    return {segment.base: segment.size for segment in _list_files(disk, directory, 0).segments}


def find_other_end(disk: Disk, directory: str, end_offset: int) -> str | None:
    """Why a log does not end at `end_offset`; None if it does."""
    segments = _list_files(disk, directory, 0).segments
    filled = [segment for segment in segments if segment.size > 0]
    header = last_header(filled[-1]) if filled else None
    if filled and header is None:
        return f"{file_name(filled[-1].base, LOG)} does not end with a whole batch"
    end = max(header.next_offset if header is not None else 0, segments[-1].base if segments else 0)
    return None if end == end_offset else f"its segments end at offset {end}"


def last_header(segment: Segment) -> BatchHeader | None:
    """The header of the last batch; None if the file does not end with a whole batch."""
    was_open = segment.is_open
    try:
        end, last = 0, None
        for position, header in scan.headers(segment.file, segment.last_indexed, segment.size):
            end, last = position + header.length, header
        return last if end == segment.size and last is not None and last.magic == batches.MAGIC else None
    finally:
        if not was_open:
            segment.close()


# --- checking the batches ---------------------------------------------------------------------------------------------


def is_next_batch(header: BatchHeader, expected: int, epoch: int, base: int) -> bool:
    """Safeguard: only a batch that continues the log is part of it; anything else came back after a truncation."""
    return (
        header.magic == batches.MAGIC
        and header.base_offset >= expected  # above it, if compaction left a gap
        and header.leader_epoch >= epoch
        and header.last_offset_delta >= 0
        and header.last_offset - base <= MAX_RELATIVE_OFFSET
    )


def _check_segments(files: _Files, first: int, report: RecoveryReport) -> list[tuple[int, int]]:
    """Check the segments from `first` on, truncate the log, and return the (epoch, start) pairs of its batches."""
    expected, epoch = files.segments[first].base, -1
    epochs: list[tuple[int, int]] = []
    for number in range(first, len(files.segments)):
        segment = files.segments[number]
        if segment.base != expected:
            _drop_segments(files, number, report)
            break
        size = segment.size
        expected, epoch = _check_segment(segment, expected, epoch, epochs, report)
        if segment.size < size:
            report.truncated_bytes += size - segment.size
            _drop_segments(files, number + 1, report)
            break
    report.end_offset = expected
    for segment in files.segments[first:-1]:
        segment.save_indexes()
        segment.close()
    return epochs


def _check_segment(
    segment: Segment, expected: int, epoch: int, epochs: list[tuple[int, int]], report: RecoveryReport
) -> tuple[int, int]:
    """Index the sound batches and truncate the rest; returns the offset and the epoch at which the segment ends."""
    segment.open_unindexed()
    segment.reset_index()
    end = 0
    for position, header in _sound_batches(segment, report):
        if not is_next_batch(header, expected, epoch, segment.base):
            break
        if header.leader_epoch > epoch:
            epoch = header.leader_epoch
            epochs.append((epoch, expected))
        segment.note(position, header.length, header.last_offset, header.max_timestamp)
        expected = header.next_offset
        end = position + header.length
    if end < segment.size:
        if expected < report.recovery_point:
            segment.keep_copy()
        segment.truncate(end, expected)
        segment.file.sync()
    return expected, epoch


def _sound_batches(segment: Segment, report: RecoveryReport) -> Iterator[tuple[int, BatchHeader]]:
    """Below the recovery point only headers are read; from there on, whole batches with a right CRC."""
    start = 0
    for position, header in scan.headers(segment.file, 0, segment.size):
        start = position
        if header.next_offset > report.recovery_point:
            break
        yield position, header
        start = position + header.length
    for position, header, buffer, at in scan.batches(segment.file, start, segment.size):
        if not batches.crc_ok(buffer, at, header):
            return
        report.checked_bytes += header.length
        yield position, header


def _drop_segments(files: _Files, start: int, report: RecoveryReport) -> None:
    dropped = files.segments[start:]
    for segment in reversed(dropped):
        report.truncated_bytes += segment.size
        if segment.base < report.recovery_point and segment.size:
            segment.set_aside()
        else:
            segment.remove()
    report.dropped_segments += len(dropped)
    del files.segments[start:]
    files.disk.sync_dir(files.directory)


# --- epochs and producers ---------------------------------------------------------------------------------------------


def _recover_epochs(
    files: _Files,
    first: int,
    checked: list[tuple[int, int]],
    ends: list[BatchHeader | None],
    report: RecoveryReport,
) -> EpochCache:
    """Before the checked segments the checkpoint counts, from there on their batches (`checked`). The checkpoint is an
    old copy, or damaged, if it has another epoch for the last batch of one of the unchecked segments (`ends`)."""
    entries = read_checkpoint(files.disk, files.directory)
    base = files.segments[first].base if first < len(files.segments) else report.end_offset
    older = _ending_at(entries or [], base) if first > 0 or not checked else []
    known = EpochCache(files.disk, files.directory, older)
    stale = any(
        known.first_start <= end.base_offset and known.epoch_at(end.base_offset) != end.leader_epoch
        for end in ends
        if end
    )
    if first > 0 and (not older or stale or (checked and checked[0][0] < older[-1][0])):
        report.epochs_rebuilt = True
        older = _read_epochs(files.segments[:first])
    joined = [*older, *(entry for entry in checked if not older or entry[0] > older[-1][0])]
    cache = EpochCache(files.disk, files.directory, joined)
    correct_checkpoint(cache, entries)
    return cache


def correct_checkpoint(cache: EpochCache, entries: list[tuple[int, int]] | None) -> None:
    """Safeguard, D1: an epoch that is dropped on opening is removed from the disk, too.

    Otherwise the next opening would use it again, and by then there may be records of another epoch at these offsets,
    since this replica led in that epoch and wrote nothing. Epochs that the file lacks can wait for the next flush.
    """
    known = cache.entries
    cache.dirty = entries != known
    cache.stale = any(entry not in known for entry in entries or ())


def _ending_at(entries: list[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
    """The epochs that started before `offset`; if none did, the one at it: then all records were deleted."""
    return [entry for entry in entries if entry[1] < offset] or [entry for entry in entries if entry[1] == offset]


def _read_epochs(segments: list[Segment]) -> list[tuple[int, int]]:
    """For an epoch whose first records were compacted away, the earliest possible start: then a follower truncates too
    much rather than too little (D2)."""
    entries: list[tuple[int, int]] = []
    end = segments[0].base if segments else 0
    for header in iter_headers(segments, 0):
        if not entries or header.leader_epoch > entries[-1][0]:
            entries.append((header.leader_epoch, end))
        end = header.next_offset
    return entries


def load_producers(
    disk: Disk, directory: str, segments: list[Segment], snapshots: list[int], end_offset: int
) -> ProducerStates:
    """The newest sound snapshot not above `end_offset`, and the batches after it."""
    files = _Files(disk, directory, 0, segments, snapshots)
    for offset in reversed([offset for offset in snapshots if offset <= end_offset]):
        states = _read_snapshot(files, offset)
        if states is not None:
            states.rebuild(iter_headers(segments, offset))
            return states
        _remove_snapshot(files, offset)
    states = ProducerStates()
    states.rebuild(iter_headers(segments, 0))
    return states


def iter_headers(segments: list[Segment], from_offset: int) -> Iterator[BatchHeader]:
    """The headers of all batches that end at or after `from_offset`. Files that were closed are closed again."""
    bases = [segment.base for segment in segments]
    for segment in segments[max(0, bisect_right(bases, from_offset) - 1) :]:
        was_open = segment.is_open
        try:
            for _, header in scan.headers(segment.file, segment.position_before(from_offset), segment.size):
                if header.last_offset >= from_offset:
                    yield header
        finally:
            if not was_open:
                segment.close()


def _read_snapshot(files: _Files, offset: int) -> ProducerStates | None:
    data = disks.read_if_exists(files.disk, disks.join(files.directory, file_name(offset, SNAPSHOT)))
    return None if data is None else producer_state.decode_snapshot(data)


def _drop_snapshots_above(files: _Files, offset: int) -> None:
    for snapshot in [snapshot for snapshot in files.snapshots if snapshot > offset]:
        _remove_snapshot(files, snapshot)


def _remove_snapshot(files: _Files, offset: int) -> None:
    disks.remove_if_exists(files.disk, disks.join(files.directory, file_name(offset, SNAPSHOT)))
    files.snapshots.remove(offset)


# --- listing ----------------------------------------------------------------------------------------------------------


def _list_files(disk: Disk, directory: str, interval: int) -> _Files:
    files = _Files(disk, directory, interval)
    for name in disk.listdir(directory):
        if (offset := parse_file_name(name, LOG)) is not None:
            size = disk.size(disks.join(directory, name))
            files.segments.append(Segment(disk, directory, offset, size, interval))
        elif (offset := parse_file_name(name, SNAPSHOT)) is not None:
            files.snapshots.append(offset)
    return files


def _remove_orphans(files: _Files) -> None:
    """Remove indexes without a segment, and temporary files of writes that a crash interrupted."""
    bases = {segment.base: True for segment in files.segments}
    for name in files.disk.listdir(files.directory):
        orphan = any(name.endswith(kind) and parse_file_name(name, kind) not in bases for kind in (INDEX, TIME_INDEX))
        if orphan or name.endswith(disks.TEMPORARY):
            files.disk.remove(disks.join(files.directory, name))
