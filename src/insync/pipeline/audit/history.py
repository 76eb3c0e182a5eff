"""Checks clients' histories: what was sent, acknowledged, read and listed, against the log at the end.

Spark divides a history of any size by partition. A task that has all events of one filters its columns (`prefilter`)
and passes the rest to the checker (`history.verdict`, on `properties.history_checker`). A small partition goes to the
checker whole; of a large one it gets the neighbourhood of each suspect. A partition of more than PART_EVENTS events is
divided by offsets (`history_parts`), so that its size does not matter for the memory of a task.

Tasks get their events unsorted: numpy sorts whole columns faster than Spark sorts rows. Parts are sorted by their
number only, so that a task holds one at a time.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from insync.history import history_file, verdict
from insync.pipeline.audit.findings import EMPTY, MALFORMED, AuditResult, Finding
from insync.pipeline.audit.history_files import LINE_PREFIX, check_history, find_lines, to_local_name
from insync.pipeline.audit.history_parts import bounds_of, rename_repeats, stitch, summarize
from insync.pipeline.audit.prefilter import (
    ACK,
    CODES,
    END,
    FAIL,
    LIST,
    LOG,
    SEND,
    Bounds,
    Events,
    Suspects,
    find_suspects,
    number_records,
)
from insync.pipeline.report.progress import OnProgress, ignore_progress, run_with_progress
from insync.properties import history_checker
from insync.spark.worker import prepare_worker

DDL = (
    "kind string, time bigint, client string, topic string, partition int, offset bigint, epoch int, producer bigint, "
    "sequence bigint, crc bigint, started bigint, error string"
)
_RESULT = (
    "topic string, partition int, rows bigint, checked bigint, sent bigint, acked bigint, failed bigint, "
    "findings array<struct<kind: string, property: string, offset: bigint, detail: string, file: string, text: string>>"
)
_RESULT_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("rows", "checked", "sent", "acked", "failed")),
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
MAX_MALFORMED = 100
"""Findings per partition: a file of something else would have one per line."""
_FINDING = ("kind", "property", "offset", "detail", "file", "text")
SMALL = 20_000
"""Up to this many events of a partition, the checker sees all."""
LARGE = 1_000_000
"""Above this the checker sees only neighbourhoods."""
PART_EVENTS = 2_000_000
"""A partition with more events is divided."""
PART_OFFSETS = 250_000
"""Of one part."""
UNPLACED_PARTS = 16
"""Parts for the records without a known offset."""
NEAR = 500
"""Offsets on both sides of a suspect."""
MAX_WINDOWS = 200
MAX_FINDINGS = 10_000
_NUMBERS = ("time", "offset", "epoch", "producer", "sequence", "crc", "started")


@dataclass
class HistoryAudit(AuditResult):
    partitions: int = 0
    events: int = 0
    checked: int = 0
    """Events that the checker saw; the prefilter passed the others."""
    sent: int = 0
    acked: int = 0
    failed: int = 0

    def __add__(self, other: HistoryAudit) -> HistoryAudit:
        return HistoryAudit(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def load_history(spark: SparkSession, path: str) -> DataFrame:
    """JSON lines as `insync chaos` writes them, or Parquet with the same columns. Column `_file` names the file."""
    check_history(path)
    file = f.col("_metadata.file_path").alias("_file")
    if path.rstrip("/").endswith((".parquet", ".parq")) or _has_parquet(path):
        rows = spark.read.parquet(path)
        missing = [name for name in ("kind", "time", "topic", "partition") if name not in rows.columns]
        if missing:
            raise ValueError(f"{path} has no column '{missing[0]}': a history has {', '.join(history_file.COLUMNS)}")
        types = dict(part.split() for part in DDL.split(", "))
        given = [f.col(name) if name in rows.columns else f.lit(None) for name in history_file.COLUMNS]
        columns = (
            column.cast(types[name]).alias(name) for name, column in zip(history_file.COLUMNS, given, strict=True)
        )
        return rows.select(*columns, file)
    schema = f"{DDL}, _corrupt string"
    return spark.read.schema(schema).option("columnNameOfCorruptRecord", "_corrupt").json(path).select("*", file)


def audit_history(
    spark: SparkSession, frame: DataFrame, on_progress: OnProgress = ignore_progress, *, name: str = ""
) -> HistoryAudit:
    """`name` is the history's, for a finding about all of it."""
    columns = [f.col(name) for name in history_file.COLUMNS if name not in ("kind", "client", "error")]
    client = f.when(f.col("kind").isin(history_file.READ, history_file.LIST, history_file.RESET), f.col("client"))
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
        client.alias("client"),
        f.when(damaged, f.lit(True)).alias("damaged"),
        f.when(odd, f.substring(text, 1, LINE_PREFIX)).alias("text"),
        f.when(odd, file).alias("file"),
    )
    large = _find_large(spark, narrow, on_progress)
    if large:
        is_large = f.struct("topic", "partition").isin([f.struct(f.lit(t), f.lit(p).cast("int")) for t, p in large])
        whole, divided = narrow.where(~f.coalesce(is_large, f.lit(False))), narrow.where(is_large)
    else:
        whole, divided = narrow, None
    checked = whole.repartition("topic", "partition").mapInArrow(_check_partitions, _RESULT)
    results: list[Any] = list(run_with_progress(spark, "partitions of the history", checked.collect, on_progress))
    if divided is not None:
        results += _check_in_parts(spark, divided, on_progress)
    audited = _sum_results(results)
    if not audited.events:
        audited.findings.append(Finding(EMPTY, "", None, "", -1, -1, name, None, "there is no event in it"))
    return audited


