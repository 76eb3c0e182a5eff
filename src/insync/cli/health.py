"""`insync health`: check the whole cluster, with an exit code for scripts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import Annotated

import typer

from insync.cli.output import console, print_json, print_table
from insync.cli.session import Session
from insync.client.client import Client
from insync.ops import health as checks
from insync.ops.health import ClusterSnapshot, Finding

POLL_S = 0.2


def health(
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0.0,
            metavar="SECONDS",
            help="Wait this long for a cluster that answers and is healthy.",
        ),
    ] = 0.0,
    *,
    session: Session,
) -> None:
    """Check brokers, quorum, disks and every partition. Exits with 0 if healthy, else with 1."""

    deadline = time.monotonic() + wait

    async def work(client: Client) -> tuple[ClusterSnapshot, list[Finding]]:
        while True:
            snapshot = await checks.snapshot_cluster(client)
            findings = checks.find_problems(snapshot)
            if checks.is_healthy(findings) or time.monotonic() >= deadline:
                return snapshot, findings
            await asyncio.sleep(POLL_S)

    snapshot, findings = session.run(work, wait_s=wait)
    healthy = checks.is_healthy(findings)
    if session.as_json:
        print_json(_as_dict(snapshot, findings, healthy))
    else:
        _print(snapshot, findings, healthy)
    if not healthy:
        raise typer.Exit(1)


def _counts(snapshot: ClusterSnapshot) -> dict[str, int]:
    return {
        "brokers": sum(not broker.fenced for broker in snapshot.info.brokers),
        "topics": len(snapshot.topics),
        "partitions": sum(len(topic.partitions) for topic in snapshot.topics),
        "reassignments": len(snapshot.reassignments),
    }


def _as_dict(snapshot: ClusterSnapshot, findings: list[Finding], healthy: bool) -> dict[str, object]:
    quorum = snapshot.quorum
    return {
        "healthy": healthy,
        "cluster_id": snapshot.info.cluster_id,
        "quorum_leader": None if quorum is None else quorum.leader,
        **_counts(snapshot),
        "findings": [asdict(finding) for finding in findings],
    }


def _print(snapshot: ClusterSnapshot, findings: list[Finding], healthy: bool) -> None:
    counts = ", ".join(f"{count} {what if count != 1 else what[:-1]}" for what, count in _counts(snapshot).items())
    console().print(f"cluster {snapshot.info.cluster_id}: {counts}", markup=False)
    if findings:
        print_table(("severity", "what", "where", "detail"), [[f.severity, f.what, f.where, f.text] for f in findings])
    console().print("healthy" if healthy else "NOT healthy", style="bold green" if healthy else "bold red")
