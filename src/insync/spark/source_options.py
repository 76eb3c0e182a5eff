"""The options of `format("insync")` for reading: those of Spark's Kafka connector."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from insync.client.model import TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.client.setting_names import READING
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.lake.directory import load_ledger
from insync.lake.journal import JournalError
from insync.lake.location import SETTINGS, Location, open_store
from insync.lake.store import LakeError
from insync.spark.java_pattern import JavaPatternError, compile_java_pattern
from insync.spark.option_values import OptionError, OptionValues, log
from insync.spark.pyspark_versions import HAS_ADMISSION_CONTROL, VERSION
from insync.spark.typed_options import TYPED_NAMES

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
CLIENT_ID = "insync-spark"

SUBSCRIPTIONS = ("assign", "subscribe", "subscribePattern")
_FIXED = (
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)
_NAMES = (
    *("assign", "subscribe", "subscribePattern", "topic", "includeHeaders", "failOnDataLoss", "pushFilters"),
    *("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition"),
    *("groupIdPrefix", "groupId", "checkpointLocation"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *("partition.metadata.cache.ttl.ms", "lake", *(f"lake.{name}" for name in SETTINGS)),
    *TYPED_NAMES,
)
_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_DELAY_MS = 15 * 60_000


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading starts or ends: by offset or by time, for all partitions or for each. Only one of the four is set;
    `offset` is the default."""

    offset: int
    """For all partitions: EARLIEST or LATEST."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """By partition; may be EARLIEST or LATEST."""
    timestamp: int | None = None
    """For all partitions, in ms."""
    timestamps: Mapping[TopicPartition, int] = field(default_factory=dict)
    """By partition, in ms."""
    option: str = field(default="", compare=False)
    """The option's name and value, for messages."""

    @property
    def is_time(self) -> bool:
        return self.timestamp is not None or bool(self.timestamps)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap: str
    client: ClientSettings = DEFAULT_SETTINGS
    isolation: str = READ_UNCOMMITTED
    topics: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression of Python for the names of topics."""
    subscribed_pattern: str = ""
    """The pattern as it was given."""
    whole_name: bool = False
    """The pattern has to match the whole name; otherwise any part of it."""
    assigned: tuple[TopicPartition, ...] = ()
    start: Position | None = None
    """None: the default of the kind of query."""
    end: Position | None = None
    latest_without_match: bool = False
    """A timestamp after the last record means the log's end; otherwise it is an error."""
    fail_on_data_loss: bool = True
    include_headers: bool = False
    push_filters: bool = False
    """Conditions of a batch query limit what is read; see `conditions`."""
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = _MAX_DELAY_MS
    min_partitions: int | None = None
    max_records: int | None = None
    group: str = ""
    """The consumer group whose committed offsets follow the query's progress."""
    timeout_s: float = 120.0
    subscription: str = ""
    """Name and value of the option that selects the topics, for messages."""
    lake: Location = ""
    """A lake that has what the log no longer has."""


def read_source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    values = OptionValues(options, _NAMES, ignored=("path",))
    values.reject_fixed(_FIXED, "source")
    values.warn_unknown()
    if sum(name in values for name in SUBSCRIPTIONS) != 1:
        raise OptionError("give exactly one of the options 'subscribe', 'subscribePattern' and 'assign'")
    end = _ending_position(values, streaming=streaming)
    start = _position(values, "starting", LATEST if streaming else EARLIEST)
    _reject_empty_query(start, end, streaming=streaming)
    _check_batch_limits(values, streaming=streaming)
    return SourceOptions(
        bootstrap=values.bootstrap(),
        client=values.client_settings(used=(*READING, "isolation.level")),
        isolation=_isolation(values),
        topics=_topics(values),
        pattern=_pattern(values),
        subscribed_pattern=values.get("subscribePattern").strip(),
        assigned=_assigned(values),
        start=start,
        end=end,
        latest_without_match=values.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), default="error")
        == "latest",
        fail_on_data_loss=values.flag("failOnDataLoss", default=True),
        include_headers=values.flag("includeHeaders"),
        push_filters=values.flag("pushFilters"),
        max_offsets=values.number("maxOffsetsPerTrigger"),
        min_offsets=values.number("minOffsetsPerTrigger"),
        max_delay_ms=_duration_ms(values, "maxTriggerDelay", _MAX_DELAY_MS),
        min_partitions=values.number("minPartitions"),
        max_records=values.number("maxRecordsPerPartition"),
        group=values.get("groupId"),
        timeout_s=(values.number("kafkaConsumer.pollTimeoutMs") or 120_000) / 1_000,
        subscription=values.describe(next(name for name in SUBSCRIPTIONS if name in values)),
        lake=_lake(values),
    )


def read_topics(options: Mapping[str, str]) -> tuple[str, ...]:
    """The topics that the options name; none with a pattern."""
    values = OptionValues(options, _NAMES)
    return _topics(values) or tuple(dict.fromkeys(topic for topic, _ in _assigned(values)))