def _find_large(spark: SparkSession, narrow: DataFrame, on_progress: OnProgress) -> list[tuple[str, int]]:
    counts = narrow.where("topic is not null and partition is not null").groupBy("topic", "partition").count()
    large = counts.where(f.col("count") > PART_EVENTS).select("topic", "partition")
    rows = run_with_progress(spark, "events of the history", large.collect, on_progress)
    return sorted((row[0], row[1]) for row in rows)


def _check_in_parts(spark: SparkSession, rows: DataFrame, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Results as those of whole partitions, of partitions that are divided by offsets."""
    ends = {
        (row["topic"], row["partition"]): (row["last"]["offset"], row["last"]["epoch"])
        for row in rows.where(f.col("code") == END)
        .groupBy("topic", "partition")
        .agg(f.max(f.struct("time", "offset", "epoch")).alias("last"))
        .collect()
    }
    size = PART_OFFSETS
    record = Window.partitionBy("topic", "partition", "producer", "sequence")
    writes = f.col("code").isin(SEND, ACK, FAIL)
    acked = f.max(f.when((f.col("code") == ACK) & (f.col("offset") >= 0), f.col("offset"))).over(record)
    placed = rows.where(writes).withColumn("at", acked)
    others = rows.where(~writes & (f.col("code") != END)).withColumn("at", f.greatest(f.col("offset"), f.lit(0)))
    unplaced = -1 - f.pmod(f.hash("producer", "sequence"), f.lit(UNPLACED_PARTS))
    number = f.coalesce(f.floor(f.col("at") / size), unplaced).cast("int")
    parts = placed.unionByName(others).withColumn("part", number).drop("at")
    keys = ("topic", "partition", "part")
    divided = parts.repartition(*keys).sortWithinPartitions(*keys)

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for table in group_by_part(batches):
            yield from check_part(table, ends, size).to_batches()

    checked = divided.mapInArrow(check, f"{_RESULT}, summary binary")
    results = run_with_progress(spark, "parts of large partitions", checked.collect, on_progress)
    lost = _find_unplaced_losses(placed, rows)
    partitions: dict[tuple[str, int], list[Any]] = {}
    for row in results:
        partitions.setdefault((row["topic"], row["partition"]), []).append(row.asDict(recursive=True))
    return [
        _join_parts(topic, partition, own, ends.get((topic, partition)), lost.get((topic, partition), []), size)
        for (topic, partition), own in sorted(partitions.items())
    ]


def _find_unplaced_losses(placed: DataFrame, rows: DataFrame) -> dict[tuple[str, int], list[str]]:
    """Records that were acknowledged without an offset, and are nowhere in the log."""
    where = ["topic", "partition"]
    answered = placed.where((f.col("code") == ACK) & f.col("at").isNull()).select(*where, "producer", "sequence")
    sends = placed.where((f.col("code") == SEND) & f.col("at").isNull())
    candidates = sends.join(answered, [*where, "producer", "sequence"], "left_semi")
    log = rows.where(f.col("code") == LOG).select(*where, "crc")
    lost: dict[tuple[str, int], list[str]] = {}
    for row in candidates.join(log, [*where, "crc"], "left_anti").limit(MAX_FINDINGS).collect():
        text = f"sequence {row['sequence']} of producer {row['producer']} was acknowledged and is nowhere in the log"
        lost.setdefault((row["topic"], row["partition"]), []).append(text)
    return lost


def _join_parts(
    topic: str,
    partition: int,
    results: Sequence[dict[str, Any]],
    end: tuple[int, int] | None,
    lost: Sequence[str],
    size: int,
) -> dict[str, Any]:
    """One result of those of all parts of a partition, with what only all of them show."""
    names = ("rows", "checked", "sent", "acked", "failed")
    joined: dict[str, Any] = {name: sum(result[name] for result in results) for name in names}
    joined |= {"topic": topic, "partition": partition, "rows": joined["rows"] + (end is not None)}
    malformed = [finding for result in results for finding in result["findings"] if finding["kind"] == MALFORMED]
    own = [finding for result in results for finding in result["findings"] if finding["kind"] != MALFORMED]
    findings = [tuple(finding[name] for name in _FINDING[:4]) for finding in own]
    if end is None:
        unread = verdict.check_partition(topic, partition, [])
        findings = [(finding.kind, finding.property, finding.offset, finding.detail) for finding in unread.findings]
    else:
        summaries = [pickle.loads(bytes(result["summary"])) for result in results]
        findings += stitch(summaries, size, *end)
        findings += [(history_checker.LOST, "S9", -1, text) for text in lost]
        findings = rename_repeats(findings, summaries)
    unique = list(dict.fromkeys(findings))[:MAX_FINDINGS]
    joined["findings"] = [
        *(tuple(finding[name] for name in _FINDING) for finding in malformed[:MAX_MALFORMED]),
        *((*finding, None, None) for finding in unique),
    ]
    return joined


def _code() -> Any:
    pairs = [f.lit(part) for kind, code in CODES.items() for part in (kind, code)]
    return f.coalesce(f.create_map(*pairs)[f.col("kind")], f.lit(-1))


def _sum_results(results: list[Any]) -> HistoryAudit:
    audited = HistoryAudit()
    texts: list[str | None] = []
    for row in sorted(results, key=lambda row: (row["topic"] or "", row["partition"] or 0)):
        audited.partitions += row["topic"] is not None
        audited.events += row["rows"]
        audited.checked += row["checked"]
        audited.sent += row["sent"]
        audited.acked += row["acked"]
        audited.failed += row["failed"]
        topic, partition = row["topic"] or "", -1 if row["partition"] is None else row["partition"]
        for kind, rule, offset, detail, file, text in row["findings"]:
            audited.findings.append(Finding(kind, rule, None, topic, partition, offset, file or "", None, detail))
            texts.append(text)
    audited.findings = list(_add_line_numbers(audited.findings, texts))
    return audited


def _add_line_numbers(findings: list[Finding], texts: list[str | None]) -> Iterator[Finding]:
    """Of lines whose text is known; equal lines get their numbers in turn."""
    by_file: dict[str, list[str]] = {}
    for finding, text in zip(findings, texts, strict=True):
        if text is not None:
            by_file.setdefault(finding.file, []).append(text)
    numbers = {file: find_lines(file, known) for file, known in by_file.items()}
    for finding, text in zip(findings, texts, strict=True):
        lines = numbers[finding.file][text] if text is not None else []
        detail = f"line {lines.pop(0)} is {finding.detail}" if lines else finding.detail
        yield finding._replace(file=to_local_name(finding.file), detail=detail)


# --- one partition, on an executor -----------------------------------------------------------------------------------


def _check_partitions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over all events of some partitions, in any order."""
    prepare_worker()
    if nonempty := [batch for batch in batches if batch.num_rows]:
        table = pa.Table.from_batches(nonempty)
        nonempty.clear()  # frees memory
        for part in split_by_partition(table):
            yield from check_partition(part).to_batches()


def split_by_partition(table: pa.Table) -> Iterator[pa.Table]:
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


def group_by_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The events of each part; the batches are sorted by topic, partition and part."""
    held: list[pa.RecordBatch] = []
    key: tuple[Any, ...] | None = None
    for batch in batches:
        for piece in _split_sorted(batch):
            own = tuple(piece.column(name)[0].as_py() for name in ("topic", "partition", "part"))
            if held and own != key:
                yield pa.Table.from_batches(held)
                held = []
            key = own
            held.append(piece)
    if held:
        yield pa.Table.from_batches(held)


def _split_sorted(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if not batch.num_rows:
        return
    columns = [batch.column(name) for name in ("topic", "partition", "part")]
    codes = [np.asarray(pc.fill_null(column.dictionary_encode().indices, -1)) for column in columns]
    changed = np.any([np.diff(code) != 0 for code in codes], axis=0)
    for start, end in pairwise([0, *(np.flatnonzero(changed) + 1).tolist(), batch.num_rows]):
        yield batch.slice(start, end - start)


def check_part(table: pa.Table, ends: dict[tuple[str, int], tuple[int, int]], size: int) -> pa.Table:
    """`table` has all events of one part of a partition. The result has a summary for `stitch`."""
    topic, partition, part = (table[name][0].as_py() for name in ("topic", "partition", "part"))
    end = ends.get((topic, partition))
    bounds = None if end is None else bounds_of(part, size, *end)
    if part < 0 and end is not None:  # records without offsets: nothing of the log is here
        bounds = Bounds(-1, -1, *end)
    result = check_partition(table, bounds, is_part=True)
    events, names = to_events(table.filter(pc.greater_equal(table["code"], 0)))
    consistent, _ = _drop_inconsistent(events)
    summary = pickle.dumps(summarize(consistent, names, part))
    return result.append_column("summary", pa.array([summary], pa.binary()))


def check_partition(table: pa.Table, bounds: Bounds | None = None, *, is_part: bool = False) -> pa.Table:
    """`table` has all events of one partition, in any order; with `is_part`, those of a part of it."""
    topic, partition = table["topic"][0].as_py(), table["partition"][0].as_py()
    unknown = pc.less(table["code"], 0)
    malformed = table.filter(unknown)
    valid = table.filter(pc.invert(unknown)) if malformed.num_rows else table
    if topic is None or partition is None:
        valid, malformed = valid.slice(0, 0), table
    events, names = to_events(valid)
    problems = [(MALFORMED, "", -1, *_describe_malformed(row)) for row in malformed.slice(0, MAX_MALFORMED).to_pylist()]
    findings: list[Any] = []
    checked = 0
    if len(events) and (bounds is not None or not is_part):
        checked, findings = _check_events(topic, partition, events, names, bounds)
    row = {
        "topic": topic,
        "partition": partition,
        "rows": table.num_rows,
        "checked": checked,
        "findings": [
            dict(zip(_FINDING, values, strict=True))
            for values in (*problems, *((*finding, None, None) for finding in findings))
        ],
    }
    counts = {
        name: int((events.kind == code).sum()) for name, code in (("sent", SEND), ("acked", ACK), ("failed", FAIL))
    }
    return pa.Table.from_pylist([row | counts], _RESULT_SCHEMA)


def to_events(table: pa.Table) -> tuple[Events, list[str]]:
    """The events in the order of time, and the names of the clients."""
    client = pc.fill_null(table["client"], "").combine_chunks().dictionary_encode()
    if isinstance(client, pa.ChunkedArray):
        client = client.combine_chunks()
    numbers = {name: np.asarray(pc.fill_null(table[name], -1).cast(pa.int64())) for name in _NUMBERS}
    kind = np.asarray(table["code"])
    order = np.lexsort((kind != SEND, numbers["time"]))
    kind, numbers = kind[order], {name: column[order] for name, column in numbers.items()}
    ids = number_records(numbers["producer"], numbers["sequence"])
    events = Events(kind=kind, client=np.asarray(client.indices)[order], id=ids, **numbers)
    return events, client.dictionary.to_pylist()


def _check_events(
    topic: str, partition: int, events: Events, names: list[str], bounds: Bounds | None = None
) -> tuple[int, list[Any]]:
    """(number of events that the checker saw, findings). With `bounds`, the events are a part of the partition's, whose
    log end is added to them."""
    events, findings = _drop_inconsistent(events)
    suspects = find_suspects(events, bounds)
    if not suspects and (len(events) > SMALL or bounds is not None):
        return 0, findings
    if bounds is not None:
        events = _add_end(events, bounds)
        if bounds.start < 0:  # records without offsets
            suspects.ids = dict.fromkeys(id_ for id_ in suspects.ids if id_ not in set(events.of_kind(ACK).id.tolist()))
            suspects.offsets.clear()
    checked = 0
    is_whole = bounds is None and len(events) <= LARGE
    for part in [Part(events)] if is_whole else _split_by_suspects(events, suspects, bounds):
        checked += len(part.events)
        given = list(_to_history_events(topic, partition, part.events, names))
        for finding in verdict.check_partition(topic, partition, given, start=part.start).findings:
            nameless = finding.offset < 0 and finding.property in ("S9", "L5")
            if not nameless and (finding.property in part.rules or not part.rules):
                kind = history_checker.MOVED if part.rules and _was_moved(events, finding) else finding.kind
                findings.append((kind, finding.property, finding.offset, finding.detail))
    if suspects.ids:
        findings += _list_lost_records(events, suspects)
    return checked, list(dict.fromkeys(findings))[:MAX_FINDINGS]


def _was_moved(events: Events, finding: history_checker.Finding) -> bool:
    """Whether the record lost at an offset is at another one, outside the window."""
    if finding.kind != history_checker.LOST:
        return False
    acked = events.id[(events.kind == ACK) & (events.offset == finding.offset)]
    values = events.crc[(events.kind == SEND) & np.isin(events.id, acked)]
    return bool(len(values)) and bool(np.isin(values, events.crc[events.kind == LOG]).any())


def _drop_inconsistent(events: Events) -> tuple[Events, list[Any]]:
    """Remove what cannot be checked, and report it: responses without an earlier request, and repeated sends."""
    places = np.flatnonzero(events.kind == SEND)
    ids, first = np.unique(events.id[places], return_index=True)
    answers = np.flatnonzero((events.kind == ACK) | (events.kind == FAIL))
    at = np.searchsorted(ids, events.id[answers])
    known = (at < len(ids)) & (ids[np.clip(at, 0, len(ids) - 1)] == events.id[answers]) if len(ids) else at < 0
    sent = places[first[np.clip(at, 0, len(ids) - 1)]] if len(ids) else answers
    unsent = answers[~known | (sent > answers)]
    again = np.delete(places, first)
    early = np.flatnonzero((events.kind == LIST) & (events.started > events.time))
    inconsistent = {"was answered but not sent before": unsent, "was sent twice": again}
    findings = [
        (MALFORMED, "", -1, f"sequence {sequence} of producer {producer} {problem}")
        for problem, rows in inconsistent.items()
        for producer, sequence in _list_ids(events.select(rows[:MAX_MALFORMED]))
    ]
    findings += [
        (MALFORMED, "", offset, f"the log end {offset} was returned before it was requested")
        for offset in events.offset[early[:MAX_MALFORMED]].tolist()
    ]
    if not findings:
        return events, []
    return events.select(np.delete(np.arange(len(events)), np.concatenate((unsent, again, early)))), findings


def _list_lost_records(events: Events, suspects: Suspects) -> Iterator[tuple[str, str, int, str]]:
    """By producer and sequence; the checker only counts operations."""
    chosen = events.select(np.isin(events.id, list(suspects.ids)) & (events.kind == SEND))
    acked = np.isin(chosen.id, events.of_kind(ACK).id)
    for (producer, sequence), answered in zip(_list_ids(chosen), acked.tolist(), strict=True):
        kind, rule = (history_checker.LOST, "S9") if answered else (history_checker.UNANSWERED, "L5")
        problem = "was acknowledged and is nowhere in the log" if answered else "was neither acknowledged nor refused"
        yield (kind, rule, -1, f"sequence {sequence} of producer {producer} {problem}")


def _list_ids(events: Events) -> list[tuple[int, int]]:
    return list(zip(events.producer.tolist(), events.sequence.tolist(), strict=True))


@dataclass(frozen=True)
class Part:
    """Some of a partition's events."""

    events: Events
    start: int = 0
    rules: tuple[str, ...] = ()
    """The properties that can be checked on them; if empty, all."""


def _add_end(events: Events, bounds: Bounds) -> Events:
    """With the event that says where the log of the partition ends."""
    values = {"kind": END, "offset": bounds.end, "epoch": bounds.epoch, "time": int(events.time[-1]), "client": 0}
    columns = {name: getattr(events, name) for name in Events.__dataclass_fields__}
    added = {name: np.append(column, values.get(name, -1)).astype(column.dtype) for name, column in columns.items()}
    return Events(**added)


def _split_by_suspects(events: Events, suspects: Suspects, bounds: Bounds | None = None) -> Iterator[Part]:
    if suspects.unread:
        yield Part(events.select(events.kind == END))  # there is none, and the checker reports that
        return
    if suspects.ordered or suspects.lists:
        yield Part(_select_unordered(events, suspects), rules=("S6", "S11", "S13"))
    start = 0 if bounds is None else bounds.start
    for low, high in _merge_neighbourhoods(sorted(suspects.offsets), start)[:MAX_WINDOWS]:
        yield Part(_select_window(events, low, high), low, rules=("S8", "S9"))


def _select_window(events: Events, low: int, high: int) -> Events:
    """All events about these offsets, and the sends of the records there."""
    about = (events.offset >= low) & (events.offset < high) & (events.kind != END) & (events.kind != LIST)
    sends = (events.kind == SEND) & np.isin(events.id, events.id[about])
    return _append_end(events.select(about | sends), events, high)


def _select_unordered(events: Events, suspects: Suspects) -> Events:
    """The records that are out of order, without those between them."""
    last = int(events.offset[events.kind == LOG].max(initial=-1))
    chosen = np.isin(events.offset, [*suspects.ordered, last]) & ((events.kind == LOG) | (events.kind == ACK))
    sends = (events.kind == SEND) & np.isin(events.id, events.id[chosen & (events.kind == ACK)])
    lists = (events.kind == LIST) if suspects.lists else np.zeros(len(events), bool)
    return _append_end(events.select(chosen | sends | lists), events, last + 1)


def _append_end(part: Events, events: Events, end: int) -> Events:
    last = events.select(np.flatnonzero(events.kind == END)[-1:])
    closing = vars(last) | {"offset": np.minimum(last.offset, end)}
    return Events(**{name: np.concatenate((getattr(part, name), closing[name])) for name in closing})


def _merge_neighbourhoods(offsets: list[int], start: int = 0) -> list[tuple[int, int]]:
    windows: list[tuple[int, int]] = []
    for offset in offsets:
        low, high = max(start, offset - NEAR), offset + NEAR
        if windows and low <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(high, windows[-1][1]))
        else:
            windows.append((low, high))
    return windows


def _to_history_events(topic: str, partition: int, events: Events, names: list[str]) -> Iterator[history_file.Event]:
    columns = ("kind", "time", "client", "offset", "epoch", "producer", "sequence", "crc", "started")
    for kind, time, client, *rest in zip(*(getattr(events, name).tolist() for name in columns), strict=True):
        yield history_file.Event(history_file.KINDS[kind], time, names[client], topic, partition, *rest)


def _describe_malformed(row: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """(problem, file, beginning of the line)."""
    problem = "an event of an unknown kind"
    if row["damaged"]:
        problem = "not an event"
    elif row["topic"] is None or row["partition"] is None:
        problem = "an event without a topic or a partition"
    return f"{problem}: {row['text']}", row["file"], row["text"]


def _has_parquet(path: str) -> bool:
    directory = Path(path)
    return directory.is_dir() and any(directory.glob("*.parquet"))
