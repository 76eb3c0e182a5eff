"""The sink's options and columns: those of Spark's Kafka connector.

Two options are additional: `fenceId` identifies a batch job, so that a job which is started again under the same id
does not store its rows twice; with `includeTimestamp`, records get the time in column `timestamp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.spark.option_values import OptionError, OptionValues, log
from insync.wire import compression

_NAMES = ("topic", "fenceId", "includeTimestamp", "includeHeaders", "checkpointLocation", "queryName", "path")
_FIXED = (
    *("kafka.key.serializer", "kafka.value.serializer", "kafka.interceptor.classes", "kafka.transactional.id"),
    "kafka.partitioner.class",
)
_USED = (
    *("acks", "enable.idempotence", "compression.type", "batch.size", "buffer.memory", "delivery.timeout.ms"),
    "max.request.size",
)
_HEADER = [("key", StringType()), ("value", BinaryType())]
BATCH_BYTES, MAX_BATCH_BYTES = 512 << 10, 64 << 20
BUFFER_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap: str
    client: ClientSettings = field(default=DEFAULT_SETTINGS, kw_only=True)
    topic: str | None = None
    """Where all rows go; overrides column `topic`."""
    fence_id: str = ""
    timestamps: bool = False
    """Records get the time in column `timestamp`."""
    codec: int = compression.NONE
    batch_bytes: int = BATCH_BYTES
    buffer_bytes: int = BUFFER_BYTES
    """Of batches in flight; more have to wait."""
    max_record_bytes: int | None = None
    """Larger records are an error of the task (`max.request.size`); otherwise only the topic's limit applies."""
    request_s: float = 30.0
    delivery_s: float = 120.0


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    values = OptionValues(options, _NAMES)
    values.reject_fixed(_FIXED, "sink")
    values.warn_unknown()
    _accept_weaker(values, "kafka.acks", ("all", "-1"), weaker=("0", "1"))
    _accept_weaker(values, "kafka.enable.idempotence", ("true",), weaker=("false",))
    codec = values.choice("kafka.compression.type", compression.NAMES, default="none")
    return SinkOptions(
        bootstrap=values.bootstrap(),
        client=values.client_settings(used=_USED),
        topic=values.get("topic").strip() if "topic" in values else None,
        fence_id=values.get("fenceId"),
        timestamps=values.flag("includeTimestamp"),
        codec=compression.NAMES.index(codec),
        batch_bytes=min(values.number("kafka.batch.size") or BATCH_BYTES, MAX_BATCH_BYTES),
        buffer_bytes=values.number("kafka.buffer.memory") or BUFFER_BYTES,
        max_record_bytes=values.number("kafka.max.request.size"),
        request_s=(values.number("kafka.request.timeout.ms") or 30_000) / 1_000,
        delivery_s=(values.number("kafka.delivery.timeout.ms") or 120_000) / 1_000,
    )


def _accept_weaker(values: OptionValues, name: str, own: tuple[str, ...], *, weaker: tuple[str, ...]) -> None:
    """A job may ask for less than the sink does anyway."""
    value = values.get(name, own[0]).strip().lower()
    if value in weaker:
        log.warning("Option %s: the sink writes with %s nevertheless.", values.describe(name), own[0])
    elif value not in own:
        raise values.error(name, f"one of {', '.join((*own, *weaker))}")


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Columns of other names are ignored, as the connector does."""
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise OptionError(f"there is no column 'value' to write, only {', '.join(columns) or 'nothing'}")
    if options.topic is None and "topic" not in columns:
        raise OptionError("there is neither an option 'topic' nor a column 'topic'")
    for name in ("value", "key"):
        _check_type(columns, name, (StringType(), BinaryType()), "string or binary")
    _check_type(columns, "topic", (StringType(),), "string")
    _check_type(columns, "partition", (IntegerType(),), "int")
    if options.timestamps:
        if "timestamp" not in columns:
            raise OptionError("option 'includeTimestamp' is true, but there is no column 'timestamp'")
        _check_type(columns, "timestamp", (TimestampType(),), "timestamp")
    if "headers" in columns and not _is_headers(columns["headers"]):
        kind = columns["headers"].simpleString()
        raise OptionError(f"column 'headers' is of type {kind}: it must be array<struct<key:string,value:binary>>")


def _check_type(columns: Mapping[str, DataType], name: str, allowed: tuple[DataType, ...], expected: str) -> None:
    kind = columns.get(name)
    if kind is not None and not any(type(kind) is type(candidate) for candidate in allowed):
        raise OptionError(f"column '{name}' is of type {kind.simpleString()}: it must be {expected}")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    return [(field.name, field.dataType) for field in kind.elementType.fields] == _HEADER  # Arrow goes by position
