"""Clients' histories, judged: what was sent, acknowledged, read and listed, against the log that it left behind.

Spark divides a history of any size by partition; the task that has all of one sieves its columns (`audit_suspects`) and
hands to the judge (`testing.verdict`, on `properties.recorded`) what is left. A small partition goes to the judge as it
is, whatever the sieve says. Of a large one the judge sees the neighbourhood of each suspect.

Tasks get their events unsorted: a stable order of whole columns takes numpy less time than Spark one of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from insync.history import history_file, verdict
from insync.pipeline.audit import history_files as audit_lines
from insync.pipeline.audit import prefilter as audit_suspects
from insync.pipeline.audit.findings import EMPTY, MALFORMED, Finding
from insync.pipeline.audit.prefilter import ACK, CODES, END, FAIL, LIST, LOG, SEND, Events, Suspects
from insync.pipeline.report import progress as report_watch
from insync.properties import recorded
from insync.spark.worker import prepare_worker

DDL = (
    "kind string, time bigint, client string, topic string, partition int, offset bigint, epoch int, producer bigint, "
    "sequence bigint, crc bigint, started bigint, error string"
)
_ANSWER = (
    "topic string, partition int, rows bigint, judged bigint, sent bigint, acked bigint, failed bigint, "
    "findings array<struct<kind: string, property: string, offset: bigint, detail: string, file: string, text: string>>"
)
_ANSWER_TYPES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("rows", "judged", "sent", "acked", "failed")),
        (
            "findings",
            pa.list_(
                pa.struct(
                    [
                        *(("kind", pa.string()), ("property", pa.string()), ("offset", pa.int64())),
                        *((name, pa.string()) for name in ("detail", "file", "text")),
                    ]
                )
            ),
        ),
    ]
)
MOST_MALFORMED = 100
"""Of those that name the same partition, or none: a file of something else need not be told line by line."""
_FINDING = ("kind", "property", "offset", "detail", "file", "text")
SMALL = 20_000
"""Events of a partition that the judge sees all of, suspects or not."""
LARGE = 1_000_000
"""From here on it sees only neighbourhoods."""
NEAR = 500
"""Offsets to both sides of a suspect."""
MOST_WINDOWS = 200
MOST_FINDINGS = 10_000
_NUMBERS = ("time", "offset", "epoch", "producer", "sequence", "crc", "started")


@dataclass
class HistoryAudit:
    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    events: int = 0
    judged: int = 0
    """Events that the judge saw; the sieve found nothing about the others."""
    sent: int = 0
    acked: int = 0
    failed: int = 0


def load(spark: SparkSession, path: str) -> DataFrame:
    """JSON lines as the live checker writes them, or Parquet with the same columns; `_file`: where a row is from."""
    audit_lines.check(path)
    file = f.col("_metadata.file_path").alias("_file")
    if path.rstrip("/").endswith((".parquet", ".parq")) or _has_parquet(path):
        found = spark.read.parquet(path)
        missing = [name for name in ("kind", "time", "topic", "partition") if name not in found.columns]
        if missing:
            raise ValueError(f"{path} has no column '{missing[0]}': a history has {', '.join(history_file.COLUMNS)}")
        types = dict(part.split() for part in DDL.split(", "))
        given = [f.col(name) if name in found.columns else f.lit(None) for name in history_file.COLUMNS]
        columns = (
            column.cast(types[name]).alias(name) for name, column in zip(history_file.COLUMNS, given, strict=True)
        )
        return found.select(*columns, file)
    schema = f"{DDL}, _corrupt string"
    return spark.read.schema(schema).option("columnNameOfCorruptRecord", "_corrupt").json(path).select("*", file)


def audit(
    spark: SparkSession, frame: DataFrame, tell: report_watch.Tell = report_watch.silent, *, name: str = ""
) -> HistoryAudit:
    """`name`: of the history, for a finding that is about all of it."""
    columns = [f.col(name) for name in history_file.COLUMNS if name not in ("kind", "client", "error")]
    seen = f.when(f.col("kind").isin(history_file.READ, history_file.LIST, history_file.RESET), f.col("client"))
    damaged = f.col("_corrupt").isNotNull() if "_corrupt" in frame.columns else f.lit(False)
    unknown = damaged | f.col("kind").isNull() | ~f.col("kind").isin(*history_file.KINDS)
    rows = frame.withColumn("code", f.when(unknown, f.lit(-1)).otherwise(_code()).cast("tinyint"))
    odd = unknown | f.col("topic").isNull() | f.col("partition").isNull()
    event = f.to_json(f.struct(*history_file.COLUMNS))
    text = f.when(damaged, f.col("_corrupt")).otherwise(event) if "_corrupt" in frame.columns else event
    file = f.col("_file") if "_file" in frame.columns else f.lit(None).cast("string")
    narrow = rows.select(
        *columns,
        f.col("code"),
        seen.alias("client"),
        f.when(damaged, f.lit(True)).alias("damaged"),
        f.when(odd, f.substring(text, 1, audit_lines.TEXT)).alias("text"),
        f.when(odd, file).alias("file"),
    )
    judged = narrow.repartition("topic", "partition").mapInArrow(_judge_each, _ANSWER)
    answers = report_watch.watched(spark, "partitions of the history", judged.collect, tell)
    found = _summed(answers)
    if not found.events:
        found.findings.append(Finding(EMPTY, "", None, "", -1, -1, name, None, "there is no event in it"))
    return found


def _code() -> Any:
    pairs = [f.lit(part) for kind, code in CODES.items() for part in (kind, code)]
    return f.coalesce(f.create_map(*pairs)[f.col("kind")], f.lit(-1))


def _summed(answers: list[Any]) -> HistoryAudit:
    found = HistoryAudit()
    texts: list[str | None] = []
    for row in sorted(answers, key=lambda row: (row["topic"] or "", row["partition"] or 0)):
        found.partitions += row["topic"] is not None
        found.events += row["rows"]
        found.judged += row["judged"]
        found.sent += row["sent"]
        found.acked += row["acked"]
        found.failed += row["failed"]
        topic, partition = row["topic"] or "", -1 if row["partition"] is None else row["partition"]
        for kind, rule, offset, detail, file, text in row["findings"]:
            found.findings.append(Finding(kind, rule, None, topic, partition, offset, file or "", None, detail))
            texts.append(text)
    found.findings = list(_with_lines(found.findings, texts))
    return found


def _with_lines(findings: list[Finding], texts: list[str | None]) -> Iterator[Finding]:
    """Where the text of a line is known, its number; lines that say the same get theirs in turn."""
    wanted: dict[str, list[str]] = {}
    for each, text in zip(findings, texts, strict=True):
        if text is not None:
            wanted.setdefault(each.file, []).append(text)
    numbers = {file: audit_lines.numbers(file, known) for file, known in wanted.items()}
    for each, text in zip(findings, texts, strict=True):
        lines = numbers[each.file][text] if text is not None else []
        said = f"line {lines.pop(0)} is {each.detail}" if lines else each.detail
        yield each._replace(file=audit_lines.local(each.file), detail=said)


# --- one partition, on an executor -----------------------------------------------------------------------------------


def _judge_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All events of some partitions, in any order."""
    prepare_worker()
    if held := [batch for batch in batches if batch.num_rows]:
        table = pa.Table.from_batches(held)
        held.clear()
        for part in by_partition(table):
            yield from judge(part).to_batches()


