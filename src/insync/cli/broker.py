"""`insync broker`: the brokers of a cluster, what they hold, and their configs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from insync.cli.completion import complete_brokers
from insync.cli.config_sources import config_rows
from insync.cli.output import console, print_json, print_rows, print_table, size
from insync.cli.session import Session
from insync.client import offsets, topics
from insync.client.client import Client
from insync.client.errors import ClientError
from insync.client.model import ClusterInfo, Config, LogDir, Topic

app = typer.Typer(help="Brokers: what they hold, and their configs.", no_args_is_help=True)


@app.command(name="list")
def list_brokers(*, session: Session) -> None:
    """List the brokers, with the partitions that they lead and hold."""

    async def work(client: Client) -> tuple[ClusterInfo, list[Topic]]:
        return await client.describe_cluster(), await topics.describe(client)

    info, described = session.run(work)
    partitions = [partition for topic in described for partition in topic.partitions]
    rows: list[dict[str, Any]] = [
        {
            "broker": broker.id,
            "address": broker.address,
            "rack": broker.rack,
            "state": "fenced" if broker.fenced else "ok",
            "leads": sum(partition.leader == broker.id for partition in partitions),
            "replicas": sum(broker.id in partition.replicas for partition in partitions),
        }
        for broker in sorted(info.brokers, key=lambda broker: broker.id)
    ]
    columns = ("broker", "address", "rack", "state", "leads", "replicas")
    print_rows(columns, rows, as_json=session.as_json, empty="no brokers")


@app.command()
def describe(
    broker: Annotated[int, typer.Argument(metavar="BROKER", min=0, help="Its id.", autocompletion=complete_brokers)],
    every: Annotated[bool, typer.Option("--all", help="Configs with their defaults too.")] = False,
    *,
    session: Session,
) -> None:
    """Show the log directories of a broker, and its configs with where they come from."""

    async def work(client: Client) -> tuple[list[LogDir], list[Config]]:
        if broker not in client.brokers:
            ids = ", ".join(str(broker_id) for broker_id in sorted(client.brokers))
            raise ClientError(f"there is no broker {broker}; the brokers that answer are {ids}")
        configs = await topics.describe_configs(client, str(broker), kind=topics.BROKER)
        return await offsets.describe_log_dirs(client, broker), list(configs.values())

    log_dirs, configs = session.run(work)
    directories: list[dict[str, Any]] = [
        {
            "directory": log_dir.path,
            "replicas": len(log_dir.replicas),
            "bytes": sum(replica.size for replica in log_dir.replicas.values()),
            "usable_bytes": log_dir.usable_bytes,
        }
        for log_dir in log_dirs
    ]
    rows = config_rows(configs, every=every)
    if session.as_json:
        print_json({"broker": broker, "directories": directories, "configs": rows})
        return
    print_table(
        ("directory", "replicas", "size", "free"),
        [[d["directory"], d["replicas"], size(d["bytes"]), size(d["usable_bytes"])] for d in directories],
    )
    console().print()
    print_table(("config", "value", "source"), [list(row.values()) for row in rows])
