"""`insync status`, `down`, `restart` and `logs`: the clusters that `insync up` runs on this machine."""

from __future__ import annotations

import heapq
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated

import typer

from insync.cli.exits import failure, usage_error
from insync.cli.options import AsJson
from insync.cli.output import duration, print_json, print_table
from insync.cli.running_cluster import Status, select_cluster
from insync.escaping import printable
from insync.server import cluster_registry
from insync.server.cluster_registry import NotRunningError

POLL_S = 0.1
STOP_TIMEOUT_S = 60.0
RESTART_TIMEOUT_S = 60.0
_TIME = re.compile(rb"time=(\S+) ")

ClusterName = Annotated[str, typer.Argument(metavar="[NAME]", help="Cluster; default: the only one that runs.")]
NameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="Cluster; default: the only one that runs.")]
Node = Annotated[int, typer.Argument(metavar="NODE", help="Id of the node.")]


def status(name: ClusterName = "", as_json: AsJson = False) -> None:
    """Show the local clusters that run, and their nodes. Exit code 1 if none runs, or a node does not answer."""
    clusters = [select_cluster(name)] if name else cluster_registry.list_clusters()
    if as_json:
        print_json(clusters)
    elif not clusters:
        typer.echo("no cluster is running; start one with `insync up -d`")
    for cluster in () if as_json else clusters:
        _print_status(cluster)
    if not clusters or any(node["state"] != "running" for cluster in clusters for node in cluster["nodes"]):
        raise typer.Exit(1)


def _print_status(cluster: Status) -> None:
    since = duration(time.time() - cluster["since"])
    typer.echo(f"cluster '{cluster['name']}'  {cluster['state']} for {since}  pid {cluster['pid']}")
    typer.echo(f"  bootstrap.servers={cluster['bootstrap']}")
    typer.echo(f"  data in {cluster['directory']}{' (removed at the end)' if cluster['is_temporary'] else ''}")
    columns = ("node", "state", "roles", "port", "pid", "metrics port")
    rows = [
        [node["id"], node["state"], "+".join(node["roles"]), node["port"], node["pid"], node["metrics_port"]]
        for node in cluster["nodes"]
    ]
    print_table(columns, rows)
    sys.stdout.flush()


def down(
    name: ClusterName = "",
    everything: Annotated[bool, typer.Option("--all", help="Stop all local clusters.")] = False,
) -> None:
    """Stop a local cluster. Its data is kept if it was started with --data."""
    if everything and name:
        raise usage_error("give a name or --all, not both")
    clusters = cluster_registry.list_clusters() if everything else [select_cluster(name)]
    if not clusters:
        typer.echo("no cluster is running")
    for cluster in clusters:
        _stop(cluster)


def _stop(cluster: Status) -> None:
    name = cluster["name"]
    try:
        cluster_registry.send_request(name, {"command": "stop"})
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _is_running(name, cluster["pid"]):
            if time.monotonic() > deadline:
                raise failure(
                    f"cluster '{name}' (pid {cluster['pid']}) did not stop in {STOP_TIMEOUT_S:g} s; "
                    "`insync status` shows its nodes"
                )
            time.sleep(POLL_S)
    except NotRunningError:
        pass  # it has ended meanwhile
    removed = "removed" if cluster["is_temporary"] else "kept"
    typer.echo(f"cluster '{name}' stopped; its data in {cluster['directory']} was {removed}")


def _is_running(name: str, pid: int) -> bool:
    try:
        return bool(cluster_registry.send_request(name, {"command": "status"})["pid"] == pid)
    except NotRunningError:
        return False


def restart(
    node: Node,
    name: NameOption = "",
    kill: Annotated[bool, typer.Option("--kill", help="Kill its process instead of shutting it down cleanly.")] = False,
) -> None:
    """Restart a node of a local cluster, or start one that has ended; returns when it answers."""
    cluster = select_cluster(name)
    started = time.monotonic()
    answer = _request(cluster["name"], {"command": "restart", "node": node, "kill": kill})
    while True:
        current = select_cluster(cluster["name"])
        state = next(entry for entry in current["nodes"] if entry["id"] == node)
        if state["pid"] != answer["pid"] and state["state"] == "running":
            break
        if time.monotonic() - started > RESTART_TIMEOUT_S:
            hint = "" if kill else "; --kill does not wait for a clean shutdown"
            raise failure(f"node {node} did not come back in {RESTART_TIMEOUT_S:g} s ({state['state']}){hint}")
        time.sleep(POLL_S)
    typer.echo(f"node {node} of cluster '{cluster['name']}' restarted after {time.monotonic() - started:.1f} s")


def _request(name: str, request: dict[str, object]) -> Status:
    try:
        answer = cluster_registry.send_request(name, request)
    except NotRunningError as error:
        raise failure(str(error)) from None
    if "error" in answer:
        raise usage_error(answer["error"])
    return answer


# --- logs -------------------------------------------------------------------------------------------------------------


def logs(
    node: Annotated[int | None, typer.Argument(metavar="[NODE]", help="Id of the node; default: all nodes.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more lines.")] = False,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, metavar="N", help="Only the last N lines; default: all.")
    ] = None,
    name: NameOption = "",
) -> None:
    """Print the logs of nodes of a local cluster, ordered by time."""
    cluster = select_cluster(name)
    paths = {entry["id"]: Path(entry["log"]) for entry in cluster["nodes"]}
    if node is not None and node not in paths:
        ids = ", ".join(str(node_id) for node_id in paths)
        raise usage_error(f"cluster '{cluster['name']}' has no node {node}; its nodes are {ids}")
    chosen = list(paths.values()) if node is None else [paths[node]]
    try:
        files = [open(path, "rb") for path in chosen]  # noqa: SIM115  until the command ends
    except OSError as error:
        raise failure(f"cannot read {error.filename}: {error.strerror}") from None
    try:
        _print_lines(_merge(files), lines)
        while follow:
            time.sleep(POLL_S)
            _print_lines(_merge(files), None)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _merge(files: Sequence[IO[bytes]]) -> Iterator[bytes]:
    return (line for _, _, line in heapq.merge(*(_timed_lines(number, file) for number, file in enumerate(files))))


def _timed_lines(number: int, file: IO[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    """The lines of a file with their times; a line without one belongs to the line before."""
    moment = b""
    while line := file.readline():
        if not line.endswith(b"\n"):  # the rest is still to be written
            file.seek(-len(line), 1)
            return
        if match := _TIME.match(line):
            moment = match[1]
        yield moment, number, line


def _print_lines(merged: Iterator[bytes], last: int | None) -> None:
    chosen = merged if last is None else (list(merged)[-last:] if last else [])
    for line in chosen:
        typer.echo(printable(line.decode(errors="replace").rstrip("\n"), keep="\t"))
