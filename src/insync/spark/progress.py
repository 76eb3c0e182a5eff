"""Progress of a stream as Spark's Kafka connector reports it: a readable description, and how far it is behind.

Spark offers Python sources no place for either: `description` is the name of a class of Spark, `metrics` is empty. What
a source can report is its latest offset, so both travel in there, under the key of `stream_offsets.EXTENSION`, and
`describe_progress` puts them where the connector has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from insync.client.model import TopicPartition
from insync.spark.planning import Offsets
from insync.spark.source_options import SourceOptions
from insync.spark.stream_offsets import EXTENSION, parse_offset

_PYTHON_SINK = "PythonTable"
"""In the description that Spark gives a sink in Python."""


def describe_source(options: SourceOptions) -> str:
    """As the connector's `KafkaV2[Subscribe[orders]]`."""
    if options.assigned:
        chosen = f"Assign[{', '.join(f'{topic}-{index}' for topic, index in options.assigned)}]"
    elif options.pattern:
        chosen = f"SubscribePattern[{options.subscribed_pattern}]"
    else:
        chosen = f"Subscribe[{', '.join(options.topics)}]"
    return f"insync[{chosen}]"


def measure_lag(end: Offsets, latest: Offsets, bytes_per_offset: Mapping[TopicPartition, float]) -> dict[str, str]:
    """By the connector's names. `bytes_per_offset` may lack partitions; then there is no estimate in bytes."""
    behind = {key: max(0, offset - end.get(key, 0)) for key, offset in latest.items()}
    if not behind:
        return {}
    counts = behind.values()
    metrics = {
        "minOffsetsBehindLatest": str(min(counts)),
        "maxOffsetsBehindLatest": str(max(counts)),
        "avgOffsetsBehindLatest": str(sum(counts) / len(behind)),
    }
    if all(key in bytes_per_offset for key, count in behind.items() if count):
        estimate = sum(count * bytes_per_offset[key] for key, count in behind.items() if count)
        metrics["estimatedTotalBytesBehindLatest"] = str(round(estimate))
    return metrics


def describe_progress(progress: Any, *, sink: str = "") -> dict[str, Any]:
    """`query.lastProgress`, or what a listener gets, as a dictionary in which the sources of insync have a readable
    `description` and the `metrics` of Spark's Kafka connector. `sink` is the description of a sink in Python: Spark
    does not tell which one it is."""
    described: dict[str, Any] = json.loads(progress if isinstance(progress, str) else _to_json(progress))
    for source in described.get("sources", ()):
        extension = parse_offset(source.get("latestOffset")).get(EXTENSION, {})
        if "description" in extension:
            source["description"] = extension["description"]
            source["metrics"] = {**source.get("metrics", {}), **extension["metrics"]}
    if sink and _PYTHON_SINK in described.get("sink", {}).get("description", ""):
        described["sink"]["description"] = sink
    return described


def _to_json(progress: Any) -> str:
    text = getattr(progress, "json", None)
    return text if isinstance(text, str) else json.dumps(progress)
