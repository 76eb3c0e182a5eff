"""`insync pipeline archive`: archives topics into a lake of Parquet files, and verifies a lake."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from insync.cli import client_config
from insync.cli.exits import usage_error
from insync.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from insync.cli.output import console, print_json, print_table, size
from insync.cli.pipeline import Master, check_java, job_errors_reported, resumable
from insync.cli.pipeline_jobs import print_notes, report_job, running_job
from insync.cli.pipeline_progress import make_bar
from insync.lake.directory import check_lake
from insync.lake.ledger import Range
from insync.lake.store import LakeError
from insync.lake.writer import CODECS
from insync.pipeline.archive import job
from insync.pipeline.archive.job import ArchiveError, ArchiveOptions, ArchiveSummary, Progress
from insync.pipeline.archive.plan import UnarchivedLossError
from insync.pipeline.archive.verify import LakeReport, PartitionReport, verify_lake
from insync.pipeline.text import pluralize


def archive(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics to archive.")] = None,
    lake: Annotated[
        str, typer.Option(metavar="PATH", help="Directory of the lake, created if missing, or s3://bucket/path.")
    ] = "lake",
    pattern: Annotated[
        str, typer.Option(metavar="REGEX", help="Regular expression for topic names, instead of TOPIC.")
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow/--once", help="Keep archiving until Ctrl-C, or stop at the current end.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, help="With --follow: seconds to wait when nothing is to be archived.")
    ] = 10.0,
    roll_bytes: Annotated[
        int, typer.Option(min=1, help="Size of a file; with --follow, it is written once there is enough for it.")
    ] = 64 << 20,
    roll_interval: Annotated[
        float, typer.Option(min=0.0, help="With --follow: seconds until new records are archived at the latest.")
    ] = 600.0,
    verify: Annotated[bool, typer.Option("--verify", help="Only check the ledger, the files and the brokers.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="With --verify: do not ask the brokers.")] = False,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Record lost offsets in the ledger and continue.")
    ] = False,
    isolation: Annotated[str, typer.Option(help="read_committed or read_uncommitted.")] = "read_committed",
    codec: Annotated[str, typer.Option(help=f"Compression of the files: {', '.join(CODECS)}.")] = "lz4",
    rows_per_file: Annotated[int, typer.Option(min=1, help="Offsets per file, at most.")] = 1_000_000,
    table_format: Annotated[
        str, typer.Option("--format", help="parquet, or a table per topic: delta or iceberg.")
    ] = job.PARQUET,
    catalog: Annotated[
        str,
        typer.Option(metavar="URI", help="Iceberg catalog, https:// for REST; by default a SQLite file in the lake."),
    ] = "",
    namespace: Annotated[str, typer.Option(help="Namespace of Iceberg tables.")] = "insync",
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds to wait for brokers.")] = 60.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Archive topics into a lake of Parquet files, every record exactly once."""
    if verify:
        if table_format != job.PARQUET:
            raise usage_error(f"--verify checks lakes of format {job.PARQUET}; tables have tools of their own")
        _verify(lake, "" if offline else bootstrap, timeout, as_json)
        return
    if offline:
        raise usage_error("--offline needs --verify: archiving needs the brokers")
    options = ArchiveOptions(
        bootstrap=bootstrap,
        lake=lake,
        topics=tuple(dict.fromkeys(topics or ())),
        pattern=pattern,
        follow=follow,
        interval_s=interval,
        roll_bytes=roll_bytes,
        roll_interval_s=roll_interval,
        allow_loss=allow_loss,
        isolation=isolation,
        codec=codec,
        rows_per_file=rows_per_file,
        table_format=table_format,
        catalog=catalog,
        namespace=namespace,
        timeout_s=timeout,
        client=client_config.current_settings(),
    )
    try:
        job.check_options(options)
        if options.table_format == job.PARQUET:
            check_lake(options.lake)
    except (ArchiveError, LakeError) as error:
        raise usage_error(str(error)) from None
    with resumable():
        summary = _archive(options, master, as_json)
    report_job(summary, _to_dict, _print, as_json=as_json)


