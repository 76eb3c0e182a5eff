"""The options and columns of the sink: those of Spark's Kafka connector, refused by name.

Two more: `fenceId` (who writes, instead of the query's id; a batch job that is started again under the same one does
not write its rows again) and `includeTimestamp` (records get the time in column `timestamp`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.spark import client_options
from insync.spark.client_options import CLIENT, OptionError, shown, unknown
from insync.wire import compression

_NAMES = ("topic", "fenceId", "includeTimestamp", "includeHeaders", "checkpointLocation", "queryName", "path")
_KNOWN = {name.lower(): name for name in _NAMES}
_DECIDED = (
    *("kafka.key.serializer", "kafka.value.serializer", "kafka.interceptor.classes", "kafka.transactional.id"),
    "kafka.partitioner.class",
)
_USED = ("acks", "enable.idempotence", "compression.type", "batch.size", "buffer.memory", "delivery.timeout.ms")
_HEADER = [("key", StringType()), ("value", BinaryType())]
BATCH_BYTES, MOST_BATCH_BYTES = 512 << 10, 64 << 20
MEMORY = 32 << 20


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap: str
    client: ClientSettings = field(default=DEFAULT_SETTINGS, kw_only=True)
    topic: str | None = None
    """Where everything goes, whatever the rows say."""
    fence_id: str = ""
    timestamps: bool = False
    codec: int = compression.NONE
    batch_bytes: int = BATCH_BYTES
    memory: int = MEMORY
    request_s: float = 30.0
    delivery_s: float = 120.0


def read_sink(options: Mapping[str, str]) -> SinkOptions:
    values = {name.lower(): value for name, value in options.items()}
    for name, value in values.items():
        if name in _DECIDED:
            raise OptionError(
                f"option '{name}' cannot be set (it was {shown(name, value)}): the sink decides that itself"
            )
        if name not in _KNOWN and not name.startswith(CLIENT):
            raise unknown(name, shown(name, value), _NAMES, "kafka.*")
    _insist(values, "kafka.acks", ("all", "-1"))
    _insist(values, "kafka.enable.idempotence", ("true",))
    return SinkOptions(
        bootstrap=client_options.bootstrap(values),
        client=client_options.read_client(values, used=_USED),
        topic=values.get("topic"),
        fence_id=values.get("fenceid", ""),
        timestamps=_flag(values, "includetimestamp"),
        codec=_codec(values),
        batch_bytes=min(_count(values, "kafka.batch.size", BATCH_BYTES), MOST_BATCH_BYTES),
        memory=_count(values, "kafka.buffer.memory", MEMORY),
        request_s=_count(values, "kafka.request.timeout.ms", 30_000) / 1_000,
        delivery_s=_count(values, "kafka.delivery.timeout.ms", 120_000) / 1_000,
    )


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Columns of other names are ignored, as the connector does."""
    found = {field.name: field.dataType for field in schema.fields}
    if "value" not in found:
        raise OptionError(f"there is no column 'value' to write, only {', '.join(found) or 'nothing'}")
    if options.topic is None and "topic" not in found:
        raise OptionError("there is neither an option 'topic' nor a column 'topic'")
    for name in ("value", "key"):
        _typed(found, name, (StringType(), BinaryType()), "string or binary")
    _typed(found, "topic", (StringType(),), "string")
    _typed(found, "partition", (IntegerType(),), "int")
    if options.timestamps:
        if "timestamp" not in found:
            raise OptionError("option 'includeTimestamp' is true, and there is no column 'timestamp'")
        _typed(found, "timestamp", (TimestampType(),), "timestamp")
    if "headers" in found and not _are_headers(found["headers"]):
        kind = found["headers"].simpleString()
        raise OptionError(f"column 'headers' is of type {kind}: it must be array<struct<key:string,value:binary>>")


def _typed(found: Mapping[str, DataType], name: str, allowed: tuple[DataType, ...], text: str) -> None:
    kind = found.get(name)
    if kind is not None and not any(type(kind) is type(each) for each in allowed):
        raise OptionError(f"column '{name}' is of type {kind.simpleString()}: it must be {text}")


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    return [(field.name, field.dataType) for field in kind.elementType.fields] == _HEADER  # Arrow goes by position


def _insist(values: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> None:
    if values.get(name, allowed[0]).strip().lower() not in allowed:
        raise OptionError(f"option '{name}' is {values[name]!r}: the sink writes with {allowed[0]} only")


def _codec(values: Mapping[str, str]) -> int:
    text = values.get("kafka.compression.type", "none").strip().lower()
    if text not in compression.NAMES:
        raise OptionError(f"option 'kafka.compression.type' is {text!r}: one of {', '.join(compression.NAMES)}")
    return compression.NAMES.index(text)


def _flag(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"option '{_KNOWN[name]}' is {text!r}: true or false")
    return text == "true"


def _count(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, str(default))
    if not re.fullmatch(r"\s*\d{1,12}\s*", text) or int(text) < 1:
        raise OptionError(f"option '{name}' is {text!r}: a whole number, at least 1")
    return int(text)
