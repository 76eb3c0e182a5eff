"""S13: an idempotent producer's batch is in the committed log once, however often it was sent.

Sequence numbers of one producer epoch only go up in a log, and start again at 0 after 2**31 - 1. A batch whose sequence
is not above the last one was there before.
"""

from __future__ import annotations

from typing import Protocol

from insync.properties.violation import Property

PROPERTY = Property(
    "S13", "Idempotence", "A batch of an idempotent producer occurs exactly once in the committed log of a partition."
)

HALF = 1 << 30
KEEP = 16_384
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

    __slots__ = ("_forgotten", "_last", "_log")

    def __init__(self) -> None:
        self._last: dict[Producer, int] = {}
        self._log: list[tuple[int, Producer, int]] = []
        self._forgotten: dict[Producer, int] = {}

    def committed(self, header: Sequenced) -> str | None:
        if header.producer_id == NO_PRODUCER or header.base_sequence < 0:
            return None
        producer = (header.producer_id, header.producer_epoch)
        last = self._last.get(producer, -1)
        self._last[producer] = header.base_sequence
        self._log.append((header.base_offset, producer, header.base_sequence))
        if len(self._log) > KEEP:
            self._forget(KEEP // 2)
        if header.base_sequence > last or last - header.base_sequence > HALF:
            return None
        return (
            f"sequence {header.base_sequence} of producer {producer[0]} epoch {producer[1]} is committed again "
            f"at {header.base_offset}, the last one was {last}"
        )

    def rewind(self, offset: int) -> None:
        """A permitted unclean election took back everything from `offset` on: it may be sent again."""
        self._log = [entry for entry in self._log if entry[0] < offset]
        self._last = dict(self._forgotten)
        self._last.update((producer, sequence) for _, producer, sequence in self._log)

    def _forget(self, count: int) -> None:
        self._forgotten.update((producer, sequence) for _, producer, sequence in self._log[:count])
        del self._log[:count]
