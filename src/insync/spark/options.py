"""The options of `format("insync")`: those of Spark's Kafka connector, read once, refused by name.

Every mistake is an `OptionError` that names the option, its value, and what would be right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from insync.client.setting_names import READING
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.spark import client_options
from insync.spark.client_options import CLIENT, OptionError, shown, unknown

T = TypeVar("T")

Key = tuple[str, int]
EARLIEST, LATEST = -2, -1
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
CLIENT_ID = "insync-spark"

SUBSCRIPTIONS = ("assign", "subscribe", "subscribepattern")
_FORBIDDEN = (
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.key.serializer",
    "kafka.value.serializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)
_KNOWN = {
    name.lower(): name
    for name in (
        *("assign", "subscribe", "subscribePattern", "topic", "includeHeaders", "failOnDataLoss"),
        *("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
        *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
        *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition"),
        *("groupIdPrefix", "groupId", "checkpointLocation"),
        *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
        "partition.metadata.cache.ttl.ms",
    )
}
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading starts or ends. At most one of the four ways is used; `offset` for all partitions if none is."""

    offset: int
    offsets: Mapping[Key, int] = field(default_factory=dict)
    """Of each partition; -2 earliest, -1 latest."""
    timestamp: int | None = None
    timestamps: Mapping[Key, int] = field(default_factory=dict)
    option: str = field(default="", compare=False)
    """Its name and value as they were given, for messages."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap: str
    client: ClientSettings = DEFAULT_SETTINGS
    isolation: str = READ_UNCOMMITTED
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[Key, ...] = ()
    start: Position | None = None
    """None: as the kind of query has it by default."""
    end: Position | None = None
    latest_without_match: bool = False
    """What a timestamp after the last record means: the end, rather than an error."""
    fail_on_data_loss: bool = True
    include_headers: bool = False
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records: int | None = None
    group: str = ""
    """Whose committed offsets follow the query's progress."""
    timeout_s: float = 120.0
    subscription: str = ""
    """The option that names what is read, with its value, for messages."""


def read_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    values = {name.lower(): value for name, value in options.items()}
    _known_only(values)
    if sum(name in values for name in SUBSCRIPTIONS) != 1:
        raise OptionError("give exactly one of the options 'subscribe', 'subscribePattern' and 'assign'")
    end = _position(values, "ending", LATEST)
    if streaming and end is not None:
        raise OptionError(f"option {end.option}: a stream has no end, that is for batch queries")
    start = _position(values, "starting", LATEST if streaming else EARLIEST)
    _possible(start, end, streaming=streaming)
    _limits(values)
    return SourceOptions(
        bootstrap=client_options.bootstrap(values),
        client=client_options.read_client(values, used=(*READING, "isolation.level")),
        isolation=_isolation(values),
        topics=_topics(values),
        pattern=_pattern(values),
        assigned=_assigned(values),
        start=start,
        end=end,
        latest_without_match=_strategy(values),
        fail_on_data_loss=_flag(values, "failondataloss", default=True),
        include_headers=_flag(values, "includeheaders", default=False),
        max_offsets=_count(values, "maxoffsetspertrigger"),
        min_offsets=_count(values, "minoffsetspertrigger"),
        max_delay_ms=_duration(values, "maxtriggerdelay", 15 * 60_000),
        min_partitions=_count(values, "minpartitions"),
        max_records=_count(values, "maxrecordsperpartition"),
        group=values.get("groupid", ""),
        timeout_s=(_count(values, "kafkaconsumer.polltimeoutms") or 120_000) / 1_000,
        subscription=_named(values, next(name for name in SUBSCRIPTIONS if name in values)),
    )


# --- one option ------------------------------------------------------------------------------------------------------


def _known_only(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if name in _FORBIDDEN:
            raise OptionError(
                f"option '{name}' cannot be set (it was {shown(name, value)}): the source decides that itself"
            )
        if name not in _KNOWN and not name.startswith(CLIENT) and name != "path":
            raise unknown(name, shown(name, value), _KNOWN.values(), "kafka.*")


def _isolation(values: Mapping[str, str]) -> str:
    level = values.get("kafka.isolation.level", READ_UNCOMMITTED)
    if level not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise OptionError(f"option 'kafka.isolation.level' is {level!r}: read_committed or read_uncommitted")
    return level


def _topics(values: Mapping[str, str]) -> tuple[str, ...]:
    if "subscribe" not in values:
        return ()
    found = tuple(dict.fromkeys(name.strip() for name in values["subscribe"].split(",") if name.strip()))
    if not found:
        raise OptionError(f"option 'subscribe' is {values['subscribe']!r}: topic names with commas between them")
    return found


def _pattern(values: Mapping[str, str]) -> str:
    pattern = values.get("subscribepattern", "")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"option 'subscribePattern' is {pattern!r}, not a regular expression: {error}") from None
    if "subscribepattern" in values and not pattern:
        raise OptionError("option 'subscribePattern' is empty: a regular expression for topic names")
    return pattern