def _isolation(values: OptionValues) -> str:
    """With a lake, its own: otherwise the lake and the log would have different rows."""
    name, levels = "kafka.isolation.level", (READ_COMMITTED, READ_UNCOMMITTED)
    if "lake" not in values:
        return values.choice(name, levels, default=READ_UNCOMMITTED)
    try:
        own = load_ledger(_lake(values)).settings.get("isolation", READ_COMMITTED)
    except (LakeError, JournalError) as error:
        raise OptionError(f"option {values.describe('lake')}: {error}") from None
    if values.choice(name, levels, default=own) != own:
        raise values.error(name, f"the lake was archived with {own}: leave the option out, or set it to the same")
    return own


def _lake(values: OptionValues) -> Location:
    """With its settings, `lake.endpoint` and so on: planners and executors may not have the environment's."""
    settings = {name: values.get(f"lake.{name}") for name in SETTINGS if f"lake.{name}" in values}
    if "lake" not in values:
        if settings:
            raise OptionError(f"the option 'lake.{next(iter(settings))}' needs the option 'lake'")
        return ""
    try:
        return open_store(values.get("lake"), settings)
    except LakeError as error:
        raise OptionError(f"option {values.describe('lake')}: {error}") from None


# --- topics and partitions -------------------------------------------------------------------------------------------


def _topics(values: OptionValues) -> tuple[str, ...]:
    topics = values.names("subscribe")
    if "subscribe" in values and not topics:
        raise values.error("subscribe", "topic names with commas between them")
    return topics


def _pattern(values: OptionValues) -> str:
    pattern = values.get("subscribePattern").strip()
    if "subscribePattern" in values and not pattern:
        raise OptionError("option 'subscribePattern' is empty: give a regular expression for topic names")
    try:
        return compile_java_pattern(pattern).pattern
    except JavaPatternError as error:
        raise values.error("subscribePattern", str(error)) from None


def _assigned(values: OptionValues) -> tuple[TopicPartition, ...]:
    if "assign" not in values:
        return ()

    def parse(given: Any) -> tuple[TopicPartition, ...]:
        return tuple((str(topic), _integer(index)) for topic, partitions in given.items() for index in partitions)

    keys = values.json("assign", parse, '{"topic": [0, 1]}')
    if not keys:
        raise OptionError("option 'assign' names no partition: write {\"topic\": [0, 1]}")
    return keys


# --- positions -------------------------------------------------------------------------------------------------------


def _position(values: OptionValues, prefix: str, default: int) -> Position | None:
    """In the connector's order of precedence."""
    if (name := f"{prefix}Timestamp") in values:
        return Position(default, timestamp=values.number(name, minimum=0), option=values.describe(name))
    if (name := f"{prefix}OffsetsByTimestamp") in values:
        times = values.json(name, _by_partition, '{"topic": {"0": 1700000000000}}')
        return Position(default, timestamps=times, option=values.describe(name))
    name = f"{prefix}Offsets"
    text = values.get(name).strip()
    if not text:
        return None
    if text.lower() in ("earliest", "latest"):
        return Position(EARLIEST if text.lower() == "earliest" else LATEST, option=values.describe(name))
    offsets = values.json(name, _by_partition, 'earliest, latest or {"topic": {"0": 23}}')
    return Position(default, offsets=offsets, option=values.describe(name))


def _ending_position(values: OptionValues, *, streaming: bool) -> Position | None:
    """As in the connector, a stream rejects the other two options for an end, and ignores `endingTimestamp`."""
    if streaming and "endingTimestamp" in values:
        log.warning("Option 'endingTimestamp' ignored: a stream has no end.")
    for name in ("endingOffsets", "endingOffsetsByTimestamp"):
        if streaming and name in values:
            raise values.error(name, "a stream has no end; only batch queries take this option")
    return None if streaming else _position(values, "ending", LATEST)


def _by_partition(given: Any) -> dict[TopicPartition, int]:
    positions = {
        (str(topic), int(index)): _integer(position)
        for topic, partitions in given.items()
        for index, position in partitions.items()
    }
    if any(position < EARLIEST for position in positions.values()):
        raise ValueError("an offset below -2")
    return positions


def _integer(given: Any) -> int:
    if type(given) is not int:
        raise ValueError(f"{json.dumps(given)} is not a whole number")
    return given


def _reject_empty_query(start: Position | None, end: Position | None, *, streaming: bool) -> None:
    if end is not None and (end.offset == EARLIEST or EARLIEST in end.offsets.values()):
        raise OptionError("option 'endingOffsets' cannot be earliest (-2): nothing would be read")
    if streaming or start is None:
        return
    if LATEST in start.offsets.values() or (start.offset == LATEST and not start.offsets and not start.is_time):
        raise OptionError("option 'startingOffsets' cannot be latest (-1) for a batch query: nothing would be read")


# --- limits ----------------------------------------------------------------------------------------------------------


def _check_batch_limits(values: OptionValues, *, streaming: bool) -> None:
    for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger"):
        if streaming and name in values and not HAS_ADMISSION_CONTROL:
            raise values.error(name, f"Spark limits streams of Python sources since version 4.2; this is {VERSION}")
    low, high = values.number("minOffsetsPerTrigger"), values.number("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        options = " and ".join(values.describe(name) for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger"))
        raise OptionError(f"options {options}: the minimum cannot be above the maximum")


def _duration_ms(values: OptionValues, name: str, default: int) -> int:
    if name not in values:
        return default
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", values.get(name).lower())
    if not match or (match[2] and match[2] not in _UNITS_MS):
        raise values.error(name, "a number with a unit, such as 30s or 15m")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])
