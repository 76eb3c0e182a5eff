"""Commands that talk to a cluster: connect, do the work, print errors.

Wrong arguments exit with 2 and failures with 1; both print one sentence on stderr.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import typer

from insync.cli import client_config
from insync.cli.exits import failure, usage_error
from insync.cli.output import print_json
from insync.client.client import Client
from insync.client.errors import AddressError, ClientError, NoBrokerError
from insync.escaping import printable

T = TypeVar("T")

CONNECT_INTERVAL_S = 0.1


def run(bootstrap: str, timeout: float, work: Callable[[Client], Awaitable[T]], *, wait_s: float = 0.0) -> T:
    """Connect, do the work and close; errors of the cluster are printed and become an exit code.

    As long as no broker can be reached, all of it is tried again for `wait_s` seconds.
    """

    async def session() -> T:
        async with Client.connect(bootstrap, timeout_s=timeout, settings=client_config.current_settings()) as client:
            return await work(client)

    async def sessions() -> T:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return await session()
            except NoBrokerError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(CONNECT_INTERVAL_S)

    try:
        return asyncio.run(sessions())
    except AddressError as error:
        raise usage_error(str(error)) from None
    except ClientError as error:
        raise failure(reason(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def delete_all(
    kind: str,
    names: Sequence[str],
    delete: Callable[[Client, str], Awaitable[object]],
    *,
    bootstrap: str,
    timeout: float,
    as_json: bool,
) -> None:
    """Delete one after the other, and say so of each: those before one that fails are gone."""

    async def work(client: Client) -> None:
        for name in names:
            await delete(client, name)
            if not as_json:
                typer.echo(f"{kind} '{printable(name)}' deleted")

    run(bootstrap, timeout, work)
    if as_json:
        print_json({"deleted": list(names)})


def reason(error: Exception) -> str:
    """The error; if no broker answers, also how to name one."""
    hint = " Set its address with --bootstrap HOST:PORT or INSYNC_BOOTSTRAP"
    return f"{error}{hint if isinstance(error, NoBrokerError) else ''}"
