"""What a local cluster reserves, checks and stores before any of its nodes runs (B9)."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any, cast
from uuid import UUID

import pytest

from insync.quorum import state_file
from insync.quorum.config import METADATA_DIRECTORY
from insync.quorum.state_file import ElectionState
from insync.server import cluster_layout, node_query, sockets
from insync.server.cluster_layout import data_directory
from insync.server.directory_lock import DirectoryLock
from insync.server.local_cluster import ClusterError, LocalCluster, LocalNode, PortTakenError
from insync.server.local_ports import HOST
from insync.server.storage_format import format_directory, read_identity
from insync.storage.posix import PosixDisk


class WithoutProcesses(LocalCluster):
    """Prepares everything, and starts nothing."""

    def start_node(self, node_id: int) -> None:
        """It is prepared."""

    def _is_ready(self, node: LocalNode) -> bool:
        return True


def prepared(directory: Path, **settings: Any) -> LocalCluster:
    """The cluster after it has been started once, and stopped."""
    cluster = WithoutProcesses(directory=str(directory), **settings)
    cluster.start()
    cluster.stop()
    return cluster


def voted(directory: Path, *nodes: int, voters: tuple[int, ...] = (1, 2, 3)) -> None:
    """As if these had taken part in an election."""
    for node in nodes:
        disk = PosixDisk(str(data_directory(directory, node)))
        state_file.make_directory_durable(disk, METADATA_DIRECTORY)
        state_file.persist(disk, f"{METADATA_DIRECTORY}/quorum-state", ElectionState(epoch=2), voters)


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def test_the_port_of_a_stopped_node_stays_reserved() -> None:
    cluster = LocalCluster(brokers=1)
    try:
        for port in (cluster.nodes[1].port, cluster.nodes[1].metrics_port):
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((HOST, port))
            with sockets.bind(HOST, port) as node:
                node.listen()
                with socket.create_connection((HOST, port)):
                    pass
    finally:
        cluster.stop()
    assert not cluster.directory.exists()


def test_a_port_in_use_is_refused_before_anything_is_written(tmp_path: Path, busy_port: int) -> None:
    """The address is named, and the process that listens there."""
    cluster = WithoutProcesses(brokers=1, directory=str(tmp_path / "new"), port=busy_port)
    with pytest.raises(ClusterError, match=rf"{HOST}:{busy_port}: address already in use by pid {os.getpid()} "):
        cluster.start()
    assert not (tmp_path / "new").exists()


def test_ports_beyond_the_last_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="3 nodes need 3 ports from 65534 on"):
        LocalCluster(directory=str(tmp_path), port=65_534)


def test_a_new_cluster_uses_the_ports_that_clients_expect(tmp_path: Path) -> None:
    cluster = LocalCluster(directory=str(tmp_path / "new"), brokers=2, controllers=1, port=None)
    try:
        assert [node.port for node in cluster.nodes.values()] == [9092, 9093, 9094]
        assert cluster.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    finally:
        cluster.stop()


def test_the_ports_stay_with_the_directory(tmp_path: Path) -> None:
    """Added brokers get the ports after them; ports that are asked for replace them."""
    first = prepared(tmp_path, brokers=2)
    again = prepared(tmp_path, port=None, metrics_port=None)
    ports = [(node.port, node.metrics_port) for node in first.nodes.values()]
    assert [(node.port, node.metrics_port) for node in again.nodes.values()] == ports
    grown = prepared(tmp_path, brokers=3, port=None, metrics_port=None)
    assert grown.nodes[2].port == first.nodes[2].port
    assert grown.nodes[3].port > max(first.nodes[1].port, first.nodes[2].port)
    moved = prepared(tmp_path, port=0)
    assert prepared(tmp_path, port=None).bootstrap == moved.bootstrap


def test_a_metrics_port_that_is_taken_is_replaced_unless_it_was_asked_for(tmp_path: Path, busy_port: int) -> None:
    prepared(tmp_path, brokers=1)
    layout = cluster_layout.load(tmp_path)
    assert layout is not None
    cluster_layout.save(tmp_path, replace(layout, nodes=(replace(layout.nodes[0], metrics_port=busy_port),)))
    assert prepared(tmp_path, metrics_port=None).nodes[1].metrics_port != busy_port
    with pytest.raises(PortTakenError, match=f"{HOST}:{busy_port}: address already in use"):
        prepared(tmp_path, metrics_port=busy_port)
    with pytest.raises(ClusterError, match="Port 9092 would be for clients and for metrics"):
        LocalCluster(directory=str(tmp_path), port=9092, metrics_port=9092)


def test_what_to_type_if_a_port_is_taken(tmp_path: Path, busy_port: int) -> None:
    with pytest.raises(PortTakenError, match=r"choose other ports, such as --port \d+\.") as caught:
        prepared(tmp_path, brokers=1, port=busy_port)
    assert caught.value.free_port != busy_port


def test_nodes_of_a_public_cluster_have_listeners_of_their_own(tmp_path: Path) -> None:
    """The name that clients use need not be known inside a container."""
    cluster = prepared(tmp_path, brokers=1, host="0.0.0.0", advertised="kafka.example")
    node = cluster.nodes[1]
    settings = cluster.node_settings(node)
    assert cluster.bootstrap == f"kafka.example:{node.port}"
    assert settings["listeners"].startswith(f"CLIENTS://0.0.0.0:{node.port},NODES://127.0.0.1:")
    assert settings["advertised.listeners"] == (
        f"CLIENTS://kafka.example:{node.port},NODES://127.0.0.1:{node.node_port}"
    )
    assert settings["controller.quorum.voters"] == f"1@127.0.0.1:{node.controller_port}"
    assert settings["insync.metrics.host"] == "0.0.0.0"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(ClusterError, match=rf"Cannot listen on {host}:.* Use an address of this machine"):
        LocalCluster(directory=str(tmp_path), host=host)


def test_two_clusters_do_not_share_a_directory(tmp_path: Path) -> None:
    """B9: not even under two names; the lock ends with the cluster."""
    (tmp_path / "real").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "real")
    first, second = (WithoutProcesses(brokers=1, directory=str(tmp_path / name)) for name in ("real", "other"))
    first.start()
    before = (tmp_path / "real" / "cluster.json").read_bytes()
    with pytest.raises(ClusterError, match=f"in use by another process: pid {os.getpid()}"):
        second.start()
    assert (tmp_path / "real" / "cluster.json").read_bytes() == before
    first.stop()
    with pytest.raises(ClusterError, match="Another process has changed"):
        second.start()  # it was planned as a new cluster, and the directory has one now
    prepared(tmp_path / "other")


def test_a_node_that_still_runs_keeps_the_cluster_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: a supervisor that was killed leaves nodes behind that are stopping; the next one waits for them."""
    prepared(tmp_path)
    monkeypatch.setattr("insync.server.local_cluster.ORPHANS_TIMEOUT_S", 0.05)
    with DirectoryLock(str(data_directory(tmp_path, 2))), pytest.raises(ClusterError, match="node-2/data is in use"):
        WithoutProcesses(directory=str(tmp_path)).start()
    prepared(tmp_path)


