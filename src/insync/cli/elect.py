"""`insync elect`: elect preferred leaders, or unclean ones on explicit request (E1, E7)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from insync.cli.completion import complete_topics
from insync.cli.exits import failure, usage_error
from insync.cli.output import print_json, print_table
from insync.cli.session import Session
from insync.client import admin, topics
from insync.client.client import Client
from insync.client.errors import ErrorCode, error_name
from insync.client.model import NO_NODE, TopicPartition


def elect(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic; default: all.", autocompletion=complete_topics)
    ] = "",
    partition: Annotated[int, typer.Argument(metavar="PARTITION", help="Partition; default: all.")] = -1,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Elect a replica that may lack records, which are lost then.")
    ] = False,
    *,
    session: Session,
) -> None:
    """Make the first replica of each partition its leader. --unclean is for partitions without a complete replica."""
    if unclean and (not topic or partition < 0):
        raise usage_error("--unclean loses records: give a topic and a partition, and run `insync explain` first")

    async def work(client: Client) -> tuple[admin.Results, dict[TopicPartition, int]]:
        if topic and partition >= 0:
            await topics.describe_partition(client, topic, partition)
        keys = await _partitions_to_elect(client, topic, partition, unclean)
        results = await admin.elect_leaders(client, admin.UNCLEAN if unclean else admin.PREFERRED, keys) if keys else {}
        names = sorted({name for name, _ in results})
        described = await topics.describe(client, names)
        return results, {(t.name, p.index): p.leader for t in described for p in t.partitions}

    results, leaders = session.run(work)
    rows = [_row(key, code, message, leaders.get(key, NO_NODE)) for key, (code, message) in sorted(results.items())]
    refused = [row for row in rows if row["result"] == "refused"]
    if session.as_json:
        print_json(rows)
    elif rows:
        print_table(("topic", "partition", "result", "leader", "why"), [list(row.values()) for row in rows])
    else:
        typer.echo("every partition has its preferred leader")
    if refused:
        raise failure(f"{len(refused)} of {len(rows)} elections were refused")


async def _partitions_to_elect(client: Client, topic: str, partition: int, unclean: bool) -> list[TopicPartition]:
    """Only the partitions that need an election: brokers would answer ELECTION_NOT_NEEDED for all others."""
    described = await topics.describe(client, [topic] if topic else None)
    keys = [(t.name, p) for t in described for p in t.partitions if partition < 0 or p.index == partition]
    return [(name, p.index) for name, p in keys if unclean or p.leader != p.preferred]


def _row(key: TopicPartition, code: ErrorCode, message: str, leader: int) -> dict[str, Any]:
    result = {ErrorCode.none: "elected", ErrorCode.election_not_needed: "not needed"}.get(code, "refused")
    why = "" if result != "refused" else f"{error_name(code)} {message}".strip()
    return {"topic": key[0], "partition": key[1], "result": result, "leader": leader, "why": why}
