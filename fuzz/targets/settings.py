"""Settings of topics and brokers, changed at run time: each is refused, or every node can live with it for good.

What is accepted is in the metadata log, and every broker that reads it must make sense of it. An input is lines of
`name=value`; each is set for a topic, a broker and the whole cluster, and records are written under it.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from fuzz.mutate import mutated
from fuzz.one_node import OneNode
from fuzz.target import Target
from fuzz.targets import common, nodes
from insync.metadata.configs import Resource
from insync.sim.engine.disk import SimDisk
from insync.wire import codec
from insync.wire.errors import MalformedFrameError
from insync.wire.messages import incremental_alter_configs as messages

_LINES = 60
_RESOURCES = ((Resource.TOPIC, "t"), (Resource.TOPIC, "c"), (Resource.BROKER, "1"), (Resource.BROKER, ""))


def run(data: bytes) -> None:
    node = nodes.prepared()
    for line in data.decode("utf-8", "replace").splitlines()[:_LINES]:
        name, _, value = line.partition("=")
        try:
            node.receive(codec.encode_request(_change(name, value), 1, "c"))
        except MalformedFrameError:
            continue
        node.advance(5)
    for frame in nodes.first_records(node):
        node.receive(frame)
    node.advance(40_000)
    if node.stop is not None:
        raise AssertionError(f"the node stopped: {node.stop.reason}")
    OneNode(_copy(node.disk)).advance(3_000)  # and after a restart


def _change(name: str, value: str) -> Any:
    change = messages.AlterableConfig(name=name[:9_000], config_operation=0, value=value[:9_000])
    resources = tuple(
        messages.AlterConfigsResource(resource_type=int(kind), resource_name=owner, configs=(change,))
        for kind, owner in _RESOURCES
    )
    return messages.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def _copy(disk: SimDisk) -> SimDisk:
    disk.crash()
    return disk


def seeds() -> list[bytes]:
    lines = [f"{name}={value}\n" for name, value in product(common.CONFIG_NAMES, common.CONFIG_VALUES)]
    return ["".join(lines[at : at + _LINES]).encode() for at in range(0, len(lines), _LINES)]


def mutate(data: bytes, rng: Random) -> bytes:
    lines = data.decode("utf-8", "replace").splitlines()
    lines += [f"{rng.choice(common.CONFIG_NAMES)}={rng.choice(common.CONFIG_VALUES)}" for _ in range(10)]
    rng.shuffle(lines)
    at = rng.randrange(len(lines))
    name, _, value = lines[at].partition("=")
    lines[at] = f"{name}={mutated(value.encode(), rng).decode('utf-8', 'replace')}"
    return "\n".join(lines[:_LINES]).encode()


TARGET = Target(name="settings", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=30)
