"""Commands that talk to a cluster: connect, do the work, print errors.

Wrong arguments exit with 2 and failures with 1; both print one sentence on stderr.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import typer

from insync.cli import client_config
from insync.cli.exits import failure, usage_error
from insync.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, AsJson, Bootstrap, Timeout
from insync.cli.output import print_json
from insync.cli.suggestions import suggest_names
from insync.client.client import Client
from insync.client.errors import AddressError, ClientError, NoBrokerError
from insync.escaping import printable

T = TypeVar("T")

CONNECT_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The options of every command that talks to a cluster, as a group, and what the command does with them."""

    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
    timeout: Timeout = DEFAULT_TIMEOUT
    as_json: AsJson = False

    def run(self, work: Callable[[Client], Awaitable[T]], *, wait_s: float = 0.0) -> T:
        """Connect, do the work and close; errors of the cluster are printed and become an exit code.

        As long as no broker can be reached, all of it is tried again for `wait_s` seconds.
        """
        try:
            return asyncio.run(self._retry_connecting(work, wait_s))
        except AddressError as error:
            raise usage_error(str(error)) from None
        except ClientError as error:
            raise failure(reason(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None

    async def _retry_connecting(self, work: Callable[[Client], Awaitable[T]], wait_s: float) -> T:
        deadline = time.monotonic() + wait_s
        settings = client_config.current_settings()
        while True:
            try:
                async with Client.connect(self.bootstrap, timeout_s=self.timeout, settings=settings) as client:
                    return await suggest_names(client, work)
            except NoBrokerError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(CONNECT_INTERVAL_S)

    def delete_all(self, kind: str, names: Sequence[str], delete: Callable[[Client, str], Awaitable[object]]) -> None:
        """Delete one after the other, and say so of each: those before one that fails are gone."""

        async def work(client: Client) -> None:
            for name in names:
                await delete(client, name)
                if not self.as_json:
                    typer.echo(f"{kind} '{printable(name)}' deleted")

        self.run(work)
        if self.as_json:
            print_json({"deleted": list(names)})


def reason(error: Exception) -> str:
    """The error; if no broker answers, also how to name one."""
    hint = " Set its address with --bootstrap HOST:PORT or INSYNC_BOOTSTRAP"
    return f"{error}{hint if isinstance(error, NoBrokerError) else ''}"
