"""Decoding in tests, with every result checked for being a valid Arrow array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from insync.formats.decoder import Decoder
from insync.formats.value_format import ValueFormat


def decode(value_format: ValueFormat, values: Sequence[bytes | None]) -> tuple[list[Any], list[str]]:
    """What the values contain, and for each why it could not be decoded, or an empty text."""
    decoded = Decoder(value_format).decode(pa.array(values, pa.binary()))
    decoded.column.validate(full=True)
    assert decoded.column.type == value_format.type
    assert len(decoded.column) == len(values)
    return decoded.column.to_pylist(), [decoded.reasons.get(status, "") for status in decoded.status.tolist()]
