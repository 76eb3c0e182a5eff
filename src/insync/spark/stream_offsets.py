"""How far a stream has come, as Spark keeps it in the checkpoint.

    {"orders":{"0":123,"1":98},"@insync":{"epochs":{"orders":{"0":4,"1":4}},"ids":{"orders":"0b6…"},"from":{…}}}

The first part is what Spark's Kafka connector writes, and alone it is read too: a checkpoint of the connector can be
taken over. The part under `@insync`, which no topic can be called, tells what later proves a loss (the ids of the
topics, and the leader epochs under which the offsets were seen), and `from`: where the batch that *ends* here begins,
for all partitions whose beginning the end of the batch before does not tell. Those are all of the first batch, new
partitions, and those that lost records. So what a batch reads is settled by the checkpoint alone: run again, it reads
the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from insync.spark.planning import Key, Offsets

FACTS = "@insync"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    offsets: Offsets
    epochs: Mapping[Key, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    origin: Offsets = field(default_factory=dict)
    initial: bool = False
    """Whether nothing was read before it."""

    @staticmethod
    def of(found: Mapping[str, Any]) -> StreamOffset:
        facts = found.get(FACTS, {})
        return StreamOffset(
            _flat({topic: rest for topic, rest in found.items() if topic != FACTS}),
            _flat(facts.get("epochs", {})),
            dict(facts.get("ids", {})),
            _flat(facts.get("from", {})),
            bool(facts.get("initial", False)),
        )

    def to_dict(self) -> dict[str, Any]:
        """In one order: Spark compares the texts."""
        facts: dict[str, Any] = {"epochs": _nested(self.epochs), "ids": dict(sorted(self.ids.items()))}
        if self.origin:
            facts["from"] = _nested(self.origin)
        if self.initial:
            facts["initial"] = True
        return {**_nested(self.offsets), FACTS: facts}

    def id_of(self, topic: str) -> str:
        return self.ids.get(topic, "")


def plain(offsets: Mapping[Key, int]) -> dict[str, dict[str, int]]:
    """As the connector writes them."""
    return _nested(offsets)


def lag(source: Mapping[str, Any]) -> Offsets:
    """Of one source in `query.lastProgress["sources"]`: how many offsets of each partition were not in the batch."""
    end, latest = (_parsed(source.get(name)) for name in ("endOffset", "latestOffset"))
    done = StreamOffset.of(end).offsets
    return {key: max(0, offset - done.get(key, 0)) for key, offset in StreamOffset.of(latest).offsets.items()}


def _parsed(found: Any) -> Any:
    """Progress shows offsets as text or as the object itself, depending on who asks."""
    return (json.loads(found) if isinstance(found, str) else found) or {}


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {(topic, int(index)): int(offset) for topic, rest in nested.items() for index, offset in rest.items()}


def _nested(flat: Mapping[Key, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, index), offset in sorted(flat.items()):
        found.setdefault(topic, {})[str(index)] = offset
    return found
