"""`insync pipeline archive`: topics to a lake of Parquet files, and whether a lake is what its ledger says."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from insync.cli import client_config
from insync.cli.common import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, console, print_json, print_table, reason, size
from insync.cli.exits import failure, usage_error
from insync.cli.pipeline import Master, interruptible, need_java, resumable, spark_session, stopped
from insync.cli.pipeline_progress import bar
from insync.client.errors import AddressError, ClientError
from insync.pipeline import lake as lakes
from insync.pipeline.archive import job as pipeline
from insync.pipeline.archive import verify as archive_verify
from insync.pipeline.archive.job import ArchiveError, ArchiveOptions, Progress, Summary
from insync.pipeline.archive.plan import Lost
from insync.pipeline.archive.verify import PartitionFacts, Verdict
from insync.pipeline.journal import JournalError
from insync.pipeline.lake import LakeError
from insync.pipeline.lake_writer import CODECS
from insync.pipeline.ledger import Range
from insync.pipeline.wording import counted


def archive(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics to archive.")] = None,
    lake: Annotated[Path, typer.Option(help="The lake's directory; it is made if need be.")] = Path("lake"),
    pattern: Annotated[str, typer.Option(metavar="REGEX", help="Instead of topics: a pattern of their names.")] = "",
    follow: Annotated[
        bool, typer.Option("--follow/--once", help="Go on until Ctrl-C; or up to what is there.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds to wait when all is archived.")] = 10.0,
    verify: Annotated[bool, typer.Option("--verify", help="Archive nothing: check ledger, files and brokers.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="With --verify: do not ask the brokers.")] = False,
    allow_loss: Annotated[bool, typer.Option("--allow-loss", help="Record what is gone, and go on.")] = False,
    isolation: Annotated[str, typer.Option(help="read_committed or read_uncommitted.")] = "read_committed",
    codec: Annotated[str, typer.Option(help=f"Of the files: {', '.join(CODECS)}.")] = "lz4",
    rows_per_file: Annotated[int, typer.Option(min=1, help="Offsets that a file covers, at most.")] = 1_000_000,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds of patience with brokers.")] = 60.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Topics to a lake of Parquet files, every record exactly once."""
    if verify:
        _verify(lake, "" if offline else bootstrap, timeout, as_json)
        return
    if offline:
        raise usage_error("--offline goes with --verify: to archive, the brokers must be asked")
    options = ArchiveOptions(
        bootstrap=bootstrap,
        lake=str(lake),
        topics=tuple(dict.fromkeys(topics or ())),
        pattern=pattern,
        follow=follow,
        interval_s=interval,
        allow_loss=allow_loss,
        isolation=isolation,
        codec=codec,
        rows_per_file=rows_per_file,
        timeout_s=timeout,
        client=client_config.settings(),
    )
    try:
        pipeline.check(options)
        lakes.check(options.lake)
    except (ArchiveError, LakeError) as error:
        raise usage_error(str(error)) from None
    with resumable():
        summary = _archive(options, master, as_json)
    if as_json:
        print_json(as_dict(summary))
    else:
        _print(summary)
    if not summary.finished:
        raise stopped()


def _archive(options: ArchiveOptions, master: str | None, as_json: bool) -> Summary:
    need_java()
    try:
        if not pipeline.check_topics(options):
            typer.echo(f"insync: no topic fits --pattern {options.pattern} yet; waiting for one that does", err=True)
        with spark_session(master, "archive") as spark, interruptible() as stop, bar(quiet=as_json) as progress:
            task = progress.add_task("archive", total=None, told="offsets")

            def told(now: Progress) -> None:
                done = progress.tasks[task].completed + now.offsets
                progress.update(task, completed=done, total=done + now.backlog, told=f"offsets, {now.rows:,} rows")

            return pipeline.run(spark, options, on_progress=told, stop=stop)
    except AddressError as error:
        raise usage_error(str(error)) from None
    except (ClientError, LakeError, JournalError, ArchiveError, Lost) as error:
        raise failure(reason(error)) from None