def test_a_directory_stores_its_cluster(tmp_path: Path) -> None:
    """B9: as many brokers as before unless more are asked for; the same voters."""
    first = prepared(tmp_path, brokers=2)
    again = prepared(tmp_path)
    assert (again.layout, list(again.nodes)) == (first.layout, [1, 2])
    grown = prepared(tmp_path, brokers=4)
    assert grown.layout.voters == (1, 2)
    assert "controller.quorum.voters=1@127.0.0.1" in (tmp_path / "node-4" / "node.properties").read_text()
    assert "process.roles=broker\n" in (tmp_path / "node-4" / "node.properties").read_text()
    with pytest.raises(ClusterError, match="a cluster of 4 brokers"):
        LocalCluster(directory=str(tmp_path), brokers=3)
    with pytest.raises(ClusterError, match="separate controllers"):
        LocalCluster(directory=str(tmp_path), controllers=3)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match="file is not a directory"):
        LocalCluster(directory=str(tmp_path / "file"))


def test_voters_on_disk_take_precedence_over_the_layout(tmp_path: Path) -> None:
    """B9: a layout that was edited by hand, say."""
    prepared(tmp_path)
    voted(tmp_path, 1, 2, 3)
    layout = cluster_layout.load(tmp_path)
    assert layout is not None
    cluster_layout.save(tmp_path, cluster_layout.with_voters(layout, (1,)))
    with pytest.raises(ClusterError, match=r"names 1, but the quorum in .*node-1/data has the voters 1,2,3"):
        WithoutProcesses(directory=str(tmp_path)).start()


def test_a_node_that_lost_its_identity_is_not_formatted_anew(tmp_path: Path) -> None:
    """B9: its logs would count as those of a node that has none."""
    prepared(tmp_path)
    voted(tmp_path, 2)
    (data_directory(tmp_path, 2) / "meta.properties").unlink()
    with pytest.raises(ClusterError, match=r"node-2/data holds data but no meta\.properties"):
        WithoutProcesses(directory=str(tmp_path)).start()
    assert not (data_directory(tmp_path, 2) / "meta.properties").exists()


