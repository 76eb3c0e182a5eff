"""`insync quorum`: who leads the metadata quorum and how far the others are."""

from __future__ import annotations

from typing import Any

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
from insync.cli.parsing import iso
from insync.client import admin
from insync.client.model import QuorumReplica, QuorumState


def quorum(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show the metadata quorum: leader, epoch, high watermark, voters and observers with their lag."""
    found = run(bootstrap, timeout, admin.quorum)
    rows = [_row(found, r, "voter") for r in found.voters] + [_row(found, r, "observer") for r in found.observers]
    if as_json:
        print_json({"leader": found.leader, "epoch": found.epoch, "hwm": found.high_watermark, "replicas": rows})
        return
    console().print(f"leader {found.leader}  epoch {found.epoch}  high watermark {found.high_watermark}")
    print_table(
        ("node", "role", "log end", "lag", "last fetch", "last caught up"),
        [
            [
                row["node"],
                row["role"],
                row["log_end"],
                row["lag"],
                iso(row["last_fetch_ms"]),
                iso(row["last_caught_up_ms"]),
            ]
            for row in rows
        ],
    )


def _row(state: QuorumState, replica: QuorumReplica, role: str) -> dict[str, Any]:
    ends = [voter.log_end_offset for voter in state.voters if voter.id == state.leader]
    end = ends[0] if ends else state.high_watermark
    return {
        "node": replica.id,
        "role": "leader" if replica.id == state.leader else role,
        "log_end": replica.log_end_offset,
        "lag": max(0, end - replica.log_end_offset) if replica.log_end_offset >= 0 else None,
        "last_fetch_ms": replica.last_fetch_ms,
        "last_caught_up_ms": replica.last_caught_up_ms,
    }
