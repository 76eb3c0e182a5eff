"""`insync up -d`, `status`, `logs`, `restart` and `down` on a real node."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from insync.cli.main import app
from insync.server import local_cluster  # noqa: F401  these tests start processes


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner(env={"COLUMNS": "160"}).invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("INSYNC_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("INSYNC_BOOTSTRAP", raising=False)
    yield
    run("down", "--all")


def test_a_cluster_in_the_background_is_found_restarted_and_stopped(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    started = json.loads(run("up", "-d", "--brokers", "1", "--port", "0", "--data", data, "--json").stdout)
    (before,) = json.loads(run("status", "--json").stdout)
    assert (before["name"], before["bootstrap"], before["directory"]) == ("local", started["bootstrap"], data)
    run("topic", "create", "orders")  # without an address
    assert "restarted after" in run("restart", "1").stdout
    assert run("restart", "1", "--kill").exit_code == 0
    assert "has no node 7; its nodes are 1" in run("restart", "7", code=2).stderr
    after = run("status").stdout
    assert "running" in after
    assert str(before["nodes"][0]["pid"]) not in after
    lines = run("logs", "1", "-n", "3").stdout.splitlines()
    assert len(lines) == 3
    assert "event=stopped clean=true" in run("logs").stdout
    assert "its data in" in run("down").stdout
    assert "no cluster is running" in run("status", code=1).stdout

    again = json.loads(run("up", "-d", "--data", data, "--json").stdout)
    assert again["bootstrap"] == started["bootstrap"]  # the ports stay with the data
    assert "orders" in run("topic", "list").stdout


def test_a_failed_start_in_the_background_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        failed = run("up", "-d", "--brokers", "1", "--port", str(port), code=1)
    assert f"127.0.0.1:{port}: address already in use by pid {os.getpid()}" in failed.stderr
    assert "insync up --port 9" in failed.stderr
    assert list((tmp_path / "run").glob("*.log")) == []


def test_clients_of_a_public_cluster_get_the_advertised_name(tmp_path: Path) -> None:
    started = json.loads(
        run("up", "-d", "--brokers", "2", "--port", "0", "--host", "0.0.0.0", "--json", "--name", "public").stdout
    )
    ports = [node["port"] for node in started["nodes"]]
    assert started["bootstrap"] == ",".join(f"localhost:{port}" for port in ports)
    run("topic", "create", "t", "-r", "2")
    assert "2 records" in run("produce", "t", "a", "b", "-b", "public").stdout