def test_directories_of_other_nodes_and_clusters_are_refused(tmp_path: Path) -> None:
    """B9: by cluster id, node id and directory id."""
    prepared(tmp_path)
    meta = data_directory(tmp_path, 2) / "meta.properties"
    original, first = meta.read_text(), (data_directory(tmp_path, 1) / "meta.properties").read_text()
    for text, message in (
        (first, "belongs to node 1, not to node 2"),
        (first.replace("node.id=1", "node.id=2"), "has the directory.id of node 1: one of the two .* is a copy"),
        (original.replace("cluster.id=", "cluster.id=X"), "belongs to cluster X"),
    ):
        meta.write_text(text)
        with pytest.raises(ClusterError, match=message):
            WithoutProcesses(directory=str(tmp_path)).start()
    meta.write_text(original)
    prepared(tmp_path)


def test_an_empty_disk_is_formatted_and_a_voter_gets_its_log_back(tmp_path: Path) -> None:
    """B9: a voter with an empty log could elect a leader that lacks committed entries."""
    prepared(tmp_path, brokers=4)
    voted(tmp_path, 1, 3)
    before = {node: read_identity(str(data_directory(tmp_path, node))).directory_id for node in (2, 4)}
    for node in before:
        shutil.rmtree(data_directory(tmp_path, node))
    cluster = prepared(tmp_path)
    assert [notice.partition("; ")[2] for notice in cluster.notices] == [
        "node 2 got the metadata log of node 1",
        "node 4 will fetch its replicas from the others",
    ]
    assert all(read_identity(str(data_directory(tmp_path, node))).directory_id != old for node, old in before.items())
    for node in (2, 3):
        shutil.rmtree(data_directory(tmp_path, node))
    with pytest.raises(ClusterError, match="1 of 3 are left, not a majority"):
        prepared(tmp_path)


def test_a_crash_while_a_cluster_is_created_leaves_one_that_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: nodes that were never formatted do not look like nodes that lost everything."""
    made: list[int] = []

    def dies_after_one(directory: str, *, cluster_id: str, node_id: int, bootstrap: None) -> None:
        if made:
            raise KeyboardInterrupt
        made.append(node_id)
        format_directory(directory, cluster_id=cluster_id, node_id=node_id)

    with monkeypatch.context() as broken:
        broken.setattr("insync.server.local_cluster.format_directory", dies_after_one)
        cluster = WithoutProcesses(directory=str(tmp_path))
        with pytest.raises(KeyboardInterrupt):
            cluster.start()
        cluster.stop()
    assert prepared(tmp_path).layout.cluster_id == cluster.layout.cluster_id


# --- readiness ----------------------------------------------------------------------------------------------------


class FakeStates(LocalCluster):
    """Its nodes count as running and report `states`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(brokers=2, directory=str(directory))
        self.states: dict[int, dict[str, Any]] = {}
        for node in self.nodes.values():
            node.incarnation_id = UUID(int=node.id)
            node.process = cast("Popen[bytes]", Running())
            self.states[node.id] = {
                "cluster_id": self.layout.cluster_id,
                "node_id": node.id,
                "incarnation_id": str(node.incarnation_id),
                "controller_id": 1,
                "unfenced": {str(one): str(UUID(int=one)) for one in self.nodes},
            }

    def is_ready(self, monkeypatch: pytest.MonkeyPatch) -> bool:
        states = {node.port: self.states[node.id] for node in self.nodes.values()}
        monkeypatch.setattr(node_query, "query_node_state", lambda address, node_id, tls: states[address[1]])
        try:
            self.wait_until_ready(timeout_s=0)
        except ClusterError as error:
            if "did not see all brokers" in str(error):
                return False
            raise
        return True


class Running:
    pid = 1

    def poll(self) -> None:
        return None


def test_a_cluster_is_ready_when_these_processes_know_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3: registered with the current incarnation, unfenced, and with a known controller."""
    cluster = FakeStates(tmp_path)
    assert cluster.is_ready(monkeypatch)
    cluster.states[2]["unfenced"]["1"] = str(UUID(int=99))  # the registration of an earlier incarnation
    assert not cluster.is_ready(monkeypatch)
    del cluster.states[2]["unfenced"]["1"]
    assert not cluster.is_ready(monkeypatch)
    cluster = FakeStates(tmp_path)
    cluster.states[1]["controller_id"] = -1
    assert not cluster.is_ready(monkeypatch)


def test_another_process_on_the_port_does_not_make_a_cluster_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address must not be given out as this cluster's."""
    cluster = FakeStates(tmp_path)
    cluster.states[2] |= {"cluster_id": "other"}
    with pytest.raises(ClusterError, match=r"Another process answers on .* node 2: node 2 of cluster other"):
        cluster.is_ready(monkeypatch)
