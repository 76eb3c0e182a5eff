"""S13: an idempotent producer's batch is in the committed log once, however often it was sent.

Sequence numbers of a producer epoch only go up in a log, and wrap to 0 after 2**31 - 1. A batch whose sequence is not
above the last one is a duplicate.
"""

from __future__ import annotations

from typing import Protocol

from insync.properties.violation import Property

PROPERTY = Property(
    "S13", "Idempotence", "A batch of an idempotent producer occurs exactly once in the committed log of a partition."
)

HALF_SEQUENCE_RANGE = 1 << 30
MAX_KEPT = 16_384
NO_PRODUCER = -1

Producer = tuple[int, int]
"""(producer id, producer epoch)"""


class Sequenced(Protocol):
    @property
    def base_offset(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...


class Sequences:
    """The last committed sequence of every producer of one partition."""

    __slots__ = ("_dropped", "_last", "_log")

    def __init__(self) -> None:
        self._last: dict[Producer, int] = {}
        self._log: list[tuple[int, Producer, int]] = []
        self._dropped: dict[Producer, int] = {}

    def committed(self, header: Sequenced) -> str | None:
        if header.producer_id == NO_PRODUCER or header.base_sequence < 0:
            return None
        producer = (header.producer_id, header.producer_epoch)
        last = self._last.get(producer, -1)
        self._last[producer] = header.base_sequence
        self._log.append((header.base_offset, producer, header.base_sequence))
        if len(self._log) > MAX_KEPT:
            self._drop_oldest(MAX_KEPT // 2)
        if header.base_sequence > last or last - header.base_sequence > HALF_SEQUENCE_RANGE:
            return None
        return (
            f"sequence {header.base_sequence} of producer {producer[0]} epoch {producer[1]} is committed again "
            f"at {header.base_offset}, the last one was {last}"
        )

    def rewind(self, offset: int) -> None:
        """A permitted unclean election removed everything from `offset` on: it may be sent again."""
        self._log = [entry for entry in self._log if entry[0] < offset]
        self._last = dict(self._dropped)
        self._last.update((producer, sequence) for _, producer, sequence in self._log)

    def _drop_oldest(self, count: int) -> None:
        self._dropped.update((producer, sequence) for _, producer, sequence in self._log[:count])
        del self._log[:count]
