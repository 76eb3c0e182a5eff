"""What a broker's replicas may know of the cluster: the committed image, and this incarnation's epoch."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from insync.metadata import configs
from insync.metadata.image import Image
from insync.node.lifecycle import Lifecycle
from insync.replication import throttle
from insync.replication.throttle import ThrottleRates, TopicThrottle
from insync.storage.config import LogConfig
from insync.wire import compression


class NodeClusterView:
    """The ClusterView of `replication`; every call reads the current image."""

    def __init__(
        self, broker_id: int, image: Callable[[], Image], lifecycle: Lifecycle, controller_id: Callable[[], int]
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._lifecycle = lifecycle
        self._controller_id = controller_id
        self._log_configs: dict[str, LogConfig] = {}
        self._min_isr: dict[str, int] = {}
        self._throttles: dict[str, TopicThrottle] = {}
        self._rates: ThrottleRates | None = None

    @property
    def broker_epoch(self) -> int:
        return self._lifecycle.broker_epoch

    @property
    def controller_id(self) -> int:
        return self._controller_id()

    def is_fenced(self, broker: int) -> bool:
        known = self._image().brokers.get(broker)
        return known is None or known.fenced

    def is_shutting_down(self, broker: int) -> bool:
        known = self._image().brokers.get(broker)
        return known is not None and known.in_controlled_shutdown

    def broker_epoch_of(self, broker: int) -> int | None:
        known = self._image().brokers.get(broker)
        return None if known is None else known.epoch

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._image().topics.get(topic_id)

    def has_partition(self, topic: str, index: int) -> bool:
        return self._image().find(topic, index) is not None

    def topic_id(self, name: str) -> UUID | None:
        return self._image().topic_ids.get(name)

    def min_insync_replicas(self, topic: str) -> int:
        min_isr = self._min_isr.get(topic)
        if min_isr is None:
            min_isr = self._min_isr[topic] = self._image().min_isr(topic)
        return min_isr

    def log_config(self, topic: str) -> LogConfig:
        config = self._log_configs.get(topic)
        if config is None:
            config = self._log_configs[topic] = _log_config(self._image(), topic, self._broker_id)
        return config

    @property
    def throttle_rates(self) -> ThrottleRates:
        if self._rates is None:
            self._rates = _rates(self._image(), self._broker_id)
        return self._rates

    def throttle(self, topic: str) -> TopicThrottle:
        throttle = self._throttles.get(topic)
        if throttle is None:
            throttle = self._throttles[topic] = _throttle(self._image(), topic, self._broker_id)
        return throttle

    def configs_changed(self) -> None:
        self._log_configs.clear()
        self._min_isr.clear()
        self._throttles.clear()
        self._rates = None


def _rates(image: Image, broker_id: int) -> ThrottleRates:
    """R6."""

    def rate(name: str) -> int:
        return int(image.broker_config(broker_id, name))  # type: ignore[arg-type]

    return ThrottleRates(leader=rate(configs.LEADER_THROTTLED_RATE), follower=rate(configs.FOLLOWER_THROTTLED_RATE))


def _throttle(image: Image, topic: str, broker_id: int) -> TopicThrottle:
    def items(name: str) -> tuple[str, ...]:
        return image.config(topic, name)  # type: ignore[return-value]

    return TopicThrottle(
        leader=throttle.parse_throttled_replicas(items(configs.LEADER_THROTTLED_REPLICAS), broker_id),
        follower=throttle.parse_throttled_replicas(items(configs.FOLLOWER_THROTTLED_REPLICAS), broker_id),
    )


def _codec(name: str) -> int | None:
    return None if name == "producer" else 0 if name == "uncompressed" else compression.NAMES.index(name)


def _log_config(image: Image, topic: str, broker_id: int) -> LogConfig:
    def value(key: str) -> configs.Value:
        return image.config_at(broker_id, topic, key)

    def number(key: str) -> int:
        return int(value(key))  # type: ignore[arg-type]

    policy: tuple[str, ...] = value("cleanup.policy")  # type: ignore[assignment]
    longest_lag = number("max.compaction.lag.ms")
    return LogConfig(
        segment_bytes=number("segment.bytes"),
        # Only closed segments are compacted, so a segment must close before its records exceed the longest lag.
        segment_ms=min(number("segment.ms"), longest_lag) if "compact" in policy else number("segment.ms"),
        index_interval_bytes=number("index.interval.bytes"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        flush_messages=number("flush.messages"),
        flush_ms=number("flush.ms"),
        max_message_bytes=number("max.message.bytes"),
        log_append_time=value("message.timestamp.type") == "LogAppendTime",
        compression=_codec(str(value("compression.type"))),
        deletes="delete" in policy,
        compacts="compact" in policy,
        delete_retention_ms=number("delete.retention.ms"),
        min_cleanable_ratio=float(value("min.cleanable.dirty.ratio")),  # type: ignore[arg-type]
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=longest_lag,
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        producer_id_expiration_ms=int(image.broker_config(broker_id, configs.PRODUCER_EXPIRATION)),  # type: ignore[arg-type]
    )
