"""`insync topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from insync.cli.completion import complete_topics
from insync.cli.config_sources import config_rows
from insync.cli.exits import usage_error
from insync.cli.output import console, count, print_json, print_rows, print_table, report, size
from insync.cli.parsing import MAX_INT, numbers, pairs
from insync.cli.session import Session
from insync.client import offsets, topics
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode
from insync.client.model import NO_NODE, Config, Partition, Topic, TopicPartition
from insync.storage.checkpoints import encode_uuid

app = typer.Typer(help="Topics and their configs.", no_args_is_help=True)

OWN_CONFIG = 1
"""The config source of a topic's own configs."""

Name = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Number of partitions; -1: the cluster's default.")
    ] = -1,
    replication: Annotated[int, typer.Option("--replication", "-r", help="Replicas; -1: the cluster's default.")] = -1,
    config: Annotated[list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE")] = None,
    assign: Annotated[
        str, typer.Option("--assign", metavar="1,2/2,3", help="Brokers of each partition, preferred leader first.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate the request.")] = False,
    *,
    session: Session,
) -> None:
    """Create a topic."""
    for number, what in ((partitions, "--partitions"), (replication, "--replication")):
        if number < 1 and number != -1:
            raise usage_error(f"{what} {number}: must be at least 1")
        if number > MAX_INT:
            raise usage_error(f"{what} {number}: is too large")
    if assign and (partitions, replication) != (-1, -1):
        raise usage_error(
            "--assign determines the number of partitions and replicas: omit --partitions and --replication"
        )
    configs = pairs(config or [], "config")
    assignment = [numbers(part, "brokers") for part in assign.split("/")] if assign else []

    async def work(client: Client) -> None:
        await topics.create(
            client,
            name,
            partitions=partitions,
            replication_factor=replication,
            assignment=assignment,
            configs=configs,
            validate_only=dry_run,
        )

    session.run(work)
    report(
        {"topic": name, "created": not dry_run},
        f"topic '{name}' {'could be created' if dry_run else 'created'}",
        as_json=session.as_json,
    )


@app.command(name="list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False, *, session: Session
) -> None:
    """List topics, with the number of their partitions and of those with problems."""
    listed = [topic for topic in session.run(topics.describe) if internal or not topic.internal]
    columns = ("topic", "partitions", "replicas", "without leader", "under-replicated")
    empty = "no topics; create one with `insync topic create NAME`"
    print_rows(columns, [_summary(topic) for topic in listed], as_json=session.as_json, empty=empty)


def _summary(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(p.replicas) for p in topic.partitions), default=0),
        "without_leader": sum(p.leader == NO_NODE for p in topic.partitions),
        "under_replicated": sum(len(p.isr) < len(p.replicas) for p in topic.partitions),
    }


@app.command()
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; default: all.", autocompletion=complete_topics)
    ] = None,
    all_configs: Annotated[
        bool, typer.Option("--configs", help="Show every config with its source, not only those of the topic.")
    ] = False,
    *,
    session: Session,
) -> None:
    """Show leaders, replicas, ISR and ELR, offsets and size of every partition, and the configs of the topic."""

    async def work(client: Client) -> tuple[list[tuple[Topic, list[Config]]], _Logs]:
        described = await topics.describe(client, names or None)
        logs = await _read_logs(client, described)
        return [(topic, await _configs(client, topic)) for topic in described], logs

    described, logs = session.run(work)
    if session.as_json:
        print_json([as_dict(topic, configs, logs, all_configs=all_configs) for topic, configs in described])
        return
    if not described:
        typer.echo("no topics; create one with `insync topic create NAME`")
    for topic, configs in described:
        settings = ", ".join(f"{config.name}={config.value}" for config in configs if config.source == OWN_CONFIG)
        head = f"{topic.name}  id {encode_uuid(topic.id)}"
        console().print(head + (f"  {settings}" if settings else ""), markup=False)
        columns = (
            *("partition", "leader", "epoch", "replicas", "isr", "elr", "last-known elr"),
            *("first", "end", "size", "state"),
        )
        print_table(columns, [_row(topic, p, logs) for p in topic.partitions])
        if all_configs:
            rows = config_rows(configs, every=True)
            print_table(("config", "value", "source"), [list(row.values()) for row in rows])


