"""`insync quorum`: the metadata quorum, its leader and the lag of its replicas; `set-voters` changes the voters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from insync.cli.exits import failure, usage_error
from insync.cli.output import console, print_json, print_table
from insync.cli.parsing import iso
from insync.cli.session import Session
from insync.client import admin
from insync.client.model import QuorumReplica, QuorumState

app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def quorum(context: typer.Context, *, session: Session) -> None:
    """Show the metadata quorum: leader, epoch, high watermark, voters and observers with their lag."""
    if context.invoked_subcommand is not None:
        return
    state = session.run(admin.describe_quorum)
    rows = [_row(state, r, "voter") for r in state.voters] + [_row(state, r, "observer") for r in state.observers]
    if session.as_json:
        print_json({"leader": state.leader, "epoch": state.epoch, "hwm": state.high_watermark, "replicas": rows})
        return
    console().print(f"leader {state.leader}  epoch {state.epoch}  high watermark {state.high_watermark}")
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


@app.command("set-voters")
def set_voters(
    voters: Annotated[str, typer.Argument(metavar="ID[,ID...]", help="Ids of all voters.")],
    data: Annotated[Path, typer.Option(help="The cluster's directory, as in `insync up --data`.")],
) -> None:
    """Change the voters of a cluster whose nodes are all stopped. Committed metadata is kept."""
    from insync.server.startup_error import StartupError
    from insync.server.voter_change import set_voters as change

    ids = [voter.strip() for voter in voters.split(",")]
    if not all(voter.isdecimal() for voter in ids):
        raise usage_error(f"{voters!r} is not a list of node ids, such as 1,2,3")
    try:
        change(data.resolve(), [int(voter) for voter in ids], typer.echo)
    except (StartupError, OSError) as error:
        raise failure(str(error)) from None


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
