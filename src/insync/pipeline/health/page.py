"""Renders the health of a cluster as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from insync.metadata.topic_names import INTERNAL_TOPICS
from insync.pipeline.health import history as kinds
from insync.pipeline.health.job import Health, to_ms
from insync.pipeline.health.tables import bucket_counts, bucket_levels
from insync.pipeline.report import page as html
from insync.pipeline.report import svg
from insync.pipeline.text import format_duration, format_number

BUCKETS = 240
MAX_PARTITIONS = 30
MAX_CAUSES = 40
MAX_EVENTS = 500
_STATES = {kinds.UP: "good", kinds.LEAVING: "warn", kinds.DOWN: "bad", kinds.ABSENT: "idle"}


def render_page(health: Health) -> str:
    return html.page("Replication health", _render_parts(health))


def _render_parts(health: Health) -> Iterator[str]:
    totals = health.summary()
    span = f"{_format_time(health.start_ms)} to {_format_time(health.end_ms)}, {format_duration(health.seconds)}"
    yield f'<p class="soft">{health.records:,} records of {escape(str(health.path))}<br>{span}</p>'
    yield html.verdict(health.verdict, good=health.is_sound)
    yield html.cards(_cards(totals))
    yield "<h2>Partitions in trouble</h2>"
    yield from _trouble(health)
    yield "<h2>ISR changes</h2>"
    yield from _changes(health)
    yield "<h2>Brokers</h2>"
    yield from _brokers(health)
    yield "<h2>Elections</h2>"
    yield from _elections(health)
    yield "<h2>Causes</h2>"
    rows = health.tables.causes.slice(0, MAX_CAUSES).to_pylist()
    yield html.table(
        ("change", "how", "cause", "decided by", "times"),
        [(_words(row["kind"]), row["how"], row["cause"], row["by"], row["times"]) for row in rows],
    )
    yield "<h2>Most affected partitions</h2>"
    yield from _partitions(health)
    yield from _last_events(health)


def _cards(totals: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    yield "partitions", totals["partitions"], ""
    for name, text, kind in (
        ("under_replicated_s", "under-replicated", "warn"),
        ("under_min_isr_s", "under MinISR", "bad"),
        ("offline_s", "without a leader", "bad"),
    ):
        yield f"{text}, all partitions", format_duration(totals[name]), kind if totals[name] else ""
    yield "ISR shrinks / expands", f"{totals['isr_shrinks']:,} / {totals['isr_expands']:,}", ""
    yield "ISR changes per minute", format_number(totals["isr_changes_per_minute"]), ""
    yield "leader elections", totals["elections"], ""
    yield "unclean elections", totals["unclean_elections"], "bad" if totals["unclean_elections"] else ""
    yield "brokers fenced", totals["fencings"], "warn" if totals["fencings"] else ""
    yield "controller elections", totals["controller_elections"], ""


def _trouble(health: Health) -> Iterator[str]:
    for flag, text, kind in (
        ("under_replicated", "under-replicated", "warn"),
        ("under_min_isr", "under MinISR", "bad"),
        ("offline", "without a leader", "bad"),
    ):
        levels = bucket_levels(health.tables.spans, flag, health.start_ms, health.end_ms, BUCKETS)
        yield html.row(f"{text}, at most {int(levels.max(initial=0))}", svg.area(levels.tolist(), kind))
    yield _axis(health)


def _changes(health: Health) -> Iterator[str]:
    expands, shrinks = (
        bucket_counts(_times(health, kind), health.start_ms, health.end_ms, BUCKETS)
        for kind in (kinds.EXPAND, kinds.SHRINK)
    )
    most = max(expands.max(initial=0), shrinks.max(initial=0))
    plot = svg.mirrored(expands.tolist(), shrinks.tolist(), kinds=("main", "warn"))
    yield html.row(f"at most {most} in {format_duration(health.seconds / BUCKETS)}", plot)
    yield _axis(health)
    yield html.keys(("main", "expands, upwards"), ("warn", "shrinks, downwards"))


def _brokers(health: Health) -> Iterator[str]:
    rows = health.tables.brokers.sort_by([("broker", "ascending"), ("from", "ascending")]).to_pylist()
    for broker in sorted({row["broker"] for row in rows}):
        own = [row for row in rows if row["broker"] == broker]
        bars = [_bar(health, span, _STATES[span["state"]], span["state"]) for span in own]
        yield html.row(f"broker {broker}", svg.lane(bars))
    yield _axis(health)
    yield html.keys(("good", "up"), ("warn", "shutting down"), ("bad", "fenced"))


def _elections(health: Health) -> Iterator[str]:
    for label, kind, style in (
        ("leaders", kinds.ELECTION, "main"),
        ("lost leaders", kinds.NO_LEADER_EVENT, "warn"),
        ("controllers", kinds.CONTROLLER, "main"),
    ):
        rows = _of_kind(health, kind).to_pylist()
        marks = [
            svg.Mark(_at(health, event["time"]), "bad" if event["how"] == "unclean" else style, _describe_event(event))
            for event in rows
        ]
        yield html.row(label, svg.lane([], marks))
    yield _axis(health)
    unclean = [event for event in _of_kind(health, kinds.ELECTION).to_pylist() if event["how"] == "unclean"]
    if unclean:
        yield "<p>Unclean elections, each of which may have lost acknowledged records:</p><ul>"
        yield (
            "".join(
                f"<li>{_format_time(to_ms(event['time']))} {escape(_describe_event(event))}</li>"
                for event in unclean[:MAX_PARTITIONS]
            )
            + "</ul>"
        )
    yield html.keys(("main", "clean"), ("bad", "unclean"), ("warn", "no leader could be elected"))


def _partitions(health: Health) -> Iterator[str]:
    table = health.tables.partitions
    order = [(name, "descending") for name in ("offline_s", "under_min_isr_s", "under_replicated_s", "peak_per_minute")]
    is_internal = pc.is_in(table["topic"], value_set=pa.array(INTERNAL_TOPICS))
    parts = [table.filter(pc.invert(is_internal)).sort_by(order), table.filter(is_internal).sort_by(order)]
    worst = pa.concat_tables(parts).slice(0, MAX_PARTITIONS).to_pylist()
    spans = health.tables.spans
    for row in worst:
        is_own = pc.and_(pc.equal(spans["topic"], row["topic"]), pc.equal(spans["partition"], row["partition"]))
        own = spans.filter(is_own).to_pylist()
        bars = [_bar(health, span, _style(span), _describe_span(span)) for span in own]
        yield html.row(f"{row['topic']}-{row['partition']}", svg.lane(bars))
    yield _axis(health)
    yield html.keys(("good", "all in sync"), ("warn", "under-replicated"), ("bad", "under MinISR or without a leader"))
    columns = [name for name in table.column_names if name not in ("topic", "partition")]
    rows = [(f"{row['topic']}-{row['partition']}", *(row[name] for name in columns)) for row in worst]
    yield html.details("the same in numbers", html.table(("partition", *map(_words, columns)), rows))


def _last_events(health: Health) -> Iterator[str]:
    events = health.tables.events
    rows = events.slice(max(0, events.num_rows - MAX_EVENTS)).to_pylist()
    cells = [
        (_format_time(to_ms(event["time"])), event["offset"], _words(event["kind"]), _describe_event(event))
        for event in rows
    ]
    what = f"the last {len(rows)} of {events.num_rows:,} events"
    yield "<h2>Events</h2>" + html.details(what, html.table(("time", "offset", "what", ""), cells))


# --- formatting ------------------------------------------------------------------------------------------------------


def _describe_event(event: dict[str, Any]) -> str:
    where = "" if event["topic"] is None else event["topic"]
    where += "" if event["partition"] is None else f"-{event['partition']}"
    broker = "" if event["broker"] in (None, -1) else f"broker {event['broker']}"
    members = f"brokers {', '.join(map(str, event['members']))}" if event["members"] else ""
    isr = f"ISR {', '.join(map(str, event['isr'])) or 'empty'}" if event["partition"] is not None else ""
    return " · ".join(filter(None, (where, broker, members, isr, event["how"], event["cause"])))


def _describe_span(span: dict[str, Any]) -> str:
    isr = ", ".join(map(str, span["isr"])) or "empty"
    leader = "no leader" if span["leader"] < 0 else f"leader {span['leader']} epoch {span['leader_epoch']}"
    return f"{leader}, ISR {isr} of {len(span['replicas'])}, MinISR {span['min_isr']}"


def _style(span: dict[str, Any]) -> str:
    return "bad" if span["under_min_isr"] or span["offline"] else "warn" if span["under_replicated"] else "good"


def _bar(health: Health, span: dict[str, Any], kind: str, text: str) -> svg.Bar:
    lasted = format_duration((to_ms(span["to"]) - to_ms(span["from"])) / 1_000)
    return svg.Bar(_at(health, span["from"]), _at(health, span["to"]), kind, f"{text}; {lasted}")


def _of_kind(health: Health, kind: str) -> pa.Table:
    events = health.tables.events
    return events.filter(pc.equal(events["kind"], kind))


def _times(health: Health, kind: str) -> Any:
    return np.asarray(_of_kind(health, kind)["time"].cast(pa.int64()))


def _at(health: Health, when: datetime) -> float:
    return (to_ms(when) - health.start_ms) / max(health.end_ms - health.start_ms, 1)


def _axis(health: Health) -> str:
    middle = (health.start_ms + health.end_ms) // 2
    return html.times(_format_time(health.start_ms), _format_clock(middle), _format_clock(health.end_ms))


def _format_time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d %H:%M:%S}"


def _format_clock(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%H:%M:%S}"


def _words(name: str) -> str:
    return name.replace("_", " ").replace(" s", " (s)") if name.endswith("_s") else name.replace("_", " ")