@dataclass(frozen=True, slots=True)
class _Logs:
    """By partition, as far as leaders answer: where the log begins and ends, and its bytes."""

    first: dict[TopicPartition, int]
    end: dict[TopicPartition, int]
    size: dict[TopicPartition, int]


async def _read_logs(client: Client, described: list[Topic]) -> _Logs:
    try:
        first, end = [
            await offsets.list_leader_offsets(client, described, at) for at in (offsets.EARLIEST, offsets.LATEST)
        ]
    except ClientError:  # a leader does not answer: the description of the topic is still worth showing
        first, end = {}, {}
    leaders = {(topic.name, p.index): p.leader for topic in described for p in topic.partitions}
    replicas = await offsets.describe_replica_logs(
        client, sorted(set(leaders.values()) & set(client.brokers)), described
    )
    return _Logs(
        {key: offset.offset for key, offset in first.items() if offset.error is ErrorCode.none},
        {key: offset.offset for key, offset in end.items() if offset.error is ErrorCode.none},
        {key: replicas[leader][key].size for key, leader in leaders.items() if key in replicas.get(leader, {})},
    )


async def _configs(client: Client, topic: Topic) -> list[Config]:
    configs = await topics.describe_configs(client, topic.name)
    return sorted(configs.values(), key=lambda config: config.name)


def _row(topic: Topic, p: Partition, logs: _Logs) -> list[Any]:
    leader = None if p.leader == NO_NODE else p.leader
    key = (topic.name, p.index)
    return [
        p.index, leader, p.leader_epoch, p.replicas, p.isr, p.elr, p.last_known_elr, count(logs.first.get(key)),
        count(logs.end.get(key)), size(logs.size.get(key)), _state(p),
    ]  # fmt: skip


def _state(p: Partition) -> str:
    if p.leader == NO_NODE:
        return "no leader"
    return "under-replicated" if len(p.isr) < len(p.replicas) else "ok"


def as_dict(topic: Topic, configs: list[Config], logs: _Logs, *, all_configs: bool) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": encode_uuid(topic.id),
        "internal": topic.internal,
        "configs": {config.name: config.value for config in configs if config.source == OWN_CONFIG},
        **({"all_configs": config_rows(configs, every=True)} if all_configs else {}),
        "partitions": [
            {
                "partition": p.index,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": p.replicas,
                "isr": p.isr,
                "elr": p.elr,
                "last_known_elr": p.last_known_elr,
                "offline": p.offline,
                "first_offset": logs.first.get((topic.name, p.index)),
                "end_offset": logs.end.get((topic.name, p.index)),
                "bytes": logs.size.get((topic.name, p.index)),
                "state": _state(p),
            }
            for p in topic.partitions
        ],
    }


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=0, max=MAX_INT, help="Increase to this number.")
    ] = 0,
    config: Annotated[list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE")] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="Reset a config to its default.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Add partitions, set configs, or reset them."""
    changes: dict[str, str | None] = {**pairs(config or [], "config"), **dict.fromkeys(reset or [])}
    if not partitions and not changes:
        raise usage_error("nothing to alter: give --partitions, --config or --reset")

    async def work(client: Client) -> None:
        if changes:
            await topics.alter_configs(client, name, changes)
        if partitions:
            await topics.create_partitions(client, name, partitions)

    session.run(work)
    report({"topic": name, "altered": True}, f"topic '{name}' altered", as_json=session.as_json)


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", autocompletion=complete_topics)], *, session: Session
) -> None:
    """Delete topics and all their records."""
    session.delete_all("topic", names, topics.delete)
