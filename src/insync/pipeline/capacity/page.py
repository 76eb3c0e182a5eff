"""Renders the capacity of a cluster as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from insync.pipeline.capacity.growth import DAY_MS, TIMES_MS, YEARS
from insync.pipeline.capacity.job import Capacity
from insync.pipeline.capacity.segment_sizes import HOUR_MS, Hours, add_hours
from insync.pipeline.capacity.skew import BrokerLoad
from insync.pipeline.report import page as html
from insync.pipeline.report import svg
from insync.pipeline.text import format_duration, format_size, format_time, pluralize

SHOWN = 10
MAX_HOURS = 24 * 14
"""Of writes that are plotted."""
PROJECTED_DAYS = 30
BUCKETS = 120
SOON_DAYS = 30
"""A disk that is full earlier is marked."""


def render_page(report: Capacity) -> str:
    return html.page("Capacity", _render_parts(report))


def _render_parts(report: Capacity) -> Iterator[str]:
    until = "no records" if report.end_ms < 0 else f"newest record {format_time(report.end_ms)}"
    partitions = pluralize(len(report.cluster.partitions), "partition")
    yield f'<p class="soft">{partitions} of {pluralize(len(report.topics), "topic")}, {until}</p>'
    is_full_soon = any(_is_full_soon(broker) for broker in report.brokers)
    yield html.verdict(f"{report.verdict[:1].upper()}{report.verdict[1:]}.", good=not is_full_soon)
    for note in report.notes:
        yield f'<p class="soft">{escape(note[:1].upper() + note[1:])}.</p>'
    yield html.cards(_cards(report))
    yield "<h2>Brokers</h2>"
    yield from _brokers(report)
    yield "<h2>Growth</h2>"
    yield from _growth(report)
    yield "<h2>Partitions</h2>"
    yield from _partitions(report)
    yield "<h2>Topics</h2>"
    yield from _topics(report)
    if report.costs:
        yield "<h2>Retention</h2>"
        yield from _retention(report)
    yield "<h2>Proposed reassignment</h2>"
    yield from _proposal(report)


def _cards(report: Capacity) -> Iterator[tuple[str, Any, str]]:
    yield "on all brokers", format_size(sum(broker.size for broker in report.brokers)), ""
    yield "records", f"{sum(topic.records for topic in report.topics):,}", ""
    yield "per day, on all brokers", format_size(sum(topic.size_per_hour for topic in report.topics) * 24), ""
    yield "records per day", f"{sum(topic.records_per_hour for topic in report.topics) * 24:,.0f}", ""
    yield "fullest broker by the mean", f"{report.skew:.2f}", "warn" if report.moves else ""
    full = [broker.full_days for broker in report.brokers if broker.full_days is not None]
    if full:
        yield "until a disk is full", format_duration(min(full) * 86_400), "bad" if min(full) < SOON_DAYS else ""
    if report.moves:
        yield "after the proposal", f"{report.skew_after:.2f}", ""


def _is_full_soon(broker: BrokerLoad) -> bool:
    return broker.full_days is not None and broker.full_days < SOON_DAYS


def _brokers(report: Capacity) -> Iterator[str]:
    after = report.sizes_after
    widest = max((max(broker.size, after[broker.id], broker.disk or 0) for broker in report.brokers), default=1) or 1
    for broker in report.brokers:
        rack = "" if broker.rack is None else f" ({broker.rack})"
        bars = [svg.Bar(0.0, broker.size / widest, "main", f"now {format_size(broker.size)}")]
        marks = (
            [] if broker.disk is None else [svg.Mark(broker.disk / widest, "bad", f"disk {format_size(broker.disk)}")]
        )
        yield html.row(f"broker {broker.id}{rack}, {format_size(broker.size)}", svg.lane(bars, marks))
        if report.moves:
            size = after[broker.id]
            bars = [svg.Bar(0.0, size / widest, "good", f"after {format_size(size)}")]
            yield html.row(f"after: {format_size(size)}", svg.lane(bars, marks, height=16))
    legend = [("main", "now"), *([("good", "after the proposal")] if report.moves else [])]
    legend += [("bad", "disk")] if any(broker.disk is not None for broker in report.brokers) else []
    yield html.keys(*legend)
    columns = ("broker", "replicas", "leaders", "preferred", "after", "led", "records", "bytes/day", "full in")
    rows = [
        (
            str(broker.id),
            broker.replicas,
            broker.leaders,
            broker.preferred,
            report.preferred_after[broker.id],
            format_size(broker.led_size),
            broker.records,
            format_size(broker.size_per_hour * 24),
            _full_in(broker),
        )
        for broker in report.brokers
    ]
    yield html.table(columns, rows)


def _full_in(broker: BrokerLoad) -> str:
    if broker.disk is None:
        return ""
    return f"over {YEARS} years" if broker.full_days is None else format_duration(broker.full_days * 86_400)


def _growth(report: Capacity) -> Iterator[str]:
    written: Hours = {}
    for partition in report.cluster.partitions:
        add_hours(written, partition.hours)
    last = report.end_ms // HOUR_MS
    hours = [hour for hour in written if last - MAX_HOURS < hour <= last]
    if hours:
        series = range(min(hours), last + 1)
        for place, unit in ((0, "bytes"), (1, "records")):
            values = [written.get(hour, (0, 0))[place] for hour in series]
            most = format_size(max(values)) if place == 0 else f"{max(values):,}"
            yield html.row(f"{unit} written per hour, at most {most}", svg.area(values, "main"))
        yield html.times(format_time(min(hours) * HOUR_MS)[:16], format_time((last + 1) * HOUR_MS)[:16])
    yield "<p>If writes go on at the same rate and retention deletes what is too old:</p>"
    days = _projected_days(report)
    times = np.linspace(0, days * DAY_MS, BUCKETS)
    for broker in report.brokers:
        values = np.interp(times, TIMES_MS, report.projections[broker.id]).tolist()
        kind = "warn" if _is_full_soon(broker) else "main"
        label = f"broker {broker.id}: {format_size(values[-1])} then"
        yield html.row(label, svg.area(values, kind, limit=broker.disk))
    yield html.times("now", f"{days / 2:.0f} days", f"{days:.0f} days")


def _projected_days(report: Capacity) -> float:
    """Long enough to show when the first disk is full."""
    full = [broker.full_days for broker in report.brokers if broker.full_days is not None]
    return min(max([PROJECTED_DAYS, *(days * 1.2 for days in full)]), YEARS * 365)


def _partitions(report: Capacity) -> Iterator[str]:
    for title, unit, kind, chosen in (
        ("Written most", "/h", "main", report.hottest[:SHOWN]),
        ("Largest", "", "warn", report.largest[:SHOWN]),
    ):
        values = [report.rates[load.key].size if unit else float(load.size) for load in chosen]
        most = max(values, default=0.0) or 1.0
        yield f'<p class="soft">{title}</p>'
        for partition, value in zip(chosen, values, strict=True):
            text = f"{format_size(value)}{unit}"
            plot = svg.lane([svg.Bar(0.0, value / most, kind, text)], height=16)
            yield html.row(f"{partition.topic}-{partition.partition}, {text}", plot)


def _topics(report: Capacity) -> Iterator[str]:
    columns = ("topic", "partitions", "bytes", "records", "largest by mean", "bytes/h", "bytes/day", "records/day")
    rows = [
        (
            topic.topic,
            topic.partitions,
            format_size(topic.size),
            topic.records,
            round(topic.skew, 2),
            format_size(topic.size_per_hour),
            format_size(topic.size_per_hour * 24),
            round(topic.records_per_hour * 24),
        )
        for topic in report.topics[: 2 * SHOWN]
    ]
    yield html.table(columns, rows)


def _retention(report: Capacity) -> Iterator[str]:
    most = max((cost.size for cost in report.costs), default=0) or 1
    for cost in report.costs[:SHOWN]:
        freed = max((saving.freed for saving in cost.savings), default=0)
        kept = cost.size - freed - cost.expired
        bars = [
            svg.Bar(0.0, kept / most, "main", f"kept: {format_size(kept)}"),
            svg.Bar(kept / most, (kept + freed) / most, "good", f"freed by a change: {format_size(freed)}"),
            svg.Bar((kept + freed) / most, cost.size / most, "idle", f"expired: {format_size(cost.expired)}"),
        ]
        yield html.row(
            f"{cost.topic}, {format_size(cost.size)}", svg.lane([bar for bar in bars if bar.end > bar.start])
        )
    yield html.keys(("main", "kept"), ("good", "freed by the change that frees most"), ("idle", "about to be deleted"))
    rows = [
        (cost.topic, str(saving.change), format_size(saving.freed), _steady(saving.steady_size))
        for cost in report.costs
        for saving in cost.savings
    ]
    if rows:
        yield html.table(("topic", "change", "frees now", "keeps at this rate"), rows[: SHOWN * 2])
    shares = [
        (
            f"{partition.topic}-{partition.partition}",
            partition.keys.records,
            partition.keys.superseded,
            f"{partition.keys.superseded_share:.0%}",
            partition.keys.tombstones,
        )
        for partition in report.largest
        if partition.keys is not None and partition.keys.records
    ]
    if shares:
        columns = ("compacted", "records", "superseded", "of bytes", "tombstones")
        yield html.table(columns, shares[:SHOWN])


def _steady(size: int | None) -> str:
    return "" if size is None else format_size(size)


def _proposal(report: Capacity) -> Iterator[str]:
    if not report.moves:
        yield "<p>None: brokers are within the tolerance, or no move would help.</p>"
        return
    estimate = report.estimate
    text = f"{pluralize(len(report.moves), 'partition')} change, {pluralize(estimate.copies, 'copy', 'copies')}"
    if estimate.copies:
        text += (
            f" of {format_size(estimate.copied)}; {format_duration(estimate.seconds)} "
            f"with a throttle of {format_size(estimate.throttle)}/s"
        )
    yield f"<p>{text}.</p>"
    sizes = {partition.key: partition.size for partition in report.cluster.partitions}
    rows = [
        (
            f"{move.topic}-{move.partition}",
            ", ".join(map(str, move.before)),
            ", ".join(map(str, move.after)),
            ", ".join(map(str, move.copies)),
            format_size(sizes[move.topic, move.partition]),
        )
        for move in report.moves
    ]
    yield html.details(
        f"all {len(rows)} changes",
        html.table(("partition", "replicas now", "replicas after", "copies to", "bytes"), rows),
    )