def by_partition(table: pa.Table) -> Iterator[pa.Table]:
    topic = np.asarray(pc.fill_null(table["topic"].combine_chunks().dictionary_encode().indices, -1), np.int64)
    number = np.asarray(pc.fill_null(table["partition"], -1), np.int64)
    key = topic << 32 | number & 0xFFFFFFFF
    if (key == key[0]).all():
        yield table
        return
    order = np.argsort(key, kind="stable")
    table, key = table.take(order), key[order]
    edges = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)]
    for start, end in pairwise(edges):
        yield table.slice(start, end - start)


def judge(table: pa.Table) -> pa.Table:
    """All events of one partition, in any order."""
    topic, partition = table["topic"][0].as_py(), table["partition"][0].as_py()
    bad = pc.less(table["code"], 0)
    malformed = table.filter(bad)
    good = table.filter(pc.invert(bad)) if malformed.num_rows else table
    if topic is None or partition is None:
        good, malformed = good.slice(0, 0), table
    events, names = columns_of(good)
    told = [(MALFORMED, "", -1, *_what_is_wrong(row)) for row in malformed.slice(0, MOST_MALFORMED).to_pylist()]
    findings: list[Any] = []
    seen = 0
    if len(events):
        seen, findings = _judged(topic, partition, events, names)
    row = {
        "topic": topic,
        "partition": partition,
        "rows": table.num_rows,
        "judged": seen,
        "findings": [
            dict(zip(_FINDING, each, strict=True)) for each in (*told, *((*each, None, None) for each in findings))
        ],
    }
    counts = {
        name: int((events.kind == code).sum()) for name, code in (("sent", SEND), ("acked", ACK), ("failed", FAIL))
    }
    return pa.Table.from_pylist([row | counts], _ANSWER_TYPES)


