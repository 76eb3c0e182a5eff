"""The clients of a Python worker: tasks that follow each other share the connections to a cluster.

A worker runs one task at a time, and Spark keeps it for the next. So a worker has at most one connection to each broker
for each kind of use (reading or writing, with the same settings), however many tasks it runs, and a task that knows its
leader from the plan connects to no other broker. The bootstrap addresses are tried in random order, so that many
workers that start together do not all begin at the same broker.
"""

from __future__ import annotations

import random

from insync.client.settings import ClientSettings
from insync.client.sync_client import SyncClient

MAX_CLIENTS = 4
"""In one worker. With more clusters or settings, the client that was unused for longest is closed."""

_clients: dict[tuple[str, str, float, ClientSettings], SyncClient] = {}


def get_client(bootstrap: str, *, client_id: str, timeout_s: float, settings: ClientSettings) -> SyncClient:
    """Not to be closed. It connects when it is used, and replaces lost connections itself."""
    key = bootstrap, client_id, timeout_s, settings
    client = _clients.pop(key, None)
    while client is None and len(_clients) >= MAX_CLIENTS:
        _clients.pop(next(iter(_clients))).close()
    if client is None:
        addresses = bootstrap.split(",")
        client = SyncClient(
            ",".join(random.sample(addresses, len(addresses))),
            timeout_s=timeout_s,
            client_id=client_id,
            settings=settings,
            lazy=True,
        )
    _clients[key] = client  # the last one used comes last
    return client
