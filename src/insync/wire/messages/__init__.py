"""The messages a node speaks inside itself: one pinned version of each Kafka API, one small module per API.

    from insync.wire.messages import alter_partition, fetch
    fetch.FetchRequest(...), fetch.PartitionData(...), alter_partition.RequestPartition(...)

This package is the one place that picks versions; clients that speak others are translated at the edge. A module holds
the classes of its request and of its response under kio's names. Where both have a class of one name, the pair is told
apart by prefix: `RequestPartition` and `ResponsePartition` (Kafka's PartitionData or PartitionSnapshot), `RequestTopic`
and `ResponseTopic`, `RequestSnapshotId` and `ResponseSnapshotId`, `RequestCursor` and `ResponseCursor`.

The classes are frozen and keyword-only, and check nothing: plain ints, strs and tuples go in. kio turns a few fields
into richer Python values; `insync.wire.types` makes and reads those (`ms`, `millis`, `instant`, `uuid_of`).

A module imported from here loads when something is first looked up in it. Making the classes of all APIs takes longer
than everything else that a node does before it serves, and few nodes ever hear them all.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if not TYPE_CHECKING:  # a type checker knows the modules of a package; it need not believe in any other name

    def __getattr__(name: str) -> ModuleType:
        spec = importlib.util.find_spec(f"{__name__}.{name}")
        if spec is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        globals()[name] = sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
