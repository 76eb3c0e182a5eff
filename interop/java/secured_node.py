"""One node of Apache Kafka or of insync with SASL_PLAINTEXT, users and an authorizer, from the same properties file.

    with SecuredNode("kafka", directory, users) as node:
        node.ask("alice", request)

Requests are sent as they are, over a socket that logged in with PLAIN: no client is between the test and the node.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

import apache_kafka
from insync.client.request_builder import build_request
from insync.server.storage_format import format_directory, new_cluster_id
from insync.wire import codec
from insync.wire.errors import ErrorCode
from tests.authorizer_settings import authorizer_settings

HOST = "127.0.0.1"
ADMIN = "admin"
NO_ANSWER = "connection closed"
START_TIMEOUT_S = 90.0
ANSWER_TIMEOUT_S = 30.0
METADATA = 3


def password_of(user: str) -> str:
    return f"{user}-password"


class SecuredNode:
    def __init__(self, kind: str, directory: Path, users: Iterable[str]) -> None:
        self.kind = kind
        self.directory = directory
        self._users = tuple(users)
        self.port, self.controller_port = _free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: dict[tuple[str, int], socket.socket] = {}

    def __enter__(self) -> SecuredNode:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    # --- the process -------------------------------------------------------------------------------------------------

    @property
    def properties(self) -> str:
        users = " ".join(f'user_{user}="{password_of(user)}"' for user in (ADMIN, *self._users))
        login = f'username="{ADMIN}" password="{password_of(ADMIN)}" {users}'
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {login};"
        values = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"SASL_PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"SASL_PLAINTEXT://{HOST}:{self.port}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{self.controller_port}",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": jaas,
            **authorizer_settings(ADMIN),
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "node.properties"
        file.write_text(self.properties)
        cluster_id = new_cluster_id()
        with open(self.directory / "node.log", "ab") as log:
            if self.kind == "kafka":
                tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(file))
                subprocess.run(apache_kafka.java(*tool), check=True, stdout=log, stderr=log)
                run = apache_kafka.java("kafka.Kafka", str(file), options=("-Xmx512M", "-Xms512M"))
            else:
                format_directory(str(self.directory / "data"), cluster_id=cluster_id, node_id=1)
                run = [sys.executable, "-m", "insync.server", str(file)]
            self._process = subprocess.Popen(run, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        request = build_request(
            codec.request_type(METADATA, 12),
            {"topics": (), "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
        )
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            answer = self.ask(ADMIN, request)
            if answer != NO_ANSWER and answer.brokers:
                return
            time.sleep(0.1)
        tail = (self.directory / "node.log").read_text(errors="replace")[-3_000:]
        raise AssertionError(f"{self.kind} did not start:\n{tail}")

    def _stop(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(self, user: str, request: Any, *, controller: bool = False) -> Any:
        """The response, or NO_ANSWER if the node closes the connection."""
        port = self.controller_port if controller else self.port
        try:
            sock = self._sockets.get((user, port)) or self._log_in(user, port)
            return _exchange(sock, request)
        except OSError:
            sock_or_none = self._sockets.pop((user, port), None)
            if sock_or_none is not None:
                sock_or_none.close()
            return NO_ANSWER

    def _log_in(self, user: str, port: int) -> socket.socket:
        sock = socket.create_connection((HOST, port), ANSWER_TIMEOUT_S)
        self._sockets[user, port] = sock
        handshake = _exchange(sock, SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"\0{user}\0{password_of(user)}".encode()
        answer = _exchange(sock, SaslAuthenticateRequest(auth_bytes=token))
        if (handshake.error_code, answer.error_code) != (ErrorCode.none, ErrorCode.none):
            raise AssertionError(f"{user} cannot log in: {handshake} {answer}")
        return sock


def _exchange(sock: socket.socket, request: Any) -> Any:
    data = codec.encode_request(request, 1, "interop")
    sock.sendall(len(data).to_bytes(4, "big") + data)
    size = int.from_bytes(_read(sock, 4), "big")
    return codec.decode_response(_read(sock, size), type(request))[1]


def _read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("the node closed the connection")
        data += chunk
    return data


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind((HOST, 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()