def _assigned(values: Mapping[str, str]) -> tuple[Key, ...]:
    if "assign" not in values:
        return ()

    def parse(found: Any) -> tuple[Key, ...]:
        return tuple((str(topic), _whole(index)) for topic, partitions in found.items() for index in partitions)

    keys = _json(values, "assign", parse, '{"topic": [0, 1]}')
    if not keys:
        raise OptionError("option 'assign' names no partition")
    return keys


def _position(values: Mapping[str, str], which: str, default: int) -> Position | None:
    """In the connector's order of precedence."""
    if (name := f"{which}timestamp") in values:
        return Position(default, timestamp=_count(values, name, least=0), option=_named(values, name))
    if (name := f"{which}offsetsbytimestamp") in values:
        times = _json(values, name, _by_partition, '{"topic": {"0": 1700000000000}}')
        return Position(default, timestamps=times, option=_named(values, name))
    name = f"{which}offsets"
    text = values.get(name, "").strip()
    if not text:
        return None
    if text.lower() in ("earliest", "latest"):
        return Position(EARLIEST if text.lower() == "earliest" else LATEST, option=_named(values, name))
    offsets = _json(values, name, _by_partition, 'earliest, latest or {"topic": {"0": 23}}')
    return Position(default, offsets=offsets, option=_named(values, name))


def _named(values: Mapping[str, str], name: str) -> str:
    return f"'{_KNOWN[name]}' is {values[name]!r}"


def _possible(start: Position | None, end: Position | None, *, streaming: bool) -> None:
    if end is not None and (end.offset == EARLIEST or EARLIEST in end.offsets.values()):
        raise OptionError("option 'endingOffsets' cannot be earliest (-2): nothing would be read")
    if streaming or start is None:
        return
    by_time = start.timestamp is not None or start.timestamps
    if LATEST in start.offsets.values() or (start.offset == LATEST and not start.offsets and not by_time):
        raise OptionError("option 'startingOffsets' cannot be latest (-1) for a batch query: nothing would be read")


def _by_partition(found: Any) -> dict[Key, int]:
    result = {(str(topic), int(index)): _whole(each) for topic, rest in found.items() for index, each in rest.items()}
    if any(each < EARLIEST for each in result.values()):
        raise ValueError("an offset below -2")
    return result


def _whole(found: Any) -> int:
    if type(found) is not int:
        raise ValueError(f"{json.dumps(found)} is no whole number")
    return found


def _limits(values: Mapping[str, str]) -> None:
    least, most = _count(values, "minoffsetspertrigger"), _count(values, "maxoffsetspertrigger")
    if least is not None and most is not None and least > most:
        told = " and ".join(_named(values, name) for name in ("minoffsetspertrigger", "maxoffsetspertrigger"))
        raise OptionError(f"options {told}: the least that a batch has cannot be above the most")


def _strategy(values: Mapping[str, str]) -> bool:
    text = values.get("startingoffsetsbytimestampstrategy", "error").lower()
    if text not in ("error", "latest"):
        raise OptionError(f"option 'startingOffsetsByTimestampStrategy' is {text!r}: error or latest")
    return text == "latest"


def _json(values: Mapping[str, str], name: str, parse: Callable[[Any], T], example: str) -> T:
    try:
        return parse(json.loads(values[name]))
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(f"option '{_KNOWN[name]}' is {values[name]!r} ({error}): write {example}") from None


def _flag(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = values.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"option '{_KNOWN[name]}' is {text!r}: true or false")
    return text == "true"


def _count(values: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) < least:
        raise OptionError(f"option '{_KNOWN[name]}' is {text!r}: a whole number, at least {least}")
    return int(text)


def _duration(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if not found or (found[2] and found[2] not in _UNITS_MS):
        raise OptionError(f"option '{_KNOWN[name]}' is {text!r}: a number with a unit, such as 30s or 15m")
    return int(found[1]) * _UNITS_MS[found[2] or "ms"]


__all__ = [
    "CLIENT_ID",
    "EARLIEST",
    "LATEST",
    "READ_COMMITTED",
    "Key",
    "OptionError",
    "Position",
    "SourceOptions",
    "read_source",
]