def columns_of(table: pa.Table) -> tuple[Events, list[str]]:
    """The events in the order of time, and the names of the clients."""
    client = pc.fill_null(table["client"], "").combine_chunks().dictionary_encode()
    if isinstance(client, pa.ChunkedArray):
        client = client.combine_chunks()
    numbers = {name: np.asarray(pc.fill_null(table[name], -1).cast(pa.int64())) for name in _NUMBERS}
    kind = np.asarray(table["code"])
    order = np.lexsort((kind != SEND, numbers["time"]))
    kind, numbers = kind[order], {name: column[order] for name, column in numbers.items()}
    ids = audit_suspects.numbered(numbers["producer"], numbers["sequence"])
    events = Events(kind=kind, client=np.asarray(client.indices)[order], id=ids, **numbers)
    return events, client.dictionary.to_pylist()


def _judged(topic: str, partition: int, events: Events, names: list[str]) -> tuple[int, list[Any]]:
    """(how many events the judge saw, what it found)."""
    events, findings = _consistent(events)
    suspicious = audit_suspects.suspects(events)
    if not suspicious and len(events) > SMALL:
        return 0, findings
    seen = 0
    for part in [Part(events)] if len(events) <= LARGE else _parts(events, suspicious):
        seen += len(part.events)
        given = list(_as_events(topic, partition, part.events, names))
        for each in verdict.check_partition(topic, partition, given, start=part.start).findings:
            nameless = each.offset < 0 and each.property in ("S9", "L5")
            if not nameless and (each.property in part.rules or not part.rules):
                kind = recorded.MOVED if part.rules and _moved(events, each) else each.kind
                findings.append((kind, each.property, each.offset, each.detail))
    if suspicious.ids:
        findings += _named(events, suspicious)
    return seen, list(dict.fromkeys(findings))[:MOST_FINDINGS]


def _moved(events: Events, finding: recorded.Finding) -> bool:
    """Whether what was lost from an offset is at another one, further away than a window is wide."""
    if finding.kind != recorded.LOST:
        return False
    acked = events.id[(events.kind == ACK) & (events.offset == finding.offset)]
    values = events.crc[(events.kind == SEND) & np.isin(events.id, acked)]
    return bool(len(values)) and bool(np.isin(values, events.crc[events.kind == LOG]).any())


def _consistent(events: Events) -> tuple[Events, list[Any]]:
    """Without what no judge can say anything about: answers to what was not sent before, and second sends."""
    places = np.flatnonzero(events.kind == SEND)
    ids, first = np.unique(events.id[places], return_index=True)
    answers = np.flatnonzero((events.kind == ACK) | (events.kind == FAIL))
    at = np.searchsorted(ids, events.id[answers])
    known = (at < len(ids)) & (ids[np.clip(at, 0, len(ids) - 1)] == events.id[answers]) if len(ids) else at < 0
    sent = places[first[np.clip(at, 0, len(ids) - 1)]] if len(ids) else answers
    unsent = answers[~known | (sent > answers)]
    again = np.delete(places, first)
    odd = {"was answered and not sent before": unsent, "was sent twice": again}
    told = [
        (MALFORMED, "", -1, f"sequence {s} of producer {p} {what}")
        for what, rows in odd.items()
        for p, s in _pairs(events.where(rows[:100]))
    ]
    if not told:
        return events, []
    return events.where(np.delete(np.arange(len(events)), np.concatenate((unsent, again)))), told


