"""The newest offset of each key in a stretch of a log: what compaction goes by. Bounded, whatever the keys are.

Long keys are kept as 16-byte digests, short ones as themselves; a key of 16 bytes or more never equals a short one.
"""

from __future__ import annotations

from hashlib import blake2b

_DIGEST = 16


class KeyOffsets:
    """`end`: the offset up to which every record has been taken in."""

    __slots__ = ("_offsets", "end", "limit")

    def __init__(self, start: int, limit: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self.end = start
        self.limit = limit

    def __len__(self) -> int:
        return len(self._offsets)

    def fits(self, count: int) -> bool:
        """Is there room for `count` more keys? The first ones always have."""
        return not self._offsets or len(self._offsets) + count <= self.limit

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_short(key)] = offset

    def newest(self, key: bytes) -> int:
        """-1 if the key does not occur."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST else blake2b(key, digest_size=_DIGEST).digest()