def _archive(options: ArchiveOptions, master: str | None, as_json: bool) -> ArchiveSummary:
    check_java()
    with job_errors_reported(ArchiveError, UnarchivedLossError):
        if not job.check_topics(options):
            typer.echo(f"insync: no topic matches --pattern {options.pattern} yet; waiting for one", err=True)
        with running_job("archive", master, "offsets", quiet=as_json) as running:

            def on_progress(now: Progress) -> None:
                running.add(now.offsets, now.backlog, f"offsets, {now.rows:,} rows")

            return job.run(running.spark, options, on_progress=on_progress, stop=running.stop)


def _verify(lake: str, bootstrap: str, timeout: float, as_json: bool) -> None:
    with job_errors_reported(), make_bar(quiet=as_json) as bar:
        task = bar.add_task("verify", total=None, unit="files")
        report = verify_lake(
            lake,
            bootstrap,
            timeout_s=timeout,
            client=client_config.current_settings(),
            on_file=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


# --- output ----------------------------------------------------------------------------------------------------------


def _to_dict(summary: ArchiveSummary) -> dict[str, Any]:
    return {
        "lake": summary.lake,
        "rows": summary.rows,
        "seconds": round(summary.seconds, 3),
        "finished": summary.finished,
        "partitions": [
            {"topic": topic, "partition": partition, "generation": generation, **_sum_ranges(ranges)}
            for (topic, partition, generation), ranges in _by_partition(summary).items()
        ],
        "lost": [{"topic": r.topic, "partition": r.partition, "from": r.start, "to": r.end} for r in summary.lost],
        "notes": summary.notes,
        "swept": summary.removed_orphans,
    }


def _by_partition(summary: ArchiveSummary) -> dict[tuple[str, int, int], list[Range]]:
    groups: dict[tuple[str, int, int], list[Range]] = {}
    for archived in summary.committed:
        groups.setdefault((archived.topic, archived.partition, archived.generation), []).append(archived)
    return groups


def _sum_ranges(ranges: list[Range]) -> dict[str, int]:
    return {
        "from": ranges[0].start,
        "to": ranges[-1].end,
        "rows": sum(archived.rows for archived in ranges),
        "files": sum(len(archived.files) for archived in ranges),
        "bytes": sum(archived.bytes for archived in ranges),
    }


def _print(summary: ArchiveSummary) -> None:
    rows = [
        [
            f"{topic}-{partition}",
            generation,
            *(f"{value:,}" for value in list(sums.values())[:4]),
            size(sums["bytes"]),
        ]
        for (topic, partition, generation), ranges in _by_partition(summary).items()
        if (sums := _sum_ranges(ranges))
    ]
    if rows:
        print_table(("partition", "generation", "from", "to", "rows", "files", "size"), rows)
        typer.echo()
    print_notes(summary.notes)
    if summary.removed_orphans:
        files = pluralize(len(summary.removed_orphans), "file")
        typer.echo(f"{files} of a killed archiver deleted")
    rate = summary.rows / summary.seconds if summary.seconds else 0.0
    typer.echo(f"{pluralize(summary.rows, 'row')} in {summary.seconds:.1f} s ({rate:,.0f}/s) to {summary.lake}")


def _print_report(report: LakeReport) -> None:
    columns = (
        "partition",
        "generation",
        "from",
        "to",
        "rows",
        "files",
        "size",
        "lost",
        "log begins",
        "log ends",
        "behind",
    )
    print_table(columns, [_row(partition) for partition in report.partitions])
    typer.echo()
    print_notes(report.notes)
    for problem in report.problems:
        console().print(problem, style="red", markup=False)
    if report.ok:
        entries = pluralize(report.entries, "ledger entry", "ledger entries")
        console().print(f"{entries}: no gaps, no overlaps, all files intact", style="bold green")


def _row(partition: PartitionReport) -> list[Any]:
    asked = partition.latest >= 0
    return [
        f"{partition.topic}-{partition.partition}",
        partition.generation,
        *(f"{value:,}" for value in (partition.start, partition.end, partition.rows, partition.files)),
        size(partition.bytes),
        f"{partition.lost:,}",
        *(
            (f"{partition.earliest:,}", f"{partition.latest:,}", f"{partition.behind:,}")
            if asked
            else (None, None, None)
        ),
    ]
