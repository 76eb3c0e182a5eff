"""A history as Arrow tables: events, spans, brokers, and totals per partition and per cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from insync.pipeline.health import history as kinds
from insync.pipeline.health.history import BrokerSpan, Event, HistoryBuilder, Span

_INTS = pa.list_(pa.int32())
_TIME = pa.timestamp("ms", "UTC")
_TYPES = {
    "offset": pa.int64(),
    "time_ms": _TIME,
    "from_ms": _TIME,
    "to_ms": _TIME,
    "epoch": pa.int32(),
    "partition": pa.int32(),
    "broker": pa.int32(),
    "leader": pa.int32(),
    "leader_epoch": pa.int32(),
    "min_isr": pa.int32(),
    "members": _INTS,
    "isr": _INTS,
    "replicas": _INTS,
    "elr": _INTS,
    "under_replicated": pa.bool_(),
    "under_min_isr": pa.bool_(),
    "offline": pa.bool_(),
}
_NAMES = {"time_ms": "time", "from_ms": "from", "to_ms": "to"}
FLAGS = ("under_replicated", "under_min_isr", "offline")
KEY = ["topic", "partition"]


class Tables(NamedTuple):
    events: pa.Table
    spans: pa.Table
    brokers: pa.Table
    partitions: pa.Table
    causes: pa.Table


def make_tables(history: HistoryBuilder) -> Tables:
    events = _to_table(Event, history.events)
    spans = _to_table(Span, history.spans)
    brokers = _to_table(BrokerSpan, history.broker_spans)
    return Tables(events, spans, brokers, _sum_partitions(events, spans), _count_causes(events))


def table_columns() -> dict[str, list[str]]:
    """By table."""
    return {name: table.column_names for name, table in make_tables(HistoryBuilder())._asdict().items()}


def _to_table(kind: Any, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(kind._fields)
    arrays = [
        pa.array(column, _TYPES.get(name, pa.string())) for name, column in zip(kind._fields, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, [_NAMES.get(name, name) for name in kind._fields])


def _sum_partitions(events: pa.Table, spans: pa.Table) -> pa.Table:
    """A row per partition: how long it existed, how long in which state, and how often its ISR and leader changed."""
    length = pc.cast(pc.subtract(spans["to"].cast(pa.int64()), spans["from"].cast(pa.int64())), pa.float64())
    seconds = pc.divide(length, 1_000.0)
    timed = spans.select(KEY).append_column("watched_s", seconds)
    for flag in FLAGS:
        timed = timed.append_column(f"{flag}_s", pc.if_else(spans[flag], seconds, 0.0))
    names = ["watched_s", *(f"{flag}_s" for flag in FLAGS)]
    total = timed.group_by(KEY).aggregate([(name, "sum") for name in names])
    total = total.rename_columns([name.removesuffix("_sum") for name in total.column_names])
    for name, mask in _event_masks(events).items():
        counts = events.filter(mask).group_by(KEY).aggregate([([], "count_all")])
        total = total.join(counts.rename_columns([*KEY, name]), KEY, join_type="left outer")
    total = total.join(_find_peaks(events), KEY, join_type="left outer")
    filled = [pc.fill_null(total[name], 0) if name not in KEY else total[name] for name in total.column_names]
    return pa.Table.from_arrays(filled, total.column_names).sort_by([(name, "ascending") for name in KEY])


def _event_masks(events: pa.Table) -> dict[str, Any]:
    election = pc.equal(events["kind"], kinds.ELECTION)
    unclean = pc.fill_null(pc.equal(events["how"], "unclean"), False)
    return {
        "shrinks": pc.equal(events["kind"], kinds.SHRINK),
        "expands": pc.equal(events["kind"], kinds.EXPAND),
        "elections": election,
        "unclean_elections": pc.and_(election, unclean),
    }


def _find_peaks(events: pa.Table) -> pa.Table:
    """The largest number of ISR changes of a partition in one minute of the clock."""
    changes = events.filter(pc.is_in(events["kind"], pa.array([kinds.SHRINK, kinds.EXPAND])))
    minute = pc.divide(changes["time"].cast(pa.int64()), 60_000)
    minutes = changes.select(KEY).append_column("minute", minute)
    counts = minutes.group_by([*KEY, "minute"]).aggregate([([], "count_all")])
    return counts.group_by(KEY).aggregate([("count_all", "max")]).rename_columns([*KEY, "peak_per_minute"])


def _count_causes(events: pa.Table) -> pa.Table:
    caused = events.filter(pc.is_valid(events["by"]))
    keys = ["kind", "how", "cause", "by"]
    counts = caused.group_by(keys).aggregate([([], "count_all")]).rename_columns([*keys, "times"])
    return counts.sort_by([("times", "descending"), *((key, "ascending") for key in keys)])


# --- for plots -------------------------------------------------------------------------------------------------------


def bucket_counts(times: Any, start: int, end: int, buckets: int) -> Any:
    """How many of `times` are in each of `buckets` equal parts of [start, end]."""
    return np.histogram(times, bins=buckets, range=(start, max(end, start + 1)))[0]


def bucket_levels(spans: pa.Table, flag: str, start: int, end: int, buckets: int) -> Any:
    """The largest number of partitions with `flag` at once, in each of `buckets` equal parts of [start, end]."""
    chosen = spans.filter(spans[flag])
    begins = np.asarray(chosen["from"].cast(pa.int64()))
    ends = np.asarray(chosen["to"].cast(pa.int64()))
    times = np.concatenate([begins, ends])
    steps = np.concatenate([np.ones(len(begins), np.int64), -np.ones(len(ends), np.int64)])
    order = np.lexsort((steps, times))  # at the same time, ends come first
    times, level = times[order], np.cumsum(steps[order])
    edges = np.linspace(start, max(end, start + 1), buckets + 1)
    levels = np.zeros(buckets, np.int64)
    where = np.clip(np.searchsorted(edges, times, "right") - 1, 0, buckets - 1)
    np.maximum.at(levels, where, level)
    entering = np.searchsorted(times, edges[:-1], "right") - 1
    carried = np.where(entering >= 0, level[np.clip(entering, 0, None)] if len(level) else 0, 0)
    return np.maximum(levels, carried)
