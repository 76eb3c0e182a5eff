"""`insync completion SHELL`: a script that completes commands, options, topics, groups and brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from insync.cli.exits import usage_error

if TYPE_CHECKING:
    from insync.client.client import Client

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_INSYNC_COMPLETE"
TIMEOUT_S = 1.0
"""How long the names of a cluster may take: a shell waits for them."""
WHERE = {
    "bash": 'eval "$(insync completion bash)"\' to ~/.bashrc',
    "zsh": 'eval "$(insync completion zsh)"\' to ~/.zshrc, after compinit',
    "fish": "insync completion fish | source' to ~/.config/fish/config.fish",
}


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.", autocompletion=lambda: SHELLS)],
) -> None:
    """Print a script that completes commands, options and names. Evaluate it in the start file of the shell."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise usage_error(f"'{shell}' is not one of {', '.join(SHELLS)}")
    typer.echo(f"# Add '{WHERE[shell]}.")
    typer.echo(get_completion_script(prog_name="insync", complete_var=VARIABLE, shell=shell))


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    from insync.client import topics

    async def names(client: Client) -> list[str]:
        return [topic.name for topic in await topics.describe(client) if incomplete or not topic.internal]

    return _matching(ctx, incomplete, names)


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    from insync.client import groups

    async def names(client: Client) -> list[str]:
        return [group.id for group in await groups.list_groups(client)]

    return _matching(ctx, incomplete, names)


def complete_brokers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of a list with commas, the last one is completed."""
    before, comma, last = incomplete.rpartition(",")

    async def names(client: Client) -> list[str]:
        rest = [broker for broker in sorted(client.brokers) if str(broker) not in before.split(",")]
        return [f"{before}{comma}{broker}" for broker in rest]

    return _matching(ctx, before + comma + last, names)


def _matching(ctx: typer.Context, incomplete: str, names: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """Nothing if the cluster does not answer: a shell has no place for an error."""
    from insync.cli import client_config
    from insync.cli.running_cluster import resolve_bootstrap
    from insync.client.client import Client
    from insync.client.settings import DEFAULT_SETTINGS

    async def ask(bootstrap: str, settings: Any) -> list[str]:
        async with (
            asyncio.timeout(TIMEOUT_S),
            Client.connect(bootstrap, timeout_s=TIMEOUT_S, settings=settings) as client,
        ):
            return await names(client)

    with suppress(Exception, typer.Exit):
        bootstrap, file = resolve_bootstrap(ctx.params.get("bootstrap") or "")
        file = ctx.params.get(client_config.PARAMETER) or file
        settings = DEFAULT_SETTINGS if file is None else client_config.read_settings(file)
        return [name for name in asyncio.run(ask(bootstrap, settings)) if name.startswith(incomplete)]
    return []
