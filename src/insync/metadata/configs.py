"""Topic and broker configs: Kafka's names, defaults and bounds.

A topic's value is its own, else the cluster's default for the broker-side synonym, else the built-in default. Values
are stored as strings; `value_of` parses one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
RECOVERY_STRATEGY = "unclean.recovery.strategy"
LEADER_THROTTLED_RATE = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE = "follower.replication.throttled.rate"
LEADER_THROTTLED_REPLICAS = "leader.replication.throttled.replicas"
PRODUCER_EXPIRATION = "producer.id.expiration.ms"
FOLLOWER_THROTTLED_REPLICAS = "follower.replication.throttled.replicas"

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1

Value = int | float | bool | str | tuple[str, ...]


class Resource(IntEnum):
    """Kafka's numbers of resource types."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    name: str
    kind: str
    """int, float, bool, choice, list or replicas."""
    default: str
    low: float = 0
    high: float = _LONG_MAX
    choices: tuple[str, ...] = ()
    synonym: str = ""
    """The name of the broker config that topics without a value of their own fall back to."""


def parse(key: ConfigKey, text: str) -> Value | None:
    """The value of `text` for `key`, or None if it is not valid."""
    text = text.strip()
    if key.kind in ("int", "float"):
        try:
            number = int(text) if key.kind == "int" else float(text)
        except ValueError:
            return None
        return number if key.low <= number <= key.high else None
    if key.kind == "bool":
        return {"true": True, "false": False}.get(text.lower())
    if key.kind == "choice":
        return text if text in key.choices else None
    items = tuple(item.strip() for item in text.split(",") if item.strip())
    if key.kind == "replicas":
        return items if all(_is_throttled_replica(item) for item in items) else None
    return items if all(item in key.choices for item in items) else None


def find_problem(keys: Mapping[str, ConfigKey], name: str, text: str | None) -> str | None:
    """Why a value is not valid, in words; None if it is."""
    key = keys.get(name)
    if key is None:
        return f"Unknown config {name}"
    if text is None or parse(key, text) is None:
        return f"Invalid value {text} for configuration {name}: it must be {requirement(key)}"
    return None


def requirement(key: ConfigKey) -> str:
    """What a value must be, in words that complete a sentence."""
    if key.kind in ("int", "float"):
        number = "a whole number" if key.kind == "int" else "a number"
        return f"{number} from {key.low} " + ("up" if key.high == _LONG_MAX else f"to {key.high}")
    if key.kind == "bool":
        return "true or false"
    if key.kind == "replicas":
        return "a list of partition:broker, or *"
    choices = ", ".join(key.choices)
    return f"one of {choices}" if key.kind == "choice" else f"a list of {choices}, or empty"


def value_of(key: ConfigKey, text: str | None) -> Value:
    """The effective value. Stored values were checked when they were set; an invalid one falls back to the default."""
    value = None if text is None else parse(key, text)
    if value is None:
        value = parse(key, key.default)
    return key.default if value is None else value


def _is_throttled_replica(item: str) -> bool:
    if item == "*":
        return True
    partition, _, broker = item.partition(":")
    return is_id(partition) and is_id(broker)


def is_id(text: str) -> bool:
    """Whether this is a decimal id. `isdigit` alone accepts digits of other scripts, some of which `int` refuses."""
    return text.isascii() and text.isdigit() and len(text) <= 10


def _int(name: str, default: int, low: int = 0, high: int = _LONG_MAX, synonym: str = "") -> ConfigKey:
    return ConfigKey(name=name, kind="int", default=str(default), low=low, high=high, synonym=synonym)


def _choice(name: str, default: str, choices: tuple[str, ...], synonym: str = "", kind: str = "choice") -> ConfigKey:
    return ConfigKey(name=name, kind=kind, default=default, choices=choices, synonym=synonym)


def _bool(name: str, default: bool, synonym: str = "") -> ConfigKey:
    return ConfigKey(name=name, kind="bool", default=str(default).lower(), synonym=synonym)


_DAY = 24 * 60 * 60 * 1000

