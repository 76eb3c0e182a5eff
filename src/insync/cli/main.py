"""The `insync` command: the table of commands, with one module per group of commands.

The module of a command is imported when the command runs: starting a node should not wait for the simulator to load.
"""

from __future__ import annotations

import os
from typing import Any

import typer
from typer._completion_classes import completion_init

from insync.cli.completion import VARIABLE
from insync.cli.exits import errors_reported
from insync.cli.lazy import LazyGroup
from insync.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo.demo", "Watch a real cluster, and an archive on Spark, survive a bad day."),
    "up": ("up.up", "Start a cluster on this machine and stop it on Ctrl-C."),
    "down": ("local.down", "Stop a local cluster."),
    "status": ("local.status", "Show the local clusters that run, and their nodes."),
    "logs": ("local.logs", "Print the logs of nodes of a local cluster, ordered by time."),
    "restart": (
        "local.restart",
        "Restart a node of a local cluster, or start one that has ended; returns when it answers.",
    ),
    "node": ("node.node", "Run one node until SIGTERM or Ctrl-C, which shut it down cleanly."),
    "format": (
        "format.format_node",
        "Write meta.properties into the node's log directory; an existing one is kept.",
    ),
    "topic": ("topic.app", "Topics and their configs."),
    "produce": (
        "produce.produce",
        "Write records to a topic, idempotently with acks=all, and print their offsets.",
    ),
    "consume": ("consume.consume", "Read a topic from the beginning, an offset or a time."),
    "group": ("group.app", "Consumer groups."),
    "acl": ("acl.app", "Access control lists: who may do what."),
    "user": ("user.app", "Users that log in by SCRAM."),
    "quota": ("quota.app", "Quotas: limits of users, client ids and addresses."),
    "reassign": ("reassign.app", "Move partitions to other brokers."),
    "elect": ("elect.elect", "Make the first replica of each partition its leader."),
    "quorum": (
        "quorum.app",
        "Show the metadata quorum: leader, epoch, high watermark, voters and observers with their lag.",
    ),
    "broker": ("broker.app", "Brokers: what they hold, and their configs."),
    "health": ("health.health", "Check brokers, quorum, disks and every partition."),
    "explain": (
        "explain.explain",
        "Why is a replica not in the ISR, why do writes fail, what would an unclean election lose?",
    ),
    "strays": ("strays.app", "Directories and files that a node has set aside."),
    "top": ("top.top", "Watch a cluster."),
    "chaos": (
        "chaos.chaos",
        "Break a real cluster under load and check that nothing acknowledged is lost, duplicated or reordered.",
    ),
    "pipeline": ("pipeline.app", "Jobs on Spark: archive, compact, replay, mirror, audit, health, capacity, campaign."),
    "sim": ("sim.app", "The deterministic simulator: the code of the nodes, under faults."),
    "rule": ("rule.rule", "Print rules of the protocol by their ids, as code, errors and scenarios cite them."),
    "version": ("version.version", "Print the versions of insync, of Python and of what it uses."),
    "completion": ("completion.completion", "Print a script that completes commands, options and names."),
}
"""By name: (a function, or an app of several commands, in a module of this package; its one-line help)."""


SECTIONS: dict[str, tuple[str, ...]] = {
    "Clusters on this machine": ("up", "down", "status", "logs", "restart", "demo", "node", "format"),
    "Topics and records": ("topic", "produce", "consume", "group"),
    "Operations": ("broker", "health", "explain", "top", "reassign", "elect", "quorum", "strays"),
    "Security": ("acl", "user", "quota"),
    "Tests and proofs": ("sim", "chaos", "rule"),
    "Spark": ("pipeline",),
    "This command": ("version", "completion"),
}


class _Group(LazyGroup):
    table = COMMANDS
    sections = SECTIONS

    def invoke(self, ctx: Any) -> Any:
        with errors_reported():
            return super().invoke(ctx)


if VARIABLE in os.environ:  # a shell asks for completions
    completion_init()

app = typer.Typer(
    name="insync",
    cls=_Group,
    help="Kafka's replication protocol, to run, break on purpose, and prove.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"insync {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of every command."""
