"""Which local cluster a command means: the one that runs, or one that is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from insync.cli.exits import usage_error
from insync.server import cluster_registry
from insync.server.cluster_registry import NotRunningError

VARIABLE = "INSYNC_CLUSTER"
FALLBACK_BOOTSTRAP = "localhost:9092"
ADMIN = "admin"

Status = dict[str, Any]


def select_cluster(name: str = "") -> Status:
    """The status of the named cluster; without a name, of the only one that runs. Exit code 2 if that is not clear."""
    chosen = name or os.environ.get(VARIABLE, "")
    if not chosen:
        clusters = cluster_registry.list_clusters()
        if not clusters:
            raise usage_error("no cluster of `insync up` is running on this machine. Start one with `insync up -d`")
        if len(clusters) > 1:
            raise usage_error(f"several clusters are running: {_names(clusters)}. Name one, or set {VARIABLE}=NAME")
        return clusters[0]
    try:
        return cluster_registry.send_request(chosen, {"command": "status"})
    except NotRunningError:
        clusters = cluster_registry.list_clusters()
        running = f"running: {_names(clusters)}" if clusters else "no cluster of `insync up` is running"
        raise usage_error(f"no cluster named '{chosen}' is running; {running}") from None


def resolve_bootstrap(bootstrap: str) -> tuple[str, Path | None]:
    """The addresses of brokers, and the file of client settings that they need.

    An address is used as it is. A name, or INSYNC_CLUSTER, means that local cluster; nothing means the one that runs,
    or localhost:9092 if there is none.
    """
    if ":" in bootstrap or "," in bootstrap:
        return bootstrap, None
    if bootstrap or os.environ.get(VARIABLE):
        return _addresses(select_cluster(bootstrap) if _is_name(bootstrap) else {"bootstrap": bootstrap})
    clusters = cluster_registry.list_clusters()
    if not clusters:
        return FALLBACK_BOOTSTRAP, None
    if len(clusters) > 1:
        raise usage_error(
            f"several local clusters are running: {_names(clusters)}. Choose one with -b NAME, or set {VARIABLE}=NAME"
        )
    return _addresses(clusters[0])


def _is_name(bootstrap: str) -> bool:
    """Whether it can be the name of a cluster, rather than an address without a port."""
    running = [cluster["name"] for cluster in cluster_registry.list_clusters()]
    return not bootstrap or bootstrap in running


def _addresses(status: Status) -> tuple[str, Path | None]:
    security = status.get("security")
    file = None if security is None else Path(security["clients"][ADMIN])
    return status["bootstrap"], file


def _names(clusters: list[Status]) -> str:
    return ", ".join(f"{cluster['name']} ({cluster['bootstrap'].partition(',')[0]})" for cluster in clusters)
