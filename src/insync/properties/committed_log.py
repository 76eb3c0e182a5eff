"""What is committed in one partition, as an omniscient observer knows it: no node of the cluster stores this.

It grows when a leader's high watermark advances, by the batches that the leader then holds below it: from then on
clients may see them. Every replica's log is compared with it. `verified` returns how far a log agrees; the caller keeps
the result and asks only about the rest, so that a batch is compared once per replica.

From time to time the oldest half is dropped, so that a long run needs bounded memory; `keep` is the number of batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Protocol

from insync.properties.history import Fingerprint

KEEP_BATCHES = 16_384


class Header(Protocol):
    """What identifies a batch; `wire.batch.BatchHeader` has it."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def crc(self) -> int: ...


class LogView(Protocol):
    """One replica's log (`storage.log.Log`, or what a live checker fetched of it)."""

    @property
    def leo(self) -> int: ...
    @property
    def log_start(self) -> int: ...
    @property
    def truncation_count(self) -> int:
        """How often it was truncated since it was opened."""

    def iter_headers(self, from_offset: int, to_offset: int) -> Iterator[Header]: ...


fingerprint_of = attrgetter("base_offset", "last_offset", "leader_epoch", "crc")
_base_offset = attrgetter("base_offset")
_leader_epoch = attrgetter("leader_epoch")


class CommittedLog:
    """`start` is the oldest offset that is still known, `end` the true high watermark."""

    __slots__ = ("batches", "committed_in", "end", "keep", "start")

    def __init__(self, start: int = 0, *, keep: int = KEEP_BATCHES) -> None:
        self.keep = keep
        self.batches: list[Fingerprint] = []
        self.committed_in: list[int] = []
        self.start = start
        self.end = start

    def extend(self, batch: Fingerprint, epoch: int) -> None:
        """`batch` became committed under the leader of `epoch`."""
        if not self.batches:
            self.start = batch.base_offset
        self.batches.append(batch)
        self.committed_in.append(epoch)
        self.end = batch.last_offset + 1
        if len(self.batches) > self.keep:
            self._drop_oldest(self.keep // 2)

    def position(self, offset: int) -> int:
        """The index of the batch that holds `offset`; -1 below `start`."""
        return bisect_right(self.batches, offset, key=_base_offset) - 1

    def start_of(self, epoch: int) -> int:
        """Where the first batch written in `epoch` or later starts; the end if there is none."""
        position = bisect_left(self.batches, epoch, key=_leader_epoch)
        return self.batches[position].base_offset if position < len(self.batches) else self.end

    def at(self, offset: int) -> Fingerprint | None:
        position = self.position(offset)
        if position < 0 or self.batches[position].last_offset < offset:
            return None
        return self.batches[position]

    def epoch_of_commit(self, offset: int) -> int:
        """The leader epoch under which the record at `offset` became committed."""
        position = self.position(offset)
        return self.committed_in[position] if position >= 0 else -1

    def verified(self, log: LogView, known: int) -> int:
        """The offset below which `log` agrees; below `known` it is known to agree. Deleted records count as held."""
        offset = max(known, log.log_start, self.start)
        limit = min(log.leo, self.end)
        if offset >= limit:
            return min(offset, limit)
        position = self.position(offset)
        for header in log.iter_headers(offset, limit):
            if position < 0 or position >= len(self.batches) or fingerprint_of(header) != self.batches[position]:
                return offset
            position += 1
            offset = header.last_offset + 1
        return min(offset, limit)

    def rewind(self, offset: int) -> list[Fingerprint]:
        """Remove and return everything from `offset` on; only for a permitted unclean election."""
        position = self.position(offset - 1) + 1
        gone = self.batches[position:]
        del self.batches[position:], self.committed_in[position:]
        self.end = min(self.end, max(offset, self.start))
        return gone

    def restart(self, offset: int) -> None:
        """Start over at `offset`: the winner of an unclean election has no older records."""
        self.rewind(self.start)
        self.start = self.end = offset

    def _drop_oldest(self, count: int) -> None:
        del self.batches[:count], self.committed_in[:count]
        self.start = self.batches[0].base_offset


class RememberedLog:
    """The end of a log when its process ended: what of it is committed later, the replica had."""

    __slots__ = ("_tail", "leo", "log_start", "truncation_count")

    def __init__(self, log: LogView, from_offset: int) -> None:
        self.leo, self.log_start, self.truncation_count = log.leo, log.log_start, log.truncation_count
        self._tail = list(fingerprints(log.iter_headers(max(from_offset, log.log_start), log.leo)))

    def iter_headers(self, from_offset: int, to_offset: int) -> Iterator[Fingerprint]:
        return (batch for batch in self._tail if batch.last_offset >= from_offset and batch.base_offset < to_offset)


class Forgiven:
    """Batches that were committed, or claimed to be, and that a permitted unclean election removed."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[int, dict[Fingerprint, None]] = {}

    def add(self, batches: Iterable[Fingerprint]) -> None:
        for batch in batches:
            self._at.setdefault(batch.base_offset, {})[batch] = None

    def __contains__(self, batch: object) -> bool:
        return isinstance(batch, Fingerprint) and batch in self._at.get(batch.base_offset, ())

    def has(self, base_offset: int, crc: int) -> bool:
        """Whether the batch that was acknowledged at `base_offset` is among them; -1 stands for any CRC."""
        return any(crc < 0 or batch.crc == crc for batch in self._at.get(base_offset, ()))


def fingerprints(headers: Iterable[Header]) -> Iterator[Fingerprint]:
    for header in headers:
        yield Fingerprint(*fingerprint_of(header))
