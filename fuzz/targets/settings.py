"""Changes of dynamic configs: they are refused, or every node can run with them.

Accepted values are in the metadata log, and every broker that reads it must be able to apply them. An input is lines of
`name=value`, which are set for a topic, a broker and the cluster; then records are written.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from fuzz.mutate import mutate_bytes
from fuzz.one_node import OneNode
from fuzz.target import Target
from fuzz.targets import common, nodes
from insync.metadata.configs import Resource
from insync.wire import codec
from insync.wire.errors import MalformedFrameError
from insync.wire.messages import incremental_alter_configs as messages

_LINES = 60
_RESOURCES = ((Resource.TOPIC, "t"), (Resource.TOPIC, "c"), (Resource.BROKER, "1"), (Resource.BROKER, ""))


def run(data: bytes) -> None:
    node = nodes.start_prepared_node()
    for line in data.decode("utf-8", "replace").splitlines()[:_LINES]:
        name, _, value = line.partition("=")
        try:
            node.receive(codec.encode_request(_change(name, value), 1, "c"))
        except MalformedFrameError:
            continue
        node.advance(5)
    for frame in nodes.record_requests(node):
        node.receive(frame)
    node.advance(40_000)
    if node.stop is not None:
        raise AssertionError(f"the node stopped: {node.stop.reason}")
    node.disk.crash()
    restarted = OneNode(node.disk)
    restarted.advance(3_000)
    if restarted.stop is not None:
        raise AssertionError(f"the node stopped after a restart: {restarted.stop.reason}")


def _change(name: str, value: str) -> Any:
    change = messages.AlterableConfig(name=name[:9_000], config_operation=0, value=value[:9_000])
    resources = tuple(
        messages.AlterConfigsResource(resource_type=int(kind), resource_name=owner, configs=(change,))
        for kind, owner in _RESOURCES
    )
    return messages.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def seeds() -> list[bytes]:
    lines = [f"{name}={value}\n" for name, value in product(common.CONFIG_NAMES, common.CONFIG_VALUES)]
    return ["".join(lines[at : at + _LINES]).encode() for at in range(0, len(lines), _LINES)]


def mutate(data: bytes, rng: Random) -> bytes:
    lines = data.decode("utf-8", "replace").splitlines()
    lines += [f"{rng.choice(common.CONFIG_NAMES)}={rng.choice(common.CONFIG_VALUES)}" for _ in range(10)]
    rng.shuffle(lines)
    at = rng.randrange(len(lines))
    name, _, value = lines[at].partition("=")
    lines[at] = f"{name}={mutate_bytes(value.encode(), rng).decode('utf-8', 'replace')}"
    return "\n".join(lines[:_LINES]).encode()


TARGET = Target(name="settings", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=30)
