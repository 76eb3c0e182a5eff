"""Names and sockets of local clusters, and which one a command uses."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from insync.cli import running_cluster
from insync.server import cluster_registry
from insync.server.cluster_registry import NotRunningError, Registration, RegistryError

Register = Callable[..., Registration]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Longer than a path of a socket may be."""
    path = tmp_path / ("long" * 30)
    monkeypatch.setenv(cluster_registry.DIRECTORY_VARIABLE, str(path))
    monkeypatch.delenv("INSYNC_CLUSTER", raising=False)
    return path


@pytest.fixture
def register(directory: Path) -> Iterator[Register]:
    registrations = []

    def register(name: str | None = None, **status: Any) -> Registration:
        def handle(request: dict[str, Any]) -> dict[str, Any]:
            return {"name": registration.name, "request": request["command"], **status}

        registration = Registration(name, handle)
        registrations.append(registration)
        return registration

    yield register
    for registration in registrations:
        registration.close()


def test_a_cluster_answers_under_its_name_until_it_is_closed(register: Register) -> None:
    first = register("one")
    assert cluster_registry.send_request("one", {"command": "status"}) == {"name": "one", "request": "status"}
    assert "not a request" in cluster_registry.send_request("one", {})["error"]
    first.close()
    with pytest.raises(NotRunningError):
        cluster_registry.send_request("one", {"command": "status"})
    assert cluster_registry.list_clusters() == []


def test_clusters_without_a_name_get_different_ones(register: Register) -> None:
    assert [register().name, register().name] == ["local", "local-2"]
    assert [cluster["name"] for cluster in cluster_registry.list_clusters()] == ["local", "local-2"]


def test_a_name_is_used_once_at_a_time(register: Register) -> None:
    register("one")
    with pytest.raises(RegistryError, match=r"already running.*insync down one"):
        register("one")
    with pytest.raises(RegistryError, match="is not a cluster name"):
        register("../one")


def test_the_socket_of_a_killed_cluster_is_replaced(register: Register, directory: Path) -> None:
    register("one").close()
    with socket.socket(socket.AF_UNIX) as stale, cluster_registry._socket_path("one") as path:
        stale.bind(path)
    assert cluster_registry.list_clusters() == []
    assert register("one").name == "one"


def test_a_directory_that_others_can_write_to_is_refused(register: Register, directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(RegistryError, match="changed by other users"):
        register()


def test_commands_use_the_only_cluster_that_runs(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address wins, then a name, then the variable."""
    assert running_cluster.resolve_bootstrap("") == ("localhost:9092", None)
    register("one", bootstrap="localhost:1")
    assert running_cluster.resolve_bootstrap("") == ("localhost:1", None)
    register("two", bootstrap="localhost:2", security={"clients": {"admin": "/admin.properties"}})
    assert running_cluster.resolve_bootstrap("two") == ("localhost:2", Path("/admin.properties"))
    monkeypatch.setenv("INSYNC_CLUSTER", "one")
    assert running_cluster.resolve_bootstrap("") == ("localhost:1", None)
    assert running_cluster.resolve_bootstrap("host:9") == ("host:9", None)


def test_several_clusters_are_listed_if_none_was_chosen(
    register: Register, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        register(bootstrap=f"localhost:{number}")
    with pytest.raises(typer.Exit):
        running_cluster.resolve_bootstrap("")
    assert "local (localhost:1), local-2 (localhost:2). Choose one with -b NAME" in capsys.readouterr().err
    monkeypatch.setenv("INSYNC_CLUSTER", "other")
    with pytest.raises(typer.Exit):
        running_cluster.resolve_bootstrap("")
    assert "no cluster named 'other' is running; running: local" in capsys.readouterr().err
