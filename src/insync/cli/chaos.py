"""`insync chaos`: faults in a real cluster under load, and whether it kept its promises."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from insync.chaos import campaign, resources
from insync.chaos.campaign import InjectedFault, Plan, Report
from insync.chaos.faults import FAULTS, SASL_FAULTS, TLS_FAULTS, list_faults
from insync.cli.exits import failure, usage_error
from insync.cli.options import AsJson
from insync.cli.output import console, print_json, print_table
from insync.cli.parsing import duration_s, empty_directory
from insync.cluster.cluster import ClusterError
from insync.history import history_file
from insync.history.verdict import MEANINGS
from insync.server.cluster_layout import PROTOCOLS
from insync.server.profiles import PROFILES

ALL = "all"
MAX_FINDINGS = 40
"""Findings that are printed one by one; --json has all of them."""


def chaos(
    faults: Annotated[str, typer.Option(metavar="NAME[,...]", help=f"Faults to inject: {', '.join(FAULTS)}.")] = ALL,
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Start no fault later than this; each is used at least once.")
    ] = 60.0,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Instead of --seconds: 90s, 60m, 8h.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Determines the order of faults and their targets.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Keep data, logs and history in this empty directory.")] = None,
    brokers: Annotated[int, typer.Option(min=3, help="Number of brokers; the first three are voters.")] = 4,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions, each with three replicas.")] = 3,
    producers: Annotated[int, typer.Option(min=1, help="Number of idempotent producers.")] = 2,
    consumers: Annotated[int, typer.Option(min=0, help="Number of consumers.")] = 1,
    rate: Annotated[int, typer.Option(min=1, help="Records per second of each producer.")] = 200,
    profile: Annotated[str, typer.Option(help=f"Timeouts of the nodes: {' or '.join(PROFILES)}.")] = "fast",
    secure: Annotated[
        str | None,
        typer.Option(metavar="PROTOCOL", help=f"Secure the cluster: {', '.join(PROTOCOLS)}. Adds faults of logins."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Break a real cluster under load and check that nothing acknowledged is lost, duplicated or reordered.

    Exits with 1 if something was, or if clients made no progress. All files are kept then, and their directory printed.
    """
    plan = Plan(
        faults=_names(faults, _security(secure)),
        seconds=seconds if duration is None else duration_s(duration),
        seed=seed,
        brokers=brokers,
        partitions=partitions,
        profile=_profile(profile),
        security=_security(secure),
        load={"producers": producers, "consumers": consumers, "rate": rate},
        keep_histories=keep is not None,
    )
    if importlib.util.find_spec("confluent_kafka") is None:
        raise failure("insync chaos needs confluent-kafka as its client: pip install confluent-kafka")
    directory = _directory(keep)
    try:
        report = campaign.run(plan, directory, on_fault=lambda fault: None if as_json else _print_fault(fault))
    except ClusterError as error:
        raise failure(f"{error}. Data and logs are in {directory}") from error
    if report.ok and keep is None:
        shutil.rmtree(directory)
    where = directory if directory.exists() else None
    if as_json:
        print_json(_as_dict(report, where))
    else:
        _print_report(report, where)
    if not report.ok:
        raise typer.Exit(1)


def _names(text: str, security: str | None) -> list[str]:
    known = list_faults(security)
    names = list(known) if text == ALL else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known and name in (*TLS_FAULTS, *SASL_FAULTS):
            protocols = " or ".join(p for p in PROTOCOLS if name in list_faults(p))
            raise usage_error(f"--faults: {name} needs --secure {protocols}")
        if name not in known:
            raise usage_error(f"--faults: there is no fault '{name}'; known are {', '.join(known)}")
    return names


def _security(protocol: str | None) -> str | None:
    if protocol is not None and protocol.lower() not in PROTOCOLS:
        raise usage_error(f"--secure: '{protocol}' is not one of {', '.join(PROTOCOLS)}")
    return None if protocol is None else protocol.lower()


def _profile(name: str) -> str:
    if name not in PROFILES:
        raise usage_error(f"--profile: '{name}' is not one of {', '.join(PROFILES)}")
    return name


