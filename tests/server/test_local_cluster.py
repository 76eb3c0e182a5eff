"""What a cluster on this machine keeps for itself before any of its nodes runs."""

from __future__ import annotations

import socket

import pytest

from insync.server import sockets
from insync.server.local_cluster import HOST, LocalCluster


def test_the_port_of_a_node_that_is_down_is_given_to_nobody_else() -> None:
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
