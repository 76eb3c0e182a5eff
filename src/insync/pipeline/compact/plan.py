"""Which ranges of a lake to merge, and which to remove because they are too old or too many. Arithmetic only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from insync.lake.ledger import Ledger, Range
from insync.pipeline.text import format_time

_LARGE_SHARE = 2
"""A range of at least the target size divided by this is not merged again."""


def plan_merges(
    ledger: Ledger, *, target_bytes: int, min_ranges: int, topics: Collection[str] = ()
) -> list[tuple[Range, ...]]:
    """Runs of neighbouring ranges, of about `target_bytes` each. The last ones of a partition, which will have more
    neighbours later, are merged once there are `min_ranges`."""
    merges = []
    for key in ledger.partitions():
        if topics and key[0] not in topics:
            continue
        for _, ranges in groupby(ledger.ranges(key), key=lambda archived: archived.generation):
            for run, complete in _find_runs(list(ranges), target_bytes):
                if len(run) >= (2 if complete else max(2, min_ranges)):
                    merges.append(tuple(run))
    return merges


def _find_runs(ranges: Sequence[Range], target_bytes: int) -> Iterator[tuple[list[Range], bool]]:
    """Neighbours that fit one file, and whether something after them ends the run."""
    run: list[Range] = []
    for archived in ranges:
        is_kept = archived.bytes >= target_bytes / _LARGE_SHARE or archived.lost or archived.expired
        if is_kept or sum(part.bytes for part in run) + archived.bytes > target_bytes:
            yield run, True
            run = []
        if not is_kept:
            run.append(archived)
    yield run, False


def merge_ranges(ranges: Sequence[Range]) -> Range:
    """One range with the offsets of all, and without files."""
    last_seen = next((archived for archived in reversed(ranges) if archived.epoch >= 0), ranges[-1])
    return replace(
        ranges[0], end=ranges[-1].end, epoch=last_seen.epoch, seen=last_seen.seen, rows=0, files=(), expired=""
    )


def plan_expiry(
    ledger: Ledger, *, older_than_ms: int | None, max_bytes: int | None, topics: Collection[str] = ()
) -> list[Range]:
    """What to remove, as ranges without files. In each partition that is a beginning: from the oldest generation on.

    By time: ranges whose newest record is older. By size: a topic's ranges with the oldest newest records first, until
    the topic has at most `max_bytes`.
    """
    names = dict.fromkeys(topic for topic, _ in ledger.partitions() if not topics or topic in topics)
    why = {
        (archived.key, archived.generation, archived.start): reason
        for topic in names
        for archived, reason in _find_expired(ledger, topic, older_than_ms, max_bytes)
    }
    expired = []
    for key in ledger.partitions():
        run: list[Range] = []
        for archived in ledger.ranges(key):
            reason = why.get((key, archived.generation, archived.start), archived.expired)
            if run and (not reason or archived.generation != run[0].generation):
                expired.append(run)
                run = []
            if reason:
                run.append(replace(archived, expired=reason))
        expired.append(run)
    changed = [run for run in expired if any(archived.files for archived in run)]
    return [replace(merge_ranges(run), expired=run[-1].expired) for run in changed]


def _find_expired(
    ledger: Ledger, topic: str, older_than_ms: int | None, max_bytes: int | None
) -> Iterator[tuple[Range, str]]:
    size = sum(archived.bytes for archived in ledger.ranges() if archived.topic == topic)
    for newest, archived in _oldest_first(ledger, topic):
        if older_than_ms is not None and newest < older_than_ms:
            why = f"its records are older than {format_time(older_than_ms)}"
        elif max_bytes is not None and size > max_bytes:
            why = f"the topic had more than {max_bytes} bytes"
        else:
            continue
        size -= archived.bytes
        yield archived, why


def _oldest_first(ledger: Ledger, topic: str) -> list[tuple[int, Range]]:
    """A topic's ranges with rows, by their newest record. A range counts as no older than those before it in its
    partition: only a beginning is ever removed."""
    ranges: list[tuple[int, Range]] = []
    for key in ledger.partitions():
        newest = -(1 << 62)
        for archived in ledger.ranges(key) if key[0] == topic else ():
            newest = max(newest, *(file.newest for file in archived.files)) if archived.files else newest
            if archived.files:
                ranges.append((newest, archived))
    return sorted(ranges, key=lambda pair: pair[0])
