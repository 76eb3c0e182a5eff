"""An asyncio client for any cluster that speaks Kafka's protocol: administration, producing and fetching.

    async with Client.connect("localhost:9092") as client:
        for topic in await topics.describe(client):
            ...

`Client` keeps one connection per broker and retries while leaders change. The functions that use it are in the modules
`topics`, `groups`, `offsets` and `admin`; `Producer` writes and `Reader` reads. Answers are the small classes of
`model`. Every failure is a `ClientError` whose text says what to do. `SyncClient` is for callers without an event loop.

API versions are negotiated per connection (`connection`, `apis`). A request is written once, as plain values, and
reduced to the fields of the negotiated version (`request_builder`).

The names in `__all__` are public. They are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from insync.client import admin, errors, groups, model, offsets, topics
    from insync.client.client import Client
    from insync.client.consumer import ConsumedRecord, FetchedBatches, Reader
    from insync.client.errors import ClientError
    from insync.client.producer import Producer, WrittenBatch
    from insync.client.settings import ClientSettings
    from insync.client.sync_client import SyncClient

__all__ = [
    "Client",
    "ClientError",
    "ClientSettings",
    "ConsumedRecord",
    "FetchedBatches",
    "Producer",
    "Reader",
    "SyncClient",
    "WrittenBatch",
    "admin",
    "errors",
    "groups",
    "model",
    "offsets",
    "topics",
]

_MODULES = {
    "Client": "client",
    "ClientError": "errors",
    "ClientSettings": "settings",
    "ConsumedRecord": "consumer",
    "FetchedBatches": "consumer",
    "Producer": "producer",
    "Reader": "consumer",
    "SyncClient": "sync_client",
    "WrittenBatch": "producer",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"insync.client.{_MODULES[name]}"), name)
    if name in __all__:
        return import_module(f"insync.client.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
