"""`insync topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from insync.cli.completion import complete_topics
from insync.cli.exits import usage_error
from insync.cli.output import console, print_json, print_rows, print_table, report
from insync.cli.parsing import MAX_INT, numbers, pairs
from insync.cli.session import Session
from insync.client import topics
from insync.client.client import Client
from insync.client.model import NO_NODE, Config, Partition, Topic

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
    for count, what in ((partitions, "--partitions"), (replication, "--replication")):
        if count < 1 and count != -1:
            raise usage_error(f"{what} {count}: must be at least 1")
        if count > MAX_INT:
            raise usage_error(f"{what} {count}: is too large")
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
    *,
    session: Session,
) -> None:
    """Show leaders, replicas, ISR and ELR of every partition, and the configs that the topic itself sets."""

    async def work(client: Client) -> list[tuple[Topic, list[Config]]]:
        described = await topics.describe(client, names or None)
        return [(topic, await _own_configs(client, topic)) for topic in described]

    described = session.run(work)
    if session.as_json:
        print_json([as_dict(topic, configs) for topic, configs in described])
        return
    for topic, configs in described:
        settings = ", ".join(f"{config.name}={config.value}" for config in configs)
        console().print(f"{topic.name}  id {topic.id}" + (f"  {settings}" if settings else ""), markup=False)
        columns = ("partition", "leader", "epoch", "replicas", "isr", "elr", "last-known elr", "state")
        print_table(columns, [_row(p) for p in topic.partitions])


async def _own_configs(client: Client, topic: Topic) -> list[Config]:
    configs = await topics.describe_configs(client, topic.name)
    return sorted((c for c in configs.values() if c.source == OWN_CONFIG), key=lambda config: config.name)


def _row(p: Partition) -> list[Any]:
    leader = None if p.leader == NO_NODE else p.leader
    return [p.index, leader, p.leader_epoch, p.replicas, p.isr, p.elr, p.last_known_elr, _state(p)]


def _state(p: Partition) -> str:
    if p.leader == NO_NODE:
        return "no leader"
    return "under-replicated" if len(p.isr) < len(p.replicas) else "ok"


def as_dict(topic: Topic, configs: list[Config]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": str(topic.id),
        "internal": topic.internal,
        "configs": {config.name: config.value for config in configs},
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
