"""The messages that nodes speak: one namespace per API, with the classes of the version that `wire.apis` pins.

    from insync.wire.messages import alter_partition, fetch
    fetch.FetchRequest(...), fetch.PartitionData(...), alter_partition.RequestPartition(...)

A namespace holds the classes of the API's request and response under kio's names. Where both have a class of one name,
a prefix tells them apart: `RequestPartition` and `ResponsePartition` (Kafka's PartitionData or PartitionSnapshot),
`RequestTopic` and `ResponseTopic`, `RequestSnapshotId` and `ResponseSnapshotId`.

The classes are frozen and keyword-only, and do not check their arguments. kio turns a few fields into richer Python
values; `insync.wire.types` converts those (`ms`, `millis`, `instant`). Type checkers read `messages.pyi`,
which `tools/make_message_stub.py` generates.

A namespace is filled when something is first looked up in it: making the classes of all APIs takes longer than the
rest of a node's start, and few nodes ever receive them all.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from insync.wire.apis import APIS, Api

WITHOUT_KIO = {
    "envelope": "insync.wire.envelope",
    "get_replica_log_info": "insync.wire.get_replica_log_info",
}
"""APIs that kio lacks, or that have more fields here, and the modules that define their classes."""


def __getattr__(name: str) -> ModuleType:
    if name not in APIS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    namespace = globals()[name] = _LazyNamespace(name)
    return namespace


def message_classes(api: Api) -> dict[str, type[Any]]:
    """The classes of an API's request and response in the pinned version, by their names in its namespace."""
    if api.name in WITHOUT_KIO:
        return _classes_in(WITHOUT_KIO[api.name])
    request = _classes_in(f"kio.schema.{api.name}.v{api.pinned}.request")
    response = _classes_in(f"kio.schema.{api.name}.v{api.pinned}.response")
    return {
        **{_name(name, "Request", response): cls for name, cls in request.items()},
        **{_name(name, "Response", request): cls for name, cls in response.items()},
    }


class _LazyNamespace(ModuleType):
    """Becomes an ordinary module object, whose attributes the interpreter finds fastest, on the first lookup."""

    def __init__(self, api_name: str) -> None:
        super().__init__(f"{__name__}.{api_name}")

    def __getattr__(self, name: str) -> Any:
        self.__dict__.update(message_classes(APIS[self.__name__.rpartition(".")[2]]))
        self.__class__ = ModuleType
        return getattr(self, name)


def _classes_in(module_name: str) -> dict[str, type[Any]]:
    """The message classes that a module defines, without those that it imports."""
    names = vars(import_module(module_name))
    return {name: cls for name, cls in names.items() if isinstance(cls, type) and cls.__module__ == module_name}


def _name(name: str, prefix: str, other_side: dict[str, type[Any]]) -> str:
    if name not in other_side:
        return name
    return prefix + name.removesuffix("Data").removesuffix("Snapshot")
