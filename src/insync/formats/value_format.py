"""How keys or values are encoded, and the type of the column that they become."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from insync.formats.registry import RegistrySettings

STRING, JSON, AVRO, PROTOBUF = "string", "json", "avro", "protobuf"


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """Pickled to executors."""

    format: str
    type: pa.DataType
    """Of the column: the reader's schema, or the part of it that a query needs."""
    is_confluent: bool = False
    schema: str = ""
    """The reader's: Avro's JSON, or a Protobuf descriptor set in base64. Empty for the other formats."""
    references: tuple[tuple[str, str], ...] = ()
    """Avro schemas that the reader's refers to, by name."""
    writer_schema: str = ""
    """Avro without Confluent's wire format: what the values were written with, if not the reader's schema."""
    message: str = ""
    """The Protobuf message's name."""
    registry: RegistrySettings | None = None
