"""Reads the metadata log from disk: `__cluster_metadata-0` of an insync node, or of Apache Kafka in KRaft mode.

Its segments hold batches of metadata records with the wall clock time of the controller that wrote them. A batch is one
decision: its records are applied together. What came before the first segment is known from a snapshot only, as a state
without a history. The quorum's high watermark is not stored, so the last records of a node's log may never have been
committed; the log of the last leader has the fewest of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from insync.quorum import snapshot_store
from insync.wire import batch, control, metadata_records
from insync.wire.errors import MalformedBatchError, MalformedFrameError, UnknownApiError
from insync.wire.metadata_records import MetadataRecord

DIRECTORY = "__cluster_metadata-0"
_SEGMENT = re.compile(r"\d{20}\.log")
_BELOW = tuple("*/" * depth + DIRECTORY for depth in range(4))
_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")


class MetadataLogError(Exception):
    """There is no metadata log, or it cannot be read."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One batch."""

    offset: int
    time_ms: int
    epoch: int
    """Of the controller that wrote it."""
    records: tuple[MetadataRecord, ...] = ()
    leader: int = -1
    """The new active controller, if the batch is about that; otherwise -1."""
    unknown: int = 0
    """Number of records that say nothing about replication."""


@dataclass(frozen=True)
class MetadataLog:
    path: Path

    @cached_property
    def segments(self) -> list[Path]:
        return sorted(file for file in self.path.iterdir() if _SEGMENT.fullmatch(file.name))

    @cached_property
    def snapshots(self) -> list[Path]:
        return sorted(file for file in self.path.iterdir() if _SNAPSHOT.fullmatch(file.name))

    @cached_property
    def size(self) -> int:
        return sum(file.stat().st_size for file in (*self.segments, *self.snapshots))

    @property
    def start(self) -> int:
        return int(self.segments[0].stem) if self.segments else -1

    def read_base(self) -> Decision | None:
        """The state that the history starts from: the oldest snapshot, or None if the log starts at 0."""
        if self.start == 0:
            return None
        for file in self.snapshots:
            snapshot = snapshot_store.parse_name(file.name)
            if snapshot.offset >= self.start:
                return _read_snapshot(file, snapshot.offset, snapshot.epoch)
        if self.start > 0:
            raise MetadataLogError(f"{self.path} starts at offset {self.start}, and there is no snapshot before it")
        return None

    def read_latest_snapshot(self) -> Decision | None:
        """The newest snapshot that is sound, None if there is none."""
        for file in reversed(self.snapshots):
            snapshot = snapshot_store.parse_name(file.name)
            try:
                return _read_snapshot(file, snapshot.offset, snapshot.epoch)
            except MetadataLogError:
                continue
        return None

    def is_intact(self) -> bool:
        """Whether every byte belongs to a batch with the right checksum."""
        for file in self.segments:
            data, end = file.read_bytes(), 0
            for position, header in batch.iter_headers(data):
                if not batch.crc_ok(data, position, header):
                    return False
                end = position + header.length
            if end < len(data):
                return False
        return True

    def decisions(self, from_offset: int = 0) -> Iterator[Decision]:
        """Up to the end, or up to the first damaged or torn batch: nothing after it can be trusted."""
        for file, following in zip(self.segments, [*self.segments[1:], None], strict=True):
            if following is not None and int(following.stem) <= from_offset:
                continue
            data = file.read_bytes()
            for position, header in batch.iter_headers(data):
                if not batch.crc_ok(data, position, header):
                    return
                if header.last_offset >= from_offset:
                    yield _to_decision(data, position, header)


def find_metadata_log(paths: Sequence[str | Path]) -> MetadataLog:
    """The log that reaches furthest in `paths`: metadata logs, or directories of nodes or clusters."""
    return max(find_metadata_logs(paths), key=lambda log: (log.segments[-1].name if log.segments else "", log.size))


def find_metadata_logs(paths: Sequence[str | Path]) -> list[MetadataLog]:
    logs: list[MetadataLog] = []
    for directory in map(Path, paths):
        if not directory.is_dir():
            raise MetadataLogError(f"{directory} is not a directory")
        below = [path for pattern in _BELOW for path in sorted(directory.glob(pattern)) if path.is_dir()]
        candidates = map(MetadataLog, [directory, *below])
        logs += [log for log in candidates if log.snapshots or (log.segments and log.path.name == DIRECTORY)]
    if not logs:
        raise MetadataLogError(f"there is no {DIRECTORY} with segments or snapshots in {', '.join(map(str, paths))}")
    return logs


# --- helpers ---------------------------------------------------------------------------------------------------------


def _read_snapshot(file: Path, offset: int, epoch: int) -> Decision:
    data = file.read_bytes()
    payloads = snapshot_store.decode(data)
    if payloads is None:
        raise MetadataLogError(f"snapshot {file} is incomplete")
    known, unknown = _decode(payloads)
    return Decision(offset, batch.read_header(data).max_timestamp, epoch, known, unknown=unknown)


def _to_decision(data: bytes, position: int, header: batch.BatchHeader) -> Decision:
    in_batch = list(batch.records(data, position))
    where = (header.base_offset, header.max_timestamp, header.leader_epoch)
    if header.is_control:
        return Decision(*where, leader=_read_leader(in_batch))
    known, unknown = _decode([record.value or b"" for record in in_batch])
    return Decision(*where, known, unknown=unknown)


def _decode(payloads: Sequence[bytes]) -> tuple[tuple[MetadataRecord, ...], int]:
    known = []
    for payload in payloads:
        try:
            known.append(metadata_records.decode(payload))
        except (UnknownApiError, MalformedFrameError):
            continue
    return tuple(known), len(payloads) - len(known)


def _read_leader(in_batch: Sequence[batch.Record]) -> int:
    try:
        message = control.control_message(in_batch[0]) if in_batch else None
    except MalformedBatchError:
        return -1
    return int(getattr(message, "leader_id", -1))