_TOPIC_KEYS = (
    _int(MIN_ISR, 1, 1, _INT_MAX, MIN_ISR),
    _bool(UNCLEAN_ELECTION, False, UNCLEAN_ELECTION),
    _choice(RECOVERY_STRATEGY, "balanced", ("manual", "balanced", "proactive"), RECOVERY_STRATEGY),
    _choice("cleanup.policy", "delete", ("delete", "compact"), "log.cleanup.policy", kind="list"),
    _choice(
        "compression.type",
        "producer",
        ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "compression.type",
    ),
    _int("compression.gzip.level", -1, -1, 9, "compression.gzip.level"),
    _int("compression.lz4.level", 9, 1, 17, "compression.lz4.level"),
    _int("compression.zstd.level", 3, -131072, 22, "compression.zstd.level"),
    _int("delete.retention.ms", _DAY, synonym="log.cleaner.delete.retention.ms"),
    _int("file.delete.delay.ms", 60_000, synonym="log.segment.delete.delay.ms"),
    _int("flush.messages", _LONG_MAX, 1, synonym="log.flush.interval.messages"),
    _int("flush.ms", _LONG_MAX, synonym="log.flush.interval.ms"),
    _int("index.interval.bytes", 4096, 0, _INT_MAX, "log.index.interval.bytes"),
    _int("max.compaction.lag.ms", _LONG_MAX, 1, synonym="log.cleaner.max.compaction.lag.ms"),
    _int("max.message.bytes", 1_048_588, 0, _INT_MAX, "message.max.bytes"),
    _choice("message.timestamp.type", "CreateTime", ("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
    _int("message.timestamp.after.max.ms", 3_600_000, synonym="log.message.timestamp.after.max.ms"),
    _int("message.timestamp.before.max.ms", _LONG_MAX, synonym="log.message.timestamp.before.max.ms"),
    ConfigKey(
        name="min.cleanable.dirty.ratio",
        kind="float",
        default="0.5",
        high=1,
        synonym="log.cleaner.min.cleanable.ratio",
    ),
    _int("min.compaction.lag.ms", 0, synonym="log.cleaner.min.compaction.lag.ms"),
    _bool("preallocate", False, "log.preallocate"),
    _int("retention.bytes", -1, -1, synonym="log.retention.bytes"),
    _int("retention.ms", 7 * _DAY, -1, synonym="log.retention.ms"),
    _int("segment.bytes", 1_073_741_824, 14, _INT_MAX, "log.segment.bytes"),
    _int("segment.index.bytes", 10_485_760, 4, _INT_MAX, "log.index.size.max.bytes"),
    _int("segment.jitter.ms", 0, synonym="log.roll.jitter.ms"),
    _int("segment.ms", 7 * _DAY, 1, synonym="log.roll.ms"),
    ConfigKey(name=LEADER_THROTTLED_REPLICAS, kind="replicas", default=""),
    ConfigKey(name=FOLLOWER_THROTTLED_REPLICAS, kind="replicas", default=""),
)

_BROKER_ONLY_KEYS = (
    _int(LEADER_THROTTLED_RATE, _LONG_MAX),
    _int(FOLLOWER_THROTTLED_RATE, _LONG_MAX),
    _int(PRODUCER_EXPIRATION, _DAY, 1, _INT_MAX),
    # A broker has one log directory here, so nothing moves between directories; Kafka's reassignment tool unsets it.
    _int("replica.alter.log.dirs.io.max.bytes.per.second", _LONG_MAX),
)

TOPIC_KEYS: Mapping[str, ConfigKey] = MappingProxyType({key.name: key for key in _TOPIC_KEYS})


def _broker_side(key: ConfigKey) -> ConfigKey:
    return ConfigKey(
        name=key.synonym, kind=key.kind, default=key.default, low=key.low, high=key.high, choices=key.choices
    )


BROKER_KEYS: Mapping[str, ConfigKey] = MappingProxyType(
    {key.synonym: _broker_side(key) for key in _TOPIC_KEYS if key.synonym}
    | {key.name: key for key in _BROKER_ONLY_KEYS}
)

CLUSTER_WIDE = (MIN_ISR, UNCLEAN_ELECTION, RECOVERY_STRATEGY)
"""The controller uses these, so they are set for all brokers or for a topic, never for one broker."""

KEYS: Mapping[Resource, Mapping[str, ConfigKey]] = MappingProxyType(
    {Resource.TOPIC: TOPIC_KEYS, Resource.BROKER: BROKER_KEYS}
)
