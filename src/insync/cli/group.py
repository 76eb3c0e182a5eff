"""`insync group`: consumer groups and their lag; resetting offsets and deleting groups."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from insync.cli.completion import complete_groups, complete_topics
from insync.cli.exits import usage_error
from insync.cli.output import console, print_json, print_rows, print_table
from insync.cli.parsing import moment, numbers
from insync.cli.session import Session
from insync.client import groups, offsets, topics
from insync.client.client import Client
from insync.client.errors import ClientError, UnknownTopicError
from insync.client.model import Group, Topic, TopicPartition
from insync.escaping import printable

app = typer.Typer(help="Consumer groups.", no_args_is_help=True)

GroupId = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)]
Row = dict[str, Any]


@app.command(name="list")
def list_groups(*, session: Session) -> None:
    """List all groups."""
    listed = session.run(groups.list_groups)
    rows = [{"group": g.id, "state": g.state, "type": g.protocol_type, "coordinator": g.coordinator} for g in listed]
    print_rows(("group", "state", "type", "coordinator"), rows, as_json=session.as_json, empty="no groups")


@app.command()
def describe(group: GroupId, *, session: Session) -> None:
    """Show members, committed offsets and lag."""

    async def work(client: Client) -> tuple[Group, list[Row]]:
        described = await groups.describe(client, group)
        return described, await lag_rows(client, described)

    described, rows = session.run(work)
    total = sum(row["lag"] or 0 for row in rows)
    if session.as_json:
        print_json(_as_dict(described, rows, total))
        return
    count = len(described.members)
    console().print(
        f"{described.id}  {described.state}  coordinator {described.coordinator}  "
        f"{count} {'member' if count == 1 else 'members'}  lag {total}",
        markup=False,
    )
    if described.members:
        members = [[m.id, m.client_id, m.host, m.instance, len(m.assigned)] for m in described.members]
        print_table(("member", "client id", "host", "instance", "partitions"), members)
    columns = ("topic", "partition", "committed", "end", "lag", "member")
    print_table(columns, [[row[column] for column in columns] for row in rows])


@app.command()
def lag(*, session: Session) -> None:
    """Show the lag of all groups: records that they have not read yet."""

    async def work(client: Client) -> list[Row]:
        rows = []
        for listed in await groups.list_groups(client):
            described = await groups.describe(client, listed.id)
            partitions = await lag_rows(client, described)
            rows.append(
                {
                    "group": described.id,
                    "state": described.state,
                    "members": len(described.members),
                    "partitions": len(partitions),
                    "lag": sum(row["lag"] or 0 for row in partitions),
                }
            )
        return sorted(rows, key=lambda row: -int(row["lag"]))

    columns = ("group", "state", "members", "partitions", "lag")
    print_rows(columns, session.run(work), as_json=session.as_json, empty="no groups")


def _as_dict(group: Group, rows: list[Row], total: int) -> dict[str, Any]:
    return {
        "group": group.id,
        "state": group.state,
        "type": group.protocol_type,
        "protocol": group.protocol,
        "coordinator": group.coordinator,
        "lag": total,
        "members": [
            {"id": m.id, "client_id": m.client_id, "host": m.host, "instance": m.instance, "partitions": m.assigned}
            for m in group.members
        ],
        "partitions": rows,
    }


async def lag_rows(client: Client, group: Group) -> list[Row]:
    """One row per partition that the group has committed or is assigned."""
    committed = await groups.list_committed_offsets(client, group.id)
    owners = {key: member for member in group.members for key in member.assigned}
    keys = sorted({*committed, *owners})
    found = await _describe_existing(client, sorted({topic for topic, _ in keys}))
    known = {(topic.name, p.index) for topic in found for p in topic.partitions}
    ends = await offsets.list_offsets(client, found, {key: offsets.LATEST for key in keys if key in known})
    rows = []
    for key in keys:
        end = ends[key].offset if key in ends else -1
        owner = owners.get(key)
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "committed": committed.get(key),
                "end": None if end < 0 else end,
                "lag": groups.compute_lag(committed.get(key), end),
                "member": None if owner is None else owner.id,
                "client_id": None if owner is None else owner.client_id,
            }
        )
    return rows


async def _describe_existing(client: Client, names: list[str]) -> list[Topic]:
    described: list[Topic] = []
    for name in names:
        try:
            described += await topics.describe(client, [name])
        except UnknownTopicError:
            continue  # deleted, but its committed offsets remain
    return described


@app.command()
def reset(
    group: GroupId,
    topic: Annotated[
        str,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Topic; default: all with committed offsets.",
            autocompletion=complete_topics,
        ),
    ] = "",
    partition: Annotated[str, typer.Option("--partition", "-p", metavar="0,1", help="Partitions; default: all.")] = "",
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="WHERE", help="beginning, end, an offset, or +N/-N relative to the committed one."
        ),
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Move to a time: ISO 8601, 15m (ago), or ms since 1970.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    *,
    session: Session,
) -> None:
    """Set the committed offsets of a group without members: to the beginning, the end, an offset or a time."""
    if bool(to) == bool(since):
        raise usage_error("give either --to beginning|end|OFFSET|+N|-N or --since TIME")
    if to and to not in ("beginning", "end") and not to.lstrip("+-").isdecimal():
        raise usage_error(f"--to {to}: write beginning, end, an offset, or +N/-N")
    if partition and not topic:
        raise usage_error("--partition needs --topic")
    wanted = numbers(partition, "partitions") if partition else []
    since_ms = moment(since, time.time_ns() // 1_000_000) if since else None

    async def work(client: Client) -> list[Row]:
        committed = await groups.list_committed_offsets(client, group)
        keys, found = await _select_partitions(client, group, committed, topic, wanted)
        targets = await _target_offsets(client, found, keys, committed, to, since_ms)
        if not dry_run:
            await groups.commit_offsets(client, group, targets)
        return [
            {"topic": key[0], "partition": key[1], "before": committed.get(key), "after": targets[key]} for key in keys
        ]

    rows = session.run(work)
    if session.as_json:
        print_json({"group": group, "moved": not dry_run, "partitions": rows})
    else:
        print_table(("topic", "partition", "before", "after"), [list(row.values()) for row in rows])
        typer.echo("nothing was changed (--dry-run)" if dry_run else f"group '{printable(group)}' moved")


async def _select_partitions(
    client: Client, group: str, committed: dict[TopicPartition, int], topic: str, wanted: list[int]
) -> tuple[list[TopicPartition], list[Topic]]:
    names = [topic] if topic else sorted({name for name, _ in committed})
    if not names:
        raise ClientError(f"group '{group}' has no committed offsets: give a topic with --topic")
    found = await topics.describe(client, names)
    known = [(t.name, p.index) for t in found for p in t.partitions]
    for index in wanted:
        if (topic, index) not in known:
            raise ClientError(f"topic '{topic}' has no partition {index}, only 0 to {len(known) - 1}")
    keys = [key for key in known if not wanted or key[1] in wanted]
    return keys if topic else [key for key in keys if key in committed], found


async def _target_offsets(
    client: Client,
    found: list[Topic],
    keys: list[TopicPartition],
    committed: dict[TopicPartition, int],
    to: str,
    since_ms: int | None,
) -> dict[TopicPartition, int]:
    """The new offsets, limited to the range of each log."""
    first = await offsets.list_offsets_with_retry(client, dict.fromkeys(keys, offsets.EARLIEST), known=found)
    last = await offsets.list_offsets_with_retry(client, dict.fromkeys(keys, offsets.LATEST), known=found)
    if since_ms is not None:
        at = await offsets.list_offsets_with_retry(client, dict.fromkeys(keys, since_ms), known=found)
        return {key: at[key].offset if at[key].offset >= 0 else last[key].offset for key in keys}
    if to in ("beginning", "end"):
        return {key: (first if to == "beginning" else last)[key].offset for key in keys}
    moved = {key: int(to) + (committed.get(key, 0) if to[0] in "+-" else 0) for key in keys}
    return {key: min(max(moved[key], first[key].offset), last[key].offset) for key in keys}


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP", autocompletion=complete_groups)], *, session: Session
) -> None:
    """Delete groups without members, and their committed offsets."""
    session.delete_all("group", names, groups.delete)
