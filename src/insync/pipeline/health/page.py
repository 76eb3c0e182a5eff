"""The health of a cluster on one page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from insync.pipeline.health import history as kinds
from insync.pipeline.health.job import Health, to_ms
from insync.pipeline.health.tables import bucket_counts, bucket_levels
from insync.pipeline.report import page as html
from insync.pipeline.report import svg

BUCKETS = 240
WORST = 30
MOST_CAUSES = 40
MOST_EVENTS = 500
_STATES = {kinds.UP: "good", kinds.LEAVING: "warn", kinds.DOWN: "bad", kinds.ABSENT: "idle"}


def render(found: Health) -> str:
    return html.page("Health of the replicas", _parts(found))


def _parts(found: Health) -> Iterator[str]:
    totals = found.summary()
    span = f"{_when(found.start_ms)} to {_when(found.end_ms)}, {_lasting(found.seconds)}"
    yield f'<p class="soft">{found.records:,} records of {escape(str(found.path))}<br>{span}</p>'
    yield html.verdict(found.verdict, good=found.sound)
    yield html.cards(_cards(totals))
    yield "<h2>Partitions in trouble</h2>"
    yield from _trouble(found)
    yield "<h2>Changes of ISRs</h2>"
    yield from _changes(found)
    yield "<h2>Brokers</h2>"
    yield from _brokers(found)
    yield "<h2>Elections</h2>"
    yield from _elections(found)
    yield "<h2>Who caused what</h2>"
    rows = found.tables.causes.slice(0, MOST_CAUSES).to_pylist()
    yield html.table(
        ("what", "how", "why", "decided by", "times"),
        [(_words(each["kind"]), each["how"], each["cause"], each["by"], each["times"]) for each in rows],
    )
    yield "<h2>Partitions that had it worst</h2>"
    yield from _partitions(found)
    yield from _last_events(found)


def _cards(totals: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    yield "partitions", totals["partitions"], ""
    for name, text, kind in (
        ("under_replicated_s", "under-replicated", "warn"),
        ("under_min_isr_s", "under MinISR", "bad"),
        ("offline_s", "without a leader", "bad"),
    ):
        yield f"{text}, all partitions", _lasting(totals[name]), kind if totals[name] else ""
    yield "shrinks / expands of ISRs", f"{totals['isr_shrinks']:,} / {totals['isr_expands']:,}", ""
    yield "ISR changes a minute", _number(totals["isr_changes_per_minute"]), ""
    yield "leader elections", totals["elections"], ""
    yield "of them unclean", totals["unclean_elections"], "bad" if totals["unclean_elections"] else ""
    yield "brokers fenced", totals["fencings"], "warn" if totals["fencings"] else ""
    yield "controller elections", totals["controller_elections"], ""


def _trouble(found: Health) -> Iterator[str]:
    for flag, text, kind in (
        ("under_replicated", "under-replicated", "warn"),
        ("under_min_isr", "under MinISR", "bad"),
        ("offline", "without a leader", "bad"),
    ):
        levels = bucket_levels(found.tables.spans, flag, found.start_ms, found.end_ms, BUCKETS)
        yield html.row(f"{text}, at most {int(levels.max(initial=0))}", svg.area(levels.tolist(), kind))
    yield _axis(found)


def _changes(found: Health) -> Iterator[str]:
    expands, shrinks = (
        bucket_counts(_times(found, kind), found.start_ms, found.end_ms, BUCKETS)
        for kind in (kinds.EXPAND, kinds.SHRINK)
    )
    most = max(expands.max(initial=0), shrinks.max(initial=0))
    plot = svg.mirrored(expands.tolist(), shrinks.tolist(), kinds=("main", "warn"))
    yield html.row(f"at most {most} in {_lasting(found.seconds / BUCKETS)}", plot)
    yield _axis(found)
    yield html.keys(("main", "expands, upwards"), ("warn", "shrinks, downwards"))


def _brokers(found: Health) -> Iterator[str]:
    rows = found.tables.brokers.sort_by([("broker", "ascending"), ("from", "ascending")]).to_pylist()
    for broker in sorted({each["broker"] for each in rows}):
        own = [each for each in rows if each["broker"] == broker]
        bars = [_bar(found, each, _STATES[each["state"]], each["state"]) for each in own]
        yield html.row(f"broker {broker}", svg.lane(bars))
    yield _axis(found)
    yield html.keys(("good", "up"), ("warn", "shutting down"), ("bad", "fenced"))


def _elections(found: Health) -> Iterator[str]:
    for label, kind, style in (
        ("leaders", kinds.ELECTION, "main"),
        ("lost leaders", kinds.NO_LEADER_EVENT, "warn"),
        ("controllers", kinds.CONTROLLER, "main"),
    ):
        rows = _of_kind(found, kind).to_pylist()
        marks = [
            svg.Mark(_at(found, each["time"]), "bad" if each["how"] == "unclean" else style, _tell(each))
            for each in rows
        ]
        yield html.row(label, svg.lane([], marks))
    yield _axis(found)
    unclean = [each for each in _of_kind(found, kinds.ELECTION).to_pylist() if each["how"] == "unclean"]
    if unclean:
        yield "<p>Unclean elections, each of which may have lost acknowledged records:</p><ul>"
        yield (
            "".join(f"<li>{_when(to_ms(event['time']))} {escape(_tell(event))}</li>" for event in unclean[:WORST])
            + "</ul>"
        )
    yield html.keys(("main", "clean"), ("bad", "unclean"), ("warn", "no leader could be elected"))


def _partitions(found: Health) -> Iterator[str]:
    table = found.tables.partitions
    order = [(name, "descending") for name in ("offline_s", "under_min_isr_s", "under_replicated_s", "peak_per_minute")]
    worst = table.sort_by(order).slice(0, WORST).to_pylist()
    spans = found.tables.spans
    for each in worst:
        mine = pc.and_(pc.equal(spans["topic"], each["topic"]), pc.equal(spans["partition"], each["partition"]))
        own = spans.filter(mine).to_pylist()
        bars = [_bar(found, span, _style(span), _describe(span)) for span in own]
        yield html.row(f"{each['topic']}-{each['partition']}", svg.lane(bars))
    yield _axis(found)
    yield html.keys(("good", "all in sync"), ("warn", "under-replicated"), ("bad", "under MinISR or without a leader"))
    columns = [name for name in table.column_names if name not in ("topic", "partition")]
    rows = [(f"{each['topic']}-{each['partition']}", *(each[name] for name in columns)) for each in worst]
    yield html.folded("the same in numbers", html.table(("partition", *map(_words, columns)), rows))


def _last_events(found: Health) -> Iterator[str]:
    events = found.tables.events
    rows = events.slice(max(0, events.num_rows - MOST_EVENTS)).to_pylist()
    cells = [(_when(to_ms(each["time"])), each["offset"], _words(each["kind"]), _tell(each)) for each in rows]
    what = f"the last {len(rows)} of {events.num_rows:,} events"
    yield "<h2>Events</h2>" + html.folded(what, html.table(("time", "offset", "what", ""), cells))


# --- words and places ------------------------------------------------------------------------------------------------


def _tell(event: dict[str, Any]) -> str:
    where = "" if event["topic"] is None else event["topic"]
    where += "" if event["partition"] is None else f"-{event['partition']}"
    broker = "" if event["broker"] in (None, -1) else f"broker {event['broker']}"
    members = f"brokers {', '.join(map(str, event['members']))}" if event["members"] else ""
    isr = f"ISR {', '.join(map(str, event['isr'])) or 'empty'}" if event["partition"] is not None else ""
    return " · ".join(filter(None, (where, broker, members, isr, event["how"], event["cause"])))


def _describe(span: dict[str, Any]) -> str:
    isr = ", ".join(map(str, span["isr"])) or "empty"
    leader = "no leader" if span["leader"] < 0 else f"leader {span['leader']} epoch {span['leader_epoch']}"
    return f"{leader}, ISR {isr} of {len(span['replicas'])}, MinISR {span['min_isr']}"


def _style(span: dict[str, Any]) -> str:
    return "bad" if span["under_min_isr"] or span["offline"] else "warn" if span["under_replicated"] else "good"


def _bar(found: Health, span: dict[str, Any], kind: str, text: str) -> svg.Bar:
    lasted = _lasting((to_ms(span["to"]) - to_ms(span["from"])) / 1_000)
    return svg.Bar(_at(found, span["from"]), _at(found, span["to"]), kind, f"{text}; {lasted}")


def _of_kind(found: Health, kind: str) -> pa.Table:
    events = found.tables.events
    return events.filter(pc.equal(events["kind"], kind))


def _times(found: Health, kind: str) -> Any:
    return np.asarray(_of_kind(found, kind)["time"].cast(pa.int64()))


def _at(found: Health, when: datetime) -> float:
    return (to_ms(when) - found.start_ms) / max(found.end_ms - found.start_ms, 1)


def _axis(found: Health) -> str:
    middle = (found.start_ms + found.end_ms) // 2
    return html.times(_when(found.start_ms), _clock(middle), _clock(found.end_ms))


def _when(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d %H:%M:%S}"


def _clock(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%H:%M:%S}"


def _lasting(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} s"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _words(name: str) -> str:
    return name.replace("_", " ").replace(" s", " (s)") if name.endswith("_s") else name.replace("_", " ")
