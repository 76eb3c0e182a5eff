"""Record batches whose bytes a test has changed."""

from __future__ import annotations

from crc32c import crc32c

CRC_AT = 17
CRC_FROM = 21
"""The first byte that the CRC covers."""


def write_crc(batch: bytearray) -> bytearray:
    """Give a changed batch the CRC of its bytes, in place."""
    batch[CRC_AT:CRC_FROM] = crc32c(memoryview(batch)[CRC_FROM:]).to_bytes(4, "big")
    return batch
