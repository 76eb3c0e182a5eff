"""Small logs and histories for audits, for tests to damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from struct import pack

from insync.history.history_file import Event
from insync.storage import checkpoints
from insync.wire import batch
from insync.wire.batch import NewRecord

NOW = 1_700_000_000_000


def records(first: int, count: int, word: str = "value") -> list[NewRecord]:
    return [NewRecord(b"k%d" % i, f"{word} {i}".encode()) for i in range(first, first + count)]


def make_batch(first: int, count: int = 3, *, epoch: int = 0, word: str = "value", control: bool = False) -> bytearray:
    chosen = [NewRecord(pack(">hh", 0, 1), b"\0" * 6)] if control else records(first, count, word)
    return batch.build(
        chosen, base_offset=first, leader_epoch=epoch, timestamp_ms=NOW + first, control=control, transactional=control
    )


def ten_batches() -> list[bytearray]:
    """Offsets 0 to 29, in epochs 0 and 1."""
    return [make_batch(first, epoch=int(first >= 15)) for first in range(0, 30, 3)]


def write_replica(
    root: Path,
    broker: int,
    segments: Sequence[Sequence[bytes | bytearray]],
    *,
    hwm: int = 30,
    topic: str = "orders",
    epochs: Sequence[tuple[int, int]] = ((0, 0), (1, 15)),
) -> Path:
    """Write a broker's log directory with one partition; returns the partition's directory."""
    home = root / f"broker-{broker}"
    directory = home / f"{topic}-0"
    directory.mkdir(parents=True)
    (home / "meta.properties").write_text(f"node.id={broker}\nversion=1\ncluster.id=x\n")
    hwms = checkpoints.encode_offsets({(topic, 0): hwm})
    (home / checkpoints.HIGH_WATERMARKS).write_bytes(hwms)
    (directory / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.encode_epochs(epochs))
    for batches in segments:
        write_segment(directory, batches)
    return directory


def write_segment(directory: Path, batches: Sequence[bytes | bytearray]) -> None:
    """Write a segment with index entries for all batches but the first."""
    base = batch.read_header(batches[0]).base_offset
    stem = directory / f"{base:020d}"
    offsets, times, position = b"", b"", 0
    for data in batches:
        header = batch.read_header(data)
        if position:
            offsets += pack(">ii", header.last_offset - base, position)
            times += pack(">qi", header.max_timestamp, header.last_offset - base)
        position += len(data)
    stem.with_suffix(".log").write_bytes(b"".join(batches))
    stem.with_suffix(".index").write_bytes(offsets)
    stem.with_suffix(".timeindex").write_bytes(times)


def make_history(count: int, topic: str = "orders", partition: int = 0) -> list[Event]:
    """Two producers take turns: each record is sent, acknowledged and read; some requests list the end offset."""
    events: list[Event] = []
    log: list[Event] = []
    for offset in range(count):
        producer, sequence, time = offset % 2, offset // 2, offset * 100
        crc = offset * 2_654_435_761 % 2**32
        sent = Event("send", time, f"p{producer}", topic, partition, producer=producer, sequence=sequence, crc=crc)
        stored = replace(sent, offset=offset, epoch=3)
        events += [
            sent,
            replace(sent, kind="ack", time=time + 10, offset=offset, crc=-1),
            replace(stored, kind="read", time=time + 20, client="c"),
        ]
        if offset % 10 == 0:
            listing = Event("list", time + 30, "w", topic, partition, offset=offset + 1, epoch=3, started=time + 25)
            events.append(listing)
        log.append(replace(stored, kind="log", time=count * 100 + offset, client="l"))
    return [*events, *log, Event("end", count * 102, "l", topic, partition, offset=count, epoch=3)]
