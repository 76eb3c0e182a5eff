"""The commands insync format, insync node and insync up."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from insync.server import node_query
from insync.server import process as process_module
from tests.server.server_harness import TIMEOUT_S, eventually

INSYNC = [sys.executable, "-c", "from insync.cli.main import app; app()"]


def _run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INSYNC, *args], capture_output=True, text=True, timeout=60, check=False)


def _properties(tmp_path: Path, **more: str) -> tuple[Path, int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    values = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(tmp_path / "data"),
        "insync.profile": "fast",
        **more,
    }
    path = tmp_path / "node.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path, port


def _serves(port: int) -> bool:
    try:
        return node_query.query_live_brokers(("127.0.0.1", port)) == (1,)
    except node_query.NoAnswerError:
        return False


def test_a_node_is_formatted_runs_and_stops_cleanly(tmp_path: Path) -> None:
    path, port = _properties(tmp_path)
    assert _run("format", str(path), "--cluster-id", "one").returncode == 0
    again = _run("format", str(path))
    assert again.returncode == 2
    assert "already formatted" in again.stderr
    process = subprocess.Popen([*INSYNC, "node", str(path)], stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: _serves(port), "the node serves")
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert "event=stopped clean=true" in said
    assert (tmp_path / "data" / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("no.such.key", "1", "node.properties:7: no.such.key: is not a known setting"),
        ("insync.profile", "slow", "insync.profile: 'slow'"),
    ],
)
def test_a_wrong_file_is_named_and_nothing_starts(tmp_path: Path, key: str, value: str, problem: str) -> None:
    path, _ = _properties(tmp_path, **{key: value})
    ended = _run("node", str(path))
    assert ended.returncode == 2
    assert problem in ended.stderr


def test_a_directory_and_an_address_belong_to_one_node(tmp_path: Path) -> None:
    """B9: a second process names the holder, and ends with the code that prevents a restart."""
    (tmp_path / "other").mkdir()
    path, port = _properties(tmp_path)
    same_directory = tmp_path / "other" / "same-directory.properties"
    same_directory.write_text(path.read_text().replace(str(port), "0"))
    same_port, _ = _properties(tmp_path / "other", listeners=f"PLAINTEXT://127.0.0.1:{port}")
    for file in (path, same_port):
        assert _run("format", str(file), "--cluster-id", "one").returncode == 0
    process = subprocess.Popen([sys.executable, "-m", "insync.server", str(path)], stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: _serves(port), "the node serves")
        for file, problem in (
            (same_directory, f"{tmp_path / 'data'} is in use by another process: pid {process.pid} ("),
            (same_port, f"Cannot listen on 127.0.0.1:{port}: address already in use by pid {process.pid} ("),
        ):
            ended = _run("node", str(file))
            assert ended.returncode == 2
            assert problem in ended.stderr.splitlines()[-1]
        again = _run("format", str(same_directory))
        assert (again.returncode, "is in use by another process" in again.stderr) == (2, True)
        up = _run("up", "--brokers", "1", "--port", str(port), "--data", str(tmp_path / "new"))
        assert (up.returncode, f"127.0.0.1:{port}: address already in use" in up.stderr) == (1, True)
        assert not (tmp_path / "new").exists()
    finally:
        process.kill()
        process.wait()


def test_a_node_refuses_voters_that_contradict_its_quorum(tmp_path: Path) -> None:
    """B9: nothing is opened, and the message names the voters."""
    path, port = _properties(tmp_path)
    assert _run("format", str(path)).returncode == 0
    process = subprocess.Popen([sys.executable, "-m", "insync.server", str(path)], stderr=subprocess.DEVNULL)
    eventually(lambda: _serves(port), "the node serves")
    process.terminate()
    assert process.wait(TIMEOUT_S) == 0
    text = path.read_text()
    path.write_text(text.replace("voters=", "voters=2@127.0.0.1:9,"))
    ended = _run("node", str(path))
    assert ended.returncode == 2
    assert "names 1,2, but the quorum" in ended.stderr
    assert "has the voters 1." in ended.stderr


def test_an_unformatted_directory_is_not_used(tmp_path: Path) -> None:
    path, _ = _properties(tmp_path)
    ended = _run("node", str(path))
    assert ended.returncode == 2
    assert "Run `insync format` first" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_reports_when_it_is_ready_and_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*INSYNC, "up", "--brokers", "1", "--port", "0", "--json", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
    finally:
        process.send_signal(number)
        process.wait(TIMEOUT_S)
    (node,) = ready["nodes"]
    assert ready["bootstrap"] == f"127.0.0.1:{node['port']}"
    assert node["roles"] == ["broker", "controller"]
    with pytest.raises(ProcessLookupError):
        os.kill(node["pid"], 0)
    assert "event=stopped clean=true" in (tmp_path / "node-1" / "node.log").read_text()


def test_nodes_do_not_outlive_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*INSYNC, "up", "--brokers", "1", "--port", "0", "--json", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    process.kill()
    process.wait(TIMEOUT_S)
    log = tmp_path / "node-1" / "node.log"
    eventually(lambda: "event=stopped clean=true" in log.read_text(), "the node has stopped")
    eventually(lambda: not Path(f"/proc/{ready['nodes'][0]['pid']}").exists(), "its process is gone")


def test_up_restarts_a_crashed_node(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*INSYNC, "up", "--brokers", "1", "--port", "0", "--json", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        (node,) = json.loads(process.stdout.readline())["nodes"]
        os.kill(node["pid"], signal.SIGKILL)
        eventually(lambda: not _serves(node["port"]), "the node is gone")
        eventually(lambda: _serves(node["port"]), "the node is back")
    finally:
        process.terminate()
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert "node 1 was killed by signal 9" in said
    assert "node 1 restarted" in said


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "Free space"),
        (errno.EMFILE, "limit of open files"),
        (errno.EROFS, "writable"),
        (errno.EIO, "disk"),
    ],
)
def test_a_stop_by_the_operating_system_comes_with_advice(number: int, words: str) -> None:
    error = OSError(number, os.strerror(number), "/data/orders-0/0.log")
    assert words in process_module.advice_for(error)


def test_a_stop_by_a_defect_asks_for_a_report() -> None:
    assert "report" in process_module.advice_for(None)
