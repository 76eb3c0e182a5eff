"""The metadata log as it lies on disk: `__cluster_metadata-0` of a node of ours, or of Apache Kafka's KRaft.

Its segments hold batches of metadata records with the wall clock of the controller that wrote them. A batch is one
decision: its records are applied together. What was written before the first segment is known from a snapshot only, as
a state without a history. The high watermark of the metadata quorum is stored nowhere, so the last records of a node's
log may be some that the quorum never agreed on; the log of a controller that was the leader has the fewest of them.
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


class NoMetadataLog(Exception):  # noqa: N818  says what happened
    """There is nothing to read, or it cannot be read."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One batch."""

    offset: int
    time_ms: int
    epoch: int
    """Of the controller that wrote it."""
    records: tuple[MetadataRecord, ...] = ()
    leader: int = -1
    """Who became the active controller, if that is what the batch says."""
    unknown: int = 0
    """Records of types that say nothing about replication."""


@dataclass(frozen=True)
class MetadataLog:
    path: Path

    @cached_property
    def segments(self) -> list[Path]:
        return sorted(each for each in self.path.iterdir() if _SEGMENT.fullmatch(each.name))

    @cached_property
    def snapshots(self) -> list[Path]:
        return sorted(each for each in self.path.iterdir() if _SNAPSHOT.fullmatch(each.name))

    @cached_property
    def size(self) -> int:
        return sum(each.stat().st_size for each in (*self.segments, *self.snapshots))

    @property
    def start(self) -> int:
        return int(self.segments[0].stem) if self.segments else -1

    def base(self) -> Decision | None:
        """The state that the history starts from: none if the log starts at 0, else the oldest snapshot in it."""
        if self.start == 0:
            return None
        for file in self.snapshots:
            made = snapshot_store.parse_name(file.name)
            if made.offset >= self.start:
                return _snapshot(file, made.offset, made.epoch)
        if self.start > 0:
            raise NoMetadataLog(f"{self.path} starts at offset {self.start}, and no snapshot says what was before")
        return None

    def decisions(self, from_offset: int = 0) -> Iterator[Decision]:
        """Up to the end, or to the first batch that is damaged or torn: nothing after it can be trusted."""
        for file, following in zip(self.segments, [*self.segments[1:], None], strict=True):
            if following is not None and int(following.stem) <= from_offset:
                continue
            data = file.read_bytes()
            for position, header in batch.iter_headers(data):
                if not batch.crc_ok(data, position, header):
                    return
                if header.last_offset >= from_offset:
                    yield _decision(data, position, header)


def find(paths: Sequence[str | Path]) -> MetadataLog:
    """In `paths`, each a metadata log, or the directory of a node or of a whole cluster: the log that goes furthest."""
    found: list[MetadataLog] = []
    for each in map(Path, paths):
        if not each.is_dir():
            raise NoMetadataLog(f"{each} is not a directory")
        below = [path for pattern in _BELOW for path in sorted(each.glob(pattern)) if path.is_dir()]
        logs = map(MetadataLog, [each, *below])
        found += [log for log in logs if log.snapshots or (log.segments and log.path.name == DIRECTORY)]
    if not found:
        raise NoMetadataLog(f"no {DIRECTORY} with segments or snapshots in {', '.join(map(str, paths))}")
    return max(found, key=lambda log: (log.segments[-1].name if log.segments else "", log.size))


# --- helpers ---------------------------------------------------------------------------------------------------------


def _snapshot(file: Path, offset: int, epoch: int) -> Decision:
    data = file.read_bytes()
    payloads = snapshot_store.decode(data)
    if payloads is None:
        raise NoMetadataLog(f"the snapshot {file} is not whole")
    known, unknown = _decoded(payloads)
    return Decision(offset, batch.read_header(data).max_timestamp, epoch, known, unknown=unknown)


def _decision(data: bytes, position: int, header: batch.BatchHeader) -> Decision:
    found = list(batch.records(data, position))
    where = (header.base_offset, header.max_timestamp, header.leader_epoch)
    if header.is_control:
        return Decision(*where, leader=_leader(found))
    known, unknown = _decoded([record.value or b"" for record in found])
    return Decision(*where, known, unknown=unknown)


def _decoded(payloads: Sequence[bytes]) -> tuple[tuple[MetadataRecord, ...], int]:
    known = []
    for payload in payloads:
        try:
            known.append(metadata_records.decode(payload))
        except (UnknownApiError, MalformedFrameError):
            continue
    return tuple(known), len(payloads) - len(known)


def _leader(found: Sequence[batch.Record]) -> int:
    try:
        message = control.control_message(found[0]) if found else None
    except MalformedBatchError:
        return -1
    return int(getattr(message, "leader_id", -1))