def _named(events: Events, suspicious: Suspects) -> Iterator[tuple[str, str, int, str]]:
    """Judges count operations; who wants to find one needs its producer and sequence."""
    chosen = events.where(np.isin(events.id, list(suspicious.ids)) & (events.kind == SEND))
    acked = np.isin(chosen.id, events.of(ACK).id)
    for (producer, sequence), answered in zip(_pairs(chosen), acked.tolist(), strict=True):
        kind, rule = (recorded.LOST, "S9") if answered else (recorded.UNANSWERED, "L5")
        what = "was acknowledged and is nowhere in the log" if answered else "was neither acknowledged nor refused"
        yield (kind, rule, -1, f"sequence {sequence} of producer {producer} {what}")


def _pairs(events: Events) -> list[tuple[int, int]]:
    return list(zip(events.producer.tolist(), events.sequence.tolist(), strict=True))


@dataclass(frozen=True)
class Part:
    """Some of a partition's events, and about which properties they tell the truth; all of them, if none is named."""

    events: Events
    start: int = 0
    rules: tuple[str, ...] = ()


def _parts(events: Events, suspicious: Suspects) -> Iterator[Part]:
    if suspicious.unread:
        yield Part(events.where(events.kind == END))  # there is none, which is what the judge says
        return
    if suspicious.ordered or suspicious.lists:
        yield Part(_scattered(events, suspicious), rules=("S6", "S11", "S13"))
    for low, high in _neighbourhoods(sorted(suspicious.offsets))[:MOST_WINDOWS]:
        yield Part(_window(events, low, high), low, rules=("S8", "S9"))


def _window(events: Events, low: int, high: int) -> Events:
    """All that speaks of these offsets, and the sends of what is there."""
    about = (events.offset >= low) & (events.offset < high) & (events.kind != END) & (events.kind != LIST)
    sends = (events.kind == SEND) & np.isin(events.id, events.id[about])
    return _ended(events.where(about | sends), events, high)


def _scattered(events: Events, suspicious: Suspects) -> Events:
    """What is out of order and what it is behind, without anything between them."""
    last = int(events.offset[events.kind == LOG].max(initial=-1))
    chosen = np.isin(events.offset, [*suspicious.ordered, last]) & ((events.kind == LOG) | (events.kind == ACK))
    sends = (events.kind == SEND) & np.isin(events.id, events.id[chosen & (events.kind == ACK)])
    lists = (events.kind == LIST) if suspicious.lists else np.zeros(len(events), bool)
    return _ended(events.where(chosen | sends | lists), events, last + 1)


def _ended(part: Events, events: Events, end: int) -> Events:
    last = events.where(np.flatnonzero(events.kind == END)[-1:])
    closing = vars(last) | {"offset": np.minimum(last.offset, end)}
    return Events(**{name: np.concatenate((getattr(part, name), closing[name])) for name in closing})


def _neighbourhoods(offsets: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in offsets:
        low, high = max(0, offset - NEAR), offset + NEAR
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _as_events(topic: str, partition: int, events: Events, names: list[str]) -> Iterator[history_file.Event]:
    columns = ("kind", "time", "client", "offset", "epoch", "producer", "sequence", "crc", "started")
    for kind, time, client, *rest in zip(*(getattr(events, name).tolist() for name in columns), strict=True):
        yield history_file.Event(history_file.KINDS[kind], time, names[client], topic, partition, *rest)


def _what_is_wrong(row: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """(in words, in which file, how the line begins)."""
    what = "an event of an unknown kind"
    if row["damaged"]:
        what = "no event"
    elif row["topic"] is None or row["partition"] is None:
        what = "an event without a topic or a partition"
    return f"{what}: {row['text']}", row["file"], row["text"]


def _has_parquet(path: str) -> bool:
    directory = Path(path)
    return directory.is_dir() and any(directory.glob("*.parquet"))
