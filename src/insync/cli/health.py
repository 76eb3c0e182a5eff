"""`insync health`: one look at everything, and an exit code for scripts."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from insync.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    console,
    print_json,
    print_table,
    run,
)
from insync.client.client import Client
from insync.ops import health as checks
from insync.ops.health import ClusterSnapshot, Finding

PAUSE = 0.2


def health(
    wait: Annotated[float, typer.Option("--wait", min=0.0, metavar="SECONDS", help="Wait until it is healthy.")] = 0.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Check brokers, quorum, disks and every partition. Exit code 0: healthy; 1: not, or no cluster there."""

    async def work(client: Client) -> tuple[ClusterSnapshot, list[Finding]]:
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            picture = await checks.snapshot_cluster(client)
            findings = checks.find_problems(picture)
            if checks.is_healthy(findings) or asyncio.get_running_loop().time() >= deadline:
                return picture, findings
            await asyncio.sleep(PAUSE)

    picture, findings = run(bootstrap, timeout, work)
    well = checks.is_healthy(findings)
    if as_json:
        print_json(_as_dict(picture, findings, well))
    else:
        _print(picture, findings, well)
    if not well:
        raise typer.Exit(1)


def _counts(picture: ClusterSnapshot) -> dict[str, int]:
    return {
        "brokers": sum(not broker.fenced for broker in picture.info.brokers),
        "topics": len(picture.topics),
        "partitions": sum(len(topic.partitions) for topic in picture.topics),
        "reassignments": len(picture.reassignments),
    }


def _as_dict(picture: ClusterSnapshot, findings: list[Finding], well: bool) -> dict[str, object]:
    quorum = picture.quorum
    return {
        "healthy": well,
        "cluster_id": picture.info.cluster_id,
        "quorum_leader": None if quorum is None else quorum.leader,
        **_counts(picture),
        "findings": [asdict(finding) for finding in findings],
    }


def _print(picture: ClusterSnapshot, findings: list[Finding], well: bool) -> None:
    counts = ", ".join(f"{count} {what if count != 1 else what[:-1]}" for what, count in _counts(picture).items())
    console().print(f"cluster {picture.info.cluster_id}: {counts}", markup=False)
    if findings:
        print_table(("severity", "what", "where", "detail"), [[f.severity, f.what, f.where, f.text] for f in findings])
    console().print("healthy" if well else "NOT healthy", style="bold green" if well else "bold red")