def _directory(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="insync-chaos-"))
    return empty_directory(keep)


# --- output ----------------------------------------------------------------------------------------------------------


def _print_fault(fault: InjectedFault) -> None:
    typer.echo(f"{fault.at:7.1f} s  {fault.name:<19} {fault.description}; recovered after {fault.seconds:.1f} s")


def _print_report(report: Report, where: Path | None) -> None:
    columns = ("partition", "sent", "acknowledged", "failed", "read", "ends listed", "log end")
    kinds = (history_file.SEND, history_file.ACK, history_file.FAIL, history_file.READ, history_file.LIST)
    verdict = report.verdict
    rows = [
        [f"{line.topic}-{line.partition}", *(f"{line.events[kind]:,}" for kind in kinds), f"{line.end:,}"]
        for line in verdict.partitions[-report.plan.partitions :]
    ]
    if len(verdict.partitions) > len(rows):  # with several legs, only the last is listed by partition
        total = [f"{verdict.count(kind):,}" for kind in kinds]
        rows.append(["all legs", *total, f"{sum(partition.end for partition in verdict.partitions):,}"])
    typer.echo()
    print_table(columns, rows)
    typer.echo()
    counts = [(kind, verdict.count(kind), rules, meaning) for kind, (rules, meaning) in MEANINGS.items()]
    print_table(("verdict", "count", "property", "meaning"), counts)
    typer.echo()
    _print_growth(report)
    for line in _list_problems(report):
        console().print(line, style="red", markup=False)
    if report.verdict.silences:
        typer.echo(f"consumers that read nothing for 15 s were replaced on {report.verdict.silences} partitions")
    if report.ok:
        faults = f"{len(report.faults)} fault{'s' if len(report.faults) != 1 else ''}"
        console().print(f"{faults}, nothing lost, duplicated or reordered", style="bold green")
    if where is not None:
        typer.echo(f"history, data and logs are in {where}")


def _print_growth(report: Report) -> None:
    if not report.growth:
        return
    columns = ("node", "samples", "MB at first", "MB at last", "MB/h", "files at first", "files at last", "files/h", "")
    rows = [
        [
            growth.node,
            growth.samples,
            growth.first_mb,
            growth.last_mb,
            f"{growth.mb_per_hour:+.1f}",
            f"{growth.first_descriptors:g}",
            f"{growth.last_descriptors:g}",
            f"{growth.descriptors_per_hour:+.1f}",
            ("flat" if growth.is_flat else "grows") if growth.judged else "too short to judge",
        ]
        for growth in report.growth
    ]
    print_table(columns, rows)
    typer.echo()


def _list_problems(report: Report) -> list[str]:
    lines = list(report.verdict.lines())
    more = [f"... and {len(lines) - MAX_FINDINGS:,} more"] if len(lines) > MAX_FINDINGS else []
    stuck = [f"stuck: {report.stuck}"] if report.stuck else []
    growing = [f"node {node.node} grows: {node.mb_per_hour:+.1f} MB/h" for node in report.growing]
    return (
        lines[:MAX_FINDINGS]
        + more
        + stuck
        + growing
        + [f"a node raised an unexpected exception: see {log}" for log in report.defects]
    )


def _as_dict(report: Report, where: Path | None) -> dict[str, Any]:
    verdict = report.verdict
    return {
        "ok": report.ok,
        "seed": report.plan.seed,
        "faults": [
            {
                "name": fault.name,
                "description": fault.description,
                "at": round(fault.at, 3),
                "seconds": round(fault.seconds, 3),
            }
            for fault in report.faults
        ],
        "events": {kind: verdict.count(kind) for kind in history_file.KINDS},
        "findings": [
            {"topic": partition.topic, "partition": partition.partition, **finding._asdict()}
            for partition in verdict.partitions
            for finding in partition.findings
        ],
        "silences": verdict.silences,
        "growth": [resources.as_dict(growth) for growth in report.growth],
        "stuck": report.stuck or None,
        "defects": report.defects,
        "directory": None if where is None else str(where),
    }
