"""`insync up`: start a local cluster of real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from insync.cli.exits import failure, usage_error
from insync.cli.output import print_table, size
from insync.server import cluster_registry
from insync.server.cluster_layout import ADMIN
from insync.server.local_cluster import ClusterError, LocalCluster, PortTakenError
from insync.server.local_ports import HOST
from insync.server.profiles import PROFILES
from insync.server.startup_error import StartupError
from insync.server.supervisor import Supervisor

if TYPE_CHECKING:
    from insync.server.local_security import LocalSecurity

MANY_NODES = 20
"""More nodes than this are started only if the user confirms it."""
NODE_BYTES = 50_000_000
"""The memory of a node, about."""


def up(
    brokers: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of brokers; default: as in --data, or 3. A higher number adds brokers."
        ),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Dedicated controllers of a new cluster; with 0, the first three brokers are voters.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for all data; default: a temporary one, removed at the end."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            metavar="PORT",
            help="Port of the first node; the others follow. 0: any free ports. Default: as in --data, or 9092.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            metavar="PORT",
            help="Port for the metrics of the first node; the others follow. Default: as in --data, or any free ports.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0: all, as a container needs it.")
    ] = HOST,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Host that clients connect to; default: --host, or localhost if that is 0.0.0.0."
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run in the background; `insync down` stops the cluster.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name for other commands, if several clusters run; default: local, local-2 …"
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="PROFILE", help=f"Timeouts of the nodes: {' or '.join(PROFILES)}.")
    ] = "fast",
    secure: Annotated[
        str | None,
        typer.Option(
            metavar="PROTOCOL",
            help="Secure the cluster: sasl_ssl, ssl or sasl_plaintext for clients, TLS between nodes, ACLs. "
            "Creates certificates, an admin and a user.",
        ),
    ] = None,
    restart: Annotated[bool, typer.Option(help="Restart nodes that crashed.")] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start very many nodes without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when the cluster is ready.")] = False,
) -> None:
    """Start a cluster on this machine and stop it on Ctrl-C."""
    if profile not in PROFILES:
        raise usage_error(f"--profile {profile}: choose {' or '.join(PROFILES)}")
    if name is not None and not cluster_registry.NAME.fullmatch(name):
        raise usage_error(f"--name {name!r}: use letters, digits, dots, dashes and underscores")
    _confirm((brokers or 0) + (controllers or 0), yes)
    if detach:
        _start_in_background(
            {
                "brokers": brokers, "controllers": controllers, "data": data, "port": port,
                "metrics-port": metrics_port, "host": host, "advertise": advertise, "name": name, "profile": profile,
                "secure": secure,
            },
            restart, as_json,
        )  # fmt: skip
        return
    started = time.monotonic()

    def when_ready(supervisor: Supervisor) -> None:
        if as_json:
            typer.echo(json.dumps({**supervisor.cluster.describe(), "name": supervisor.name}))
        else:
            _print_cluster(supervisor.cluster, supervisor.name, time.monotonic() - started)
            typer.echo("Ctrl-C stops the cluster.")

    try:
        cluster = LocalCluster(
            brokers=brokers, controllers=controllers, directory=None if data is None else str(data.resolve()),
            port=port, metrics_port=metrics_port, host=host, advertised=advertise, profile=profile, security=secure,
        )  # fmt: skip
        supervisor = Supervisor(
            cluster, lambda text: typer.echo(text, err=as_json), restart=restart, name="" if name is None else name
        )
        supervisor.run(lambda: when_ready(supervisor))
    except PortTakenError as error:
        raise failure(_taken_port(error)) from None
    except ClusterError as error:
        raise failure(str(error)) from None


def _confirm(nodes: int, yes: bool) -> None:
    if nodes <= MANY_NODES or yes:
        return
    question = f"{nodes} nodes are {nodes} processes, and need about {size(nodes * NODE_BYTES)} of memory"
    available = _available_memory()
    question += f"; {size(available)} are available." if available is not None else "."
    if not sys.stdin.isatty():
        raise usage_error(f"{question} Add --yes to start them")
    if not typer.confirm(f"{question} Start them?"):
        raise typer.Exit(1)


def _available_memory() -> int | None:
    try:
        with open("/proc/meminfo") as file:
            values = dict(line.split(":", 1) for line in file)
        return int(values["MemAvailable"].split()[0]) * 1_024
    except (OSError, KeyError, ValueError):
        return None


def _taken_port(error: PortTakenError) -> str:
    """Which process has the port, and what to type."""
    for cluster in cluster_registry.list_clusters():
        if any(node["port"] == error.port for node in cluster["nodes"]):
            name = cluster["name"]
            return (
                f"Port {error.port} is used by the cluster '{name}', which `insync up` started (pid {cluster['pid']}). "
                f"Stop it with `insync down {name}`, or use other ports: insync up --port {error.free_port}"
            )
    return f"{error.problem} Stop that process, or use other ports: insync up --port {error.free_port}"


# --- in the background ------------------------------------------------------------------------------------------------


def _start_in_background(options: dict[str, Any], restart: bool, as_json: bool) -> None:
    """A process without a terminal runs the cluster. It prints one line when the cluster is ready."""
    arguments = [f"--{key}={value}" for key, value in options.items() if value is not None]
    if not restart:
        arguments.append("--no-restart")
    started = time.monotonic()
    try:
        directory = cluster_registry.create_runtime_directory()
    except StartupError as error:
        raise failure(str(error)) from None
    log = directory / f"starting-{time.time_ns()}.log"
    with open(log, "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "insync.cli", "up", *arguments, "--yes", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        line = process.stdout.readline() if process.stdout is not None else b""
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        log.unlink()
        raise typer.Exit(130) from None
    if not line:
        code = process.wait()
        message = log.read_text(errors="replace").strip().removeprefix("insync: ")
        log.unlink()
        raise failure(message or f"the cluster did not start (exit code {code})")
    described = json.loads(line)
    log.replace(cluster_registry.log_path(described["name"]))
    if as_json:
        typer.echo(line.decode().rstrip("\n"))
        return
    status = cluster_registry.send_request(described["name"], {"command": "status"})
    _print_nodes(described["name"], described["nodes"], time.monotonic() - started)
    _print_data(Path(status["directory"]), status["is_temporary"])
    typer.echo(f"clients connect to bootstrap.servers={described['bootstrap']}")
    if "security" in described:
        typer.echo(f"  with the settings in {described['security']['clients'][ADMIN]}")
    typer.echo(f"`insync down {described['name']}` stops the cluster; `insync status` and `insync logs` show it.")


# --- output -----------------------------------------------------------------------------------------------------------


def _print_cluster(cluster: LocalCluster, name: str, seconds: float) -> None:
    nodes: Any = cluster.describe()["nodes"]
    _print_nodes(name, nodes, seconds)
    _print_data(cluster.directory, cluster.is_temporary)
    typer.echo(f"clients connect to bootstrap.servers={cluster.bootstrap}")
    if cluster.security is not None:
        _print_security(cluster.security, cluster.bootstrap)


def _print_nodes(name: str, nodes: list[dict[str, Any]], seconds: float) -> None:
    typer.echo(f"cluster '{name}' is ready after {seconds:.1f} s")
    rows = [
        [node["id"], "+".join(node["roles"]), node["port"], node["pid"], f"http://localhost:{node['metrics_port']}/metrics"]
        for node in nodes
    ]  # fmt: skip
    print_table(("node", "roles", "port", "pid", "metrics"), rows)
    sys.stdout.flush()


def _print_data(directory: Path, is_temporary: bool) -> None:
    kept = "; removed when the cluster stops, --data DIR keeps it" if is_temporary else ""
    typer.echo(f"data in {directory}{kept}")


def _print_security(security: LocalSecurity, bootstrap: str) -> None:
    """Where the settings of clients are. Passwords are in these files only."""
    typer.echo(f"  security.protocol={security.protocol.name}")
    typer.echo("")
    for user in security.users:
        rights = "may do everything" if user == ADMIN else "may use topics and groups"
        typer.echo(f"user {user} {rights}. Settings for")
        typer.echo(f"  Java, Spark, insync --client-config   {security.client_file(user, 'properties')}")
        typer.echo(f"  librdkafka, kcat -F                   {security.client_file(user, 'conf')}")
    file = security.client_file(ADMIN, "properties")
    typer.echo("")
    typer.echo(f"  insync topic create orders -b {bootstrap.partition(',')[0]} --client-config {file}")