def _verify(lake: Path, bootstrap: str, timeout: float, as_json: bool) -> None:
    try:
        with bar(quiet=as_json) as progress:
            task = progress.add_task("verify", total=None, told="files")
            verdict = archive_verify.verify(
                lake,
                bootstrap,
                timeout_s=timeout,
                client=client_config.settings(),
                on_file=lambda done, total: progress.update(task, completed=done, total=total),
            )
    except AddressError as error:
        raise usage_error(str(error)) from None
    except (ClientError, LakeError, JournalError) as error:
        raise failure(reason(error)) from None
    if as_json:
        print_json({"ok": verdict.ok, **asdict(verdict)})
    else:
        _print_verdict(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


# --- telling ---------------------------------------------------------------------------------------------------------


def as_dict(summary: Summary) -> dict[str, Any]:
    return {
        "lake": summary.lake,
        "rows": summary.rows,
        "seconds": round(summary.seconds, 3),
        "finished": summary.finished,
        "partitions": [
            {"topic": topic, "partition": partition, "generation": generation, **_joined(ranges)}
            for (topic, partition, generation), ranges in _by_partition(summary).items()
        ],
        "lost": [{"topic": r.topic, "partition": r.partition, "from": r.start, "to": r.end} for r in summary.lost],
        "notes": summary.notes,
        "swept": summary.swept,
    }


def _by_partition(summary: Summary) -> dict[tuple[str, int, int], list[Range]]:
    found: dict[tuple[str, int, int], list[Range]] = {}
    for each in summary.committed:
        found.setdefault((each.topic, each.partition, each.generation), []).append(each)
    return found


def _joined(ranges: list[Range]) -> dict[str, int]:
    return {
        "from": ranges[0].start,
        "to": ranges[-1].end,
        "rows": sum(each.rows for each in ranges),
        "files": sum(len(each.files) for each in ranges),
        "bytes": sum(each.bytes for each in ranges),
    }


def _print(summary: Summary) -> None:
    rows = [
        [
            f"{topic}-{partition}",
            generation,
            *(f"{value:,}" for value in list(facts.values())[:4]),
            size(facts["bytes"]),
        ]
        for (topic, partition, generation), ranges in _by_partition(summary).items()
        if (facts := _joined(ranges))
    ]
    if rows:
        print_table(("partition", "generation", "from", "to", "rows", "files", "size"), rows)
        typer.echo()
    for note in summary.notes:
        console().print(note, style="yellow", markup=False)
    if summary.swept:
        files = counted(len(summary.swept), "file")
        typer.echo(f"{files} of an archiver that had been killed: swept away")
    rate = summary.rows / summary.seconds if summary.seconds else 0.0
    typer.echo(f"{counted(summary.rows, 'row')} in {summary.seconds:.1f} s ({rate:,.0f}/s) to {summary.lake}")


def _print_verdict(verdict: Verdict) -> None:
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
    print_table(columns, [_line(facts) for facts in verdict.partitions])
    typer.echo()
    for note in verdict.notes:
        console().print(note, style="yellow", markup=False)
    for problem in verdict.problems:
        console().print(problem, style="red", markup=False)
    if verdict.ok:
        entries = counted(verdict.entries, "ledger entry", "ledger entries")
        console().print(f"{entries}, no gap, no overlap, all files whole", style="bold green")


def _line(facts: PartitionFacts) -> list[Any]:
    asked = facts.latest >= 0
    return [
        f"{facts.topic}-{facts.partition}",
        facts.generation,
        *(f"{value:,}" for value in (facts.start, facts.end, facts.rows, facts.files)),
        size(facts.bytes),
        f"{facts.lost:,}",
        *((f"{facts.earliest:,}", f"{facts.latest:,}", f"{facts.behind:,}") if asked else (None, None, None)),
    ]
