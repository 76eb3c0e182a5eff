"""`import insync` lists what people may build on, and loads it only when it is used."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import insync
import insync.client


def _modules_loaded_by(script: str) -> list[str]:
    code = f"{script}\nimport sys\nprint(*(name for name in sys.modules if name.split('.')[0] in ('insync', 'kio')))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return sorted(process.stdout.split())


@pytest.mark.parametrize("package", [insync, insync.client], ids=lambda package: package.__name__)
def test_every_public_name_exists_is_listed_and_is_documented(package: ModuleType) -> None:
    for name in package.__all__:
        value = getattr(package, name)
        assert name in dir(package)
        assert isinstance(value, str | ModuleType) or inspect.getdoc(value), name


@pytest.mark.parametrize("package", [insync, insync.client], ids=lambda package: package.__name__)
def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Custer'"):
        _ = package.Custer


def test_importing_insync_loads_nothing_else() -> None:
    assert _modules_loaded_by("import insync; dir(insync)") == ["insync", "insync.version"]


def test_importing_the_client_loads_nothing_else() -> None:
    assert _modules_loaded_by("import insync; insync.client") == ["insync", "insync.client", "insync.version"]


def test_public_methods_of_a_cluster_are_documented() -> None:
    undocumented = [
        name
        for name, member in vars(insync.Cluster).items()
        if not name.startswith("_") and not inspect.getdoc(member.fget if isinstance(member, property) else member)
    ]
    assert undocumented == []


def test_a_cluster_is_an_async_context_manager_with_a_short_repr() -> None:
    async def run() -> tuple[str, str, int]:
        async with insync.Cluster(brokers=1, topics=["orders"]) as cluster:
            running = repr(cluster)
            leader = cluster.leader_of("orders")
        return running, repr(cluster), leader

    running, stopped, leader = asyncio.run(run())
    assert leader == 1
    assert running.startswith("<Cluster 127.0.0.1:")
    assert running.endswith(": 1 up>")
    assert stopped.endswith(": 1 down>")
