"""A stream's progress, as Spark keeps it in the checkpoint.

    {"orders":{"0":123,"1":98},"@insync":{"epochs":{"orders":{"0":4,"1":4}},"ids":{"orders":"0b6…"},"from":{…}}}

The first part is what Spark's Kafka connector writes, and it is enough on its own: a query can take over a checkpoint
of the connector. The part under `@insync`, which is not a legal topic name, holds what later proves a loss (the ids of
the topics, and the leader epochs under which the offsets were seen) and `from`: where the batch that *ends* here
begins, for the partitions whose beginning is not the end of the batch before. These are all partitions of the first
batch, new partitions, and those that lost records. So the checkpoint alone determines what a batch reads: run again, it
reads the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from insync.client.model import TopicPartition
from insync.spark.planning import Offsets

EXTENSION = "@insync"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    offsets: Offsets
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    origin: Offsets = field(default_factory=dict)
    """`from` of the checkpoint."""
    initial: bool = False
    """Nothing was read before this offset."""

    @staticmethod
    def from_dict(checkpoint: Mapping[str, Any]) -> StreamOffset:
        extension = checkpoint.get(EXTENSION, {})
        return StreamOffset(
            _flatten({topic: offsets for topic, offsets in checkpoint.items() if topic != EXTENSION}),
            _flatten(extension.get("epochs", {})),
            dict(extension.get("ids", {})),
            _flatten(extension.get("from", {})),
            bool(extension.get("initial", False)),
        )

    def to_dict(self) -> dict[str, Any]:
        """In a fixed order: Spark compares the texts."""
        extension: dict[str, Any] = {"epochs": by_topic(self.epochs), "ids": dict(sorted(self.ids.items()))}
        if self.origin:
            extension["from"] = by_topic(self.origin)
        if self.initial:
            extension["initial"] = True
        return {**by_topic(self.offsets), EXTENSION: extension}

    def id_of(self, topic: str) -> str:
        return self.ids.get(topic, "")


def lag(source: Mapping[str, Any]) -> Offsets:
    """How many offsets of each (topic, partition) the last batch left unread.

    `source` is an entry of `query.lastProgress["sources"]`.
    """
    end, latest = (StreamOffset.from_dict(parse_offset(source.get(name))) for name in ("endOffset", "latestOffset"))
    return {key: max(0, offset - end.offsets.get(key, 0)) for key, offset in latest.offsets.items()}


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """{topic: {partition: offset}}, as the connector writes it."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(index)] = offset
    return nested


def _flatten(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {(topic, int(index)): int(offset) for topic, rest in nested.items() for index, offset in rest.items()}


def parse_offset(offset: Any) -> Any:
    """Progress reports carry offsets as text or as an object, depending on the API."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    return parsed if isinstance(parsed, dict) else {}
