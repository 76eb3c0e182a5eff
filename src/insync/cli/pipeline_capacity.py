"""`insync pipeline capacity`: skew, growth and the cost of retention from log directories, and a reassignment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from insync.cli.exits import usage_error
from insync.cli.options import AsJson
from insync.cli.output import console, duration, print_json, print_table, size
from insync.cli.parsing import byte_count, duration_s, moment, numbers, pairs
from insync.cli.pipeline import Master, output_errors_reported, spark_session
from insync.cli.pipeline_log_errors import log_options_checked, spark_failures_reported
from insync.cli.pipeline_progress import progress_bars
from insync.ops.reassignment.balance import BalanceLimits
from insync.pipeline import outputs
from insync.pipeline.capacity.growth import YEARS
from insync.pipeline.capacity.job import ALL_BROKERS, Capacity, CapacityOptions, check_options, run
from insync.pipeline.capacity.page import render_page
from insync.pipeline.capacity.retention_cost import (
    DEFAULT_CHANGES,
    RETENTION_BYTES,
    RETENTION_MS,
    Change,
    RetentionCost,
)
from insync.pipeline.health.job import now_ms
from insync.pipeline.log_directories import list_log_directories
from insync.pipeline.text import pluralize

SHOWN = 10


def capacity(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="DIR...", help="Log directories of brokers, or the directory of an insync cluster."),
    ],
    disk: Annotated[
        str, typer.Option(metavar="SIZE|N=SIZE[,...]", help="Bytes that brokers may hold, as 500GB or 1=500GB,2=1TB.")
    ] = "",
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the proposal to FILE, for `insync reassign start`.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report page to FILE.")] = None,
    window: Annotated[str, typer.Option(metavar="TIME", help="Compute growth from this period.")] = "7d",
    until: Annotated[
        str, typer.Option(metavar="TIME|now", help="End of that period; by default the newest record.")
    ] = "",
    what_if: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Show what retention.ms or retention.bytes would free; repeatable."),
    ] = None,
    tolerance: Annotated[
        int, typer.Option(min=0, max=100, metavar="PERCENT", help="How far from the mean brokers may be.")
    ] = 10,
    max_copy: Annotated[str, typer.Option(metavar="SIZE", help="Bytes that the proposal may copy.")] = "",
    within: Annotated[str, typer.Option(metavar="TIME", help="How long the copies may take.")] = "8h",
    exclude: Annotated[str, typer.Option(metavar="N[,...]", help="Brokers that the proposal leaves alone.")] = "",
    topics: Annotated[str, typer.Option(metavar="T[,...]", help="Only these topics.")] = "",
    brokers: Annotated[str, typer.Option(metavar="N[,...]", help="Broker ids of the directories, in order.")] = "",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Show skew, growth and the cost of retention, and propose a reassignment. Changes nothing."""
    names = tuple(part.strip() for part in topics.split(",") if part.strip())
    if disk and names:
        raise usage_error("--disk with --topics: what other topics take would be missing; leave out one of them")
    options = CapacityOptions(
        logs=tuple(directory for path in logs for directory in list_log_directories(path)),
        topics=names,
        brokers=tuple(numbers(brokers, "brokers")) if brokers else (),
        disks=_parse_disks(disk),
        window_ms=max(1, round(duration_s(window) * 1_000)),
        until_ms=None if not until else now_ms() if until == "now" else moment(until, now_ms()),
        changes=_parse_changes(what_if or []),
        excluded=tuple(numbers(exclude, "brokers")) if exclude else (),
        limits=BalanceLimits(tolerance=tolerance / 100, max_copied=byte_count(max_copy) if max_copy else None),
        copy_within_s=max(1.0, duration_s(within)),
    )
    with output_errors_reported():
        if html is not None:
            outputs.check_page("--html", html)
    _check_plan(plan)
    with log_options_checked():
        check_options(options)
    report = _run(options, master, quiet=as_json)
    if html is not None:
        html.write_text(render_page(report), encoding="utf-8")
    if plan is not None:
        plan.write_text(json.dumps(report.document, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(report.to_dict())
    else:
        _print(report, options, plan, html)


def _run(options: CapacityOptions, master: str | None, *, quiet: bool) -> Capacity:
    with (
        spark_failures_reported(),
        spark_session(master, "capacity") as spark,
        progress_bars(quiet=quiet) as on_progress,
    ):
        return run(spark, options, on_progress)


def _parse_disks(text: str) -> dict[int, int]:
    if not text:
        return {}
    if "=" not in text:
        return {ALL_BROKERS: byte_count(text)}
    disks = {}
    for broker, value in pairs(text.split(","), "disk").items():
        [number] = numbers(broker, "brokers")
        disks[number] = byte_count(value)
    return disks


def _parse_changes(values: Sequence[str]) -> tuple[Change, ...]:
    changes = []
    for value in values:
        [(name, text)] = pairs([value], "setting").items()
        if name not in (RETENTION_MS, RETENTION_BYTES) or not (text.isdecimal() or text == "-1"):
            raise usage_error(f"--what-if {value}: write {RETENTION_MS}=MILLISECONDS or {RETENTION_BYTES}=BYTES")
        changes.append(Change(name=name, value=int(text)))
    return tuple(changes) or DEFAULT_CHANGES


def _check_plan(plan: Path | None) -> None:
    if plan is None:
        return
    if plan.is_dir() or not plan.parent.is_dir():
        raise usage_error(f"--plan {plan}: name a file in a directory that exists")
    if plan.is_file() and plan.stat().st_size:
        try:
            known = "partitions" in json.loads(plan.read_text(encoding="utf-8"))
        except (ValueError, TypeError):
            known = False
        if not known:
            raise usage_error(f"--plan {plan}: the file exists and is not a plan; name another one")


# --- tables ----------------------------------------------------------------------------------------------------------


def _print(report: Capacity, options: CapacityOptions, plan: Path | None, html: Path | None) -> None:
    out = console()
    _print_brokers(report)
    _print_topics(report)
    _print_partitions(report)
    _print_retention(report)
    _print_proposal(report, options, plan)
    for note in report.notes:
        out.print(note, style="yellow", markup=False)
    if html is not None:
        out.print(f"report: {html}", markup=False)
    out.print(report.verdict, style="bold", markup=False)


def _print_brokers(report: Capacity) -> None:
    racks = any(broker.rack is not None for broker in report.brokers)
    disks = any(broker.disk is not None for broker in report.brokers)
    columns = ["broker", *(["rack"] if racks else []), "bytes", "of mean", "replicas", "leaders", "preferred", "led"]
    columns += ["records", "bytes/day", "records/day", *(["disk", "full in"] if disks else [])]
    mean = sum(broker.size for broker in report.brokers) / max(len(report.brokers), 1)
    rows: list[list[Any]] = []
    for broker in report.brokers:
        row: list[Any] = [broker.id, *([broker.rack] if racks else []), size(broker.size)]
        row += [f"{broker.size / mean:.2f}" if mean else "-", broker.replicas, broker.leaders, broker.preferred]
        row += [size(broker.led_size), f"{broker.records:,}", size(broker.size_per_hour * 24)]
        row += [f"{broker.records_per_hour * 24:,.0f}"]
        row += [size(broker.disk), _full_in(broker.disk, broker.full_days)] if disks else []
        rows.append(row)
    print_table(columns, rows)


def _full_in(disk: int | None, days: float | None) -> str:
    if disk is None:
        return "?"
    return f"over {YEARS} years" if days is None else f"{days:.0f} days" if days >= 3 else f"{days * 24:.0f} h"


def _print_topics(report: Capacity) -> None:
    rows = [
        (
            topic.topic,
            topic.partitions,
            size(topic.size),
            f"{topic.records:,}",
            f"{topic.skew:.2f}",
            size(topic.size_per_hour),
            size(topic.size_per_hour * 24),
            f"{topic.records_per_hour:,.0f}",
            f"{topic.records_per_hour * 24:,.0f}",
        )
        for topic in report.topics[:SHOWN]
    ]
    columns = ("topic", "partitions", "bytes", "records", "skew", "bytes/h", "bytes/day", "records/h", "records/day")
    print_table(columns, rows)
    if len(report.topics) > SHOWN:
        typer.echo(f"... and {pluralize(len(report.topics) - SHOWN, 'topic')}: --json lists all")


def _print_partitions(report: Capacity) -> None:
    rows = [
        (
            f"{partition.topic}-{partition.partition}",
            size(partition.size),
            f"{partition.records:,}",
            size(report.rates[partition.key].size),
            partition.leader if partition.leader >= 0 else None,
            partition.replicas,
        )
        for partition in report.hottest[:SHOWN]
    ]
    print_table(("hottest partitions", "bytes", "records", "bytes/h", "leader", "replicas"), rows)


def _print_retention(report: Capacity) -> None:
    rows: list[tuple[Any, ...]] = []
    for cost in report.costs[:SHOWN]:
        for number, saving in enumerate(cost.savings or (None,)):
            first = _retention_cells(cost) if number == 0 else ("",) * 5
            more = (None, None, None) if saving is None else (saving.change, size(saving.freed), _steady(saving))
            rows.append((*first, *more))
    if rows:
        columns = ("retention of", "settings", "bytes", "oldest", "keeps", "what if", "frees now", "keeps then")
        print_table(columns, rows)
    shares = [
        (
            f"{partition.topic}-{partition.partition}",
            f"{partition.keys.records:,}",
            f"{partition.keys.keys:,}",
            f"{partition.keys.superseded:,}",
            f"{partition.keys.superseded_share:.0%}",
            f"{partition.keys.tombstones:,}",
            size(partition.keys.superseded_share * partition.size),
        )
        for partition in report.largest
        if partition.keys is not None and partition.keys.records
    ]
    if shares:
        names = ("compacted", "records", "keys", "superseded", "of bytes", "tombstones", "reclaimable")
        print_table(names, shares[:SHOWN])


def _retention_cells(cost: RetentionCost) -> tuple[Any, ...]:
    settings = cost.settings
    words = ["compact"] if settings.compacts else []
    if settings.deletes:
        words += [duration(settings.retention_ms / 1_000)] if settings.retention_ms >= 0 else []
        words += [size(settings.retention_bytes)] if settings.retention_bytes >= 0 else []
    oldest = None if cost.oldest_ms is None else duration(cost.oldest_ms / 1_000)
    return cost.topic, ", ".join(words) or "unlimited", size(cost.size), oldest, _steady(cost)


def _steady(kept: Any) -> str | None:
    return None if kept.steady_size is None else size(kept.steady_size)


def _print_proposal(report: Capacity, options: CapacityOptions, plan: Path | None) -> None:
    out = console()
    if not report.moves:
        reason = f"brokers are within {options.limits.tolerance:.0%} of the mean, or no move would help"
        out.print(f"no reassignment is proposed: {reason}", markup=False)
        return
    sizes = {partition.key: partition.size for partition in report.cluster.partitions}
    moves = sorted(report.moves, key=lambda move: -sizes[move.topic, move.partition] * len(move.copies))
    rows = [
        (
            f"{move.topic}-{move.partition}",
            move.before,
            move.after,
            move.copies,
            size(sizes[move.topic, move.partition]),
        )
        for move in moves[:SHOWN]
    ]
    print_table(("proposed move", "replicas now", "replicas after", "copies to", "bytes"), rows)
    if len(moves) > SHOWN:
        typer.echo(f"... and {pluralize(len(moves) - SHOWN, 'move')}")
    loads = [
        (
            broker.id,
            size(broker.size),
            size(report.sizes_after[broker.id]),
            broker.preferred,
            report.preferred_after[broker.id],
        )
        for broker in report.brokers
    ]
    print_table(("broker", "bytes now", "bytes after", "preferred now", "preferred after"), loads)
    estimate = report.estimate
    text = f"{pluralize(len(moves), 'partition')} change, {pluralize(estimate.copies, 'copy', 'copies')}"
    if estimate.copies:
        text += f" of {size(estimate.copied)}, {duration(estimate.seconds)} at {size(estimate.throttle)}/s"
    out.print(text, markup=False)
    if plan is None:
        out.print("write the proposal to a file with --plan FILE")
    else:
        throttle = f" --throttle {estimate.throttle}" if estimate.copies else ""
        out.print(f"start it with:  insync reassign start {plan}{throttle}", markup=False)
