"""`insync pipeline mirror`: mirrors topics from one cluster to another, and compares two clusters."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from insync.cli import client_config
from insync.cli.exits import usage_error
from insync.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from insync.cli.output import console, print_json, print_table, size
from insync.cli.pipeline import (
    Master,
    check_java,
    job_errors_reported,
    output_errors_reported,
    resumable,
    spark_session,
)
from insync.cli.pipeline_jobs import parse_targets, print_notes, report_job, running_job
from insync.cli.running_cluster import resolve_bootstrap
from insync.client.settings import DEFAULT_SETTINGS
from insync.pipeline import outputs
from insync.pipeline.mirror import job
from insync.pipeline.mirror.errors import MirrorError
from insync.pipeline.mirror.job import MirrorOptions, MirrorSummary, Progress
from insync.pipeline.mirror.target import TopicSettings
from insync.pipeline.mirror.verify import Comparison, compare_clusters
from insync.pipeline.rounds import ClusterOptions
from insync.pipeline.text import pluralize


def mirror(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC[=TARGET]]...", help="Topics, and their names in the target.")
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            envvar="INSYNC_MIRROR_TO",
            metavar="HOST:PORT[,...]",
            help="Bootstrap brokers of the target, or the name of a local cluster; --bootstrap names the source.",
        ),
    ] = "",
    to_config: Annotated[
        Path | None,
        typer.Option(
            "--to-config",
            envvar="INSYNC_MIRROR_TO_CONFIG",
            metavar="FILE",
            help="Client settings for the target; --client-config has those for the source.",
        ),
    ] = None,
    pattern: Annotated[
        str, typer.Option(metavar="REGEX", help="Regular expression for topic names, instead of TOPIC.")
    ] = "",
    state: Annotated[Path, typer.Option(help="Directory of the mirror's state; created if missing.")] = Path("mirror"),
    follow: Annotated[
        bool, typer.Option("--follow/--once", help="Keep mirroring until Ctrl-C, or stop at the current end.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, help="With --follow: seconds to wait when nothing is to be mirrored.")
    ] = 1.0,
    groups: Annotated[
        str, typer.Option(metavar="REGEX", help="Groups whose offsets are committed in the target; '' for none.")
    ] = job.ALL_GROUPS,
    group_interval: Annotated[
        float, typer.Option(min=0.0, help="With --follow: seconds between two commits of the groups' offsets.")
    ] = 10.0,
    create: Annotated[
        bool, typer.Option("--create/--no-create", help="Create missing topics and partitions in the target.")
    ] = True,
    copy_configs: Annotated[
        bool, typer.Option("--copy-configs/--no-copy-configs", help="Give new topics the source's configs.")
    ] = True,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A config of new topics; may be repeated.")
    ] = None,
    replication_factor: Annotated[int, typer.Option(help="Replicas of new topics; -1 for the target's default.")] = -1,
    append: Annotated[bool, typer.Option("--append", help="Mirror into topics that have records already.")] = False,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Record what the source has lost, and continue.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Only compare the two clusters.")] = False,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds to wait for brokers.")] = 60.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Mirror topics to another cluster, every record exactly once, with the offsets of groups."""
    if not to:
        raise usage_error("name the target with --to HOST:PORT")
    to, default_file = resolve_bootstrap(to)
    file = to_config or default_file
    target_settings = client_config.read_settings(file, "--to-config") if file else DEFAULT_SETTINGS
    options = MirrorOptions(
        source=ClusterOptions(bootstrap=bootstrap, timeout_s=timeout, client=client_config.current_settings()),
        target=ClusterOptions(bootstrap=to, timeout_s=timeout, client=target_settings),
        state=str(state),
        topics=parse_targets(topics or []),
        pattern=pattern,
        topic_settings=TopicSettings(
            create=create,
            copy_configs=copy_configs,
            configs=_parse_configs(config or []),
            replication_factor=replication_factor,
            append=append,
        ),
        follow=follow,
        interval_s=interval,
        groups=groups,
        group_interval_s=group_interval,
        allow_loss=allow_loss,
    )
    try:
        job.check_options(options)
    except MirrorError as error:
        raise usage_error(str(error)) from None
    if verify:
        _verify(options, master, as_json)
        return
    with output_errors_reported():
        outputs.check_directory("--state", options.state)
    with resumable():
        summary = _mirror(options, master, as_json)
    report_job(summary, _to_dict, _print, as_json=as_json)


def _parse_configs(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise usage_error(f"--config {text}: use NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)


def _mirror(options: MirrorOptions, master: str | None, as_json: bool) -> MirrorSummary:
    check_java()
    with job_errors_reported(MirrorError):
        if not job.check_connections(options):
            typer.echo(f"insync: no topic matches --pattern {options.pattern} yet; waiting for one", err=True)
        with running_job("mirror", master, "offsets", quiet=as_json) as running:

            def on_progress(now: Progress) -> None:
                running.add(now.offsets, now.backlog, f"offsets, {now.rows:,} records")

            return job.run(running.spark, options, on_progress=on_progress, stop=running.stop)


def _verify(options: MirrorOptions, master: str | None, as_json: bool) -> None:
    check_java()
    with job_errors_reported(MirrorError), resumable():
        job.check_connections(options)
        with spark_session(master, "mirror") as spark:
            comparison = compare_clusters(spark, options)
    if as_json:
        print_json({"equal": comparison.equal, **asdict(comparison), "seconds": round(comparison.seconds, 3)})
    else:
        _print_comparison(comparison)
    if not comparison.equal:
        raise typer.Exit(1)


# --- output ----------------------------------------------------------------------------------------------------------


def _to_dict(summary: MirrorSummary) -> dict[str, Any]:
    return {
        "rows": summary.rows,
        **asdict(summary),
        "groups": {
            group: {f"{topic}-{partition}": offset for (topic, partition), offset in offsets.items()}
            for group, offsets in summary.groups.items()
        },
        "seconds": round(summary.seconds, 3),
    }


def _print(summary: MirrorSummary) -> None:
    rows = [
        [
            f"{report.topic}-{report.partition}",
            f"{report.target}-{report.partition}",
            *(f"{value:,}" for value in (report.rows, report.before, report.source, report.end)),
        ]
        for report in summary.partitions
    ]
    print_table(("from", "to", "records", "written before", "source offset", "target offset"), rows)
    typer.echo()
    for group, offsets in sorted(summary.groups.items()):
        console().print(f"group '{group}': {pluralize(len(offsets), 'offset')} committed in the target", markup=False)
    print_notes(summary.notes)
    rate = summary.bytes / summary.seconds if summary.seconds else 0.0
    records = pluralize(summary.rows, "record")
    typer.echo(f"{records} in {summary.seconds:.1f} s ({size(round(rate))}/s); state in {summary.state}")


def _print_comparison(comparison: Comparison) -> None:
    rows = [
        [
            f"{partition.topic}-{partition.partition}",
            f"{partition.target}-{partition.partition}",
            f"{partition.records:,}",
            len(partition.differences),
        ]
        for partition in comparison.partitions
    ]
    print_table(("source", "target", "equal records", "differences"), rows)
    typer.echo()
    print_notes(comparison.notes)
    for difference in comparison.differences:
        console().print(f"{difference.kind}: {difference.text}", style="red", markup=False)
    if comparison.equal:
        groups = pluralize(comparison.groups, "group")
        console().print(f"no differences: topics, configs, records and {groups} are equal", style="bold green")
