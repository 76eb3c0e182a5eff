"""`insync pipeline compact`: merges the small files of a lake, and removes old ones."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from insync.cli.exits import usage_error
from insync.cli.options import AsJson
from insync.cli.output import console, size
from insync.cli.parsing import duration_s
from insync.cli.pipeline import Master, check_java, job_errors_reported, resumable
from insync.cli.pipeline_jobs import report_job, running_job
from insync.lake.directory import load_ledger
from insync.lake.store import LakeError
from insync.lake.writer import CODECS
from insync.pipeline.compact import job
from insync.pipeline.compact.job import CompactError, CompactOptions, CompactSummary, Progress
from insync.pipeline.text import pluralize


def compact(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="By default all.")] = None,
    lake: Annotated[str, typer.Option(metavar="PATH", help="Directory of the lake, or s3://bucket/path.")] = "lake",
    target_bytes: Annotated[int, typer.Option(min=1, help="Size of the files to make.")] = 64 << 20,
    min_ranges: Annotated[
        int, typer.Option(min=2, help="Leave fewer than these at a partition's end for a later run.")
    ] = 4,
    keep: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Remove ranges whose records are all older, as in 90d.")
    ] = None,
    keep_bytes: Annotated[
        int | None, typer.Option(min=0, help="Remove a topic's oldest ranges until it has no more.")
    ] = None,
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="Keep replaced files for readers that have begun.")
    ] = "0s",
    history: Annotated[
        str, typer.Option(metavar="DURATION", help="Keep ledger entries for replays that began then.")
    ] = "7d",
    codec: Annotated[str, typer.Option(help=f"Compression of the files: {', '.join(CODECS)}.")] = "lz4",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Merge small files of a lake into large ones, and remove old ones, while readers and an archiver go on."""
    options = CompactOptions(
        lake=lake,
        topics=tuple(dict.fromkeys(topics or ())),
        target_bytes=target_bytes,
        min_ranges=min_ranges,
        keep_s=None if keep is None else duration_s(keep),
        keep_bytes=keep_bytes,
        grace_s=duration_s(grace),
        history_s=duration_s(history),
        codec=codec,
    )
    try:
        job.check_options(options)
        _check_topics(options)
    except (CompactError, LakeError) as error:
        raise usage_error(str(error)) from None
    with resumable():
        summary = _compact(options, master, as_json)
    report_job(summary, _to_dict, _print, as_json=as_json, failed=bool(summary.problems))


def _check_topics(options: CompactOptions) -> None:
    known = dict.fromkeys(topic for topic, _ in load_ledger(options.lake).partitions())
    for topic in options.topics:
        if topic not in known:
            raise CompactError(f"topic '{topic}' is not in {options.lake}, which has {', '.join(known) or 'nothing'}")


def _compact(options: CompactOptions, master: str | None, as_json: bool) -> CompactSummary:
    check_java()
    with job_errors_reported(CompactError), running_job("compact", master, "merges", quiet=as_json) as running:

        def on_progress(now: Progress) -> None:
            running.show(now.done, now.total)

        return job.run(running.spark, options, on_progress=on_progress, stop=running.stop)


def _to_dict(summary: CompactSummary) -> dict[str, Any]:
    return {
        "lake": summary.lake,
        "merged_files": summary.merged_files,
        "new_files": summary.new_files,
        "rows": summary.rows,
        "bytes": summary.bytes,
        "expired": [
            {"topic": r.topic, "partition": r.partition, "from": r.start, "to": r.end, "why": r.expired}
            for r in summary.expired
        ],
        "expired_bytes": summary.expired_bytes,
        "deleted_files": len(summary.deleted),
        "removed_entries": summary.removed_entries,
        "problems": summary.problems,
        "finished": summary.finished,
        "seconds": round(summary.seconds, 3),
    }


def _print(summary: CompactSummary) -> None:
    for problem in summary.problems:
        console().print(problem, style="red", markup=False)
    for expired in summary.expired:
        offsets = f"offsets {expired.start:,} to {expired.end - 1:,}"
        typer.echo(f"{expired.topic}-{expired.partition}: {offsets} removed: {expired.expired}")
    if summary.expired:
        typer.echo(f"{size(summary.expired_bytes)} removed")
    merged, new = pluralize(summary.merged_files, "file"), pluralize(summary.new_files, "file")
    typer.echo(f"{merged} merged into {new} of {size(summary.bytes)} in {summary.seconds:.1f} s")
    if summary.deleted:
        typer.echo(f"{pluralize(len(summary.deleted), 'replaced file')} deleted")
    if summary.removed_entries:
        entries = pluralize(summary.removed_entries, "ledger entry", "ledger entries")
        typer.echo(f"{entries} removed, which a checkpoint covers")
