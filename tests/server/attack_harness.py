"""A secured cluster of real processes as its attackers see it, and the requests that they send.

Clients use SASL_SSL; nodes use listeners of their own with client certificates.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack, unpack
from typing import Any

from insync.client.request_builder import build_request
from insync.client.scram import Scram
from insync.cluster.cluster import Cluster
from insync.security.acl import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from insync.wire import batch, codec
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    create_acls,
    describe_topic_partitions,
    metadata,
    produce,
    sasl_authenticate,
    sasl_handshake,
)
from insync.wire.types import METADATA_TOPIC, ms
from tests.acl_filters import EVERY_ACL

TIMEOUT_S = 20.0
MECHANISM = "SCRAM-SHA-512"
SECRETS = {"alice": "alice-5ecret", "mallory": "mallory-5ecret"}
ORDERS, HIDDEN = "orders", "hidden"
NODE_ID = "insync-node-1"
"""The client id of a node."""
REFUSALS = {ErrorCode.cluster_authorization_failed, ErrorCode.topic_authorization_failed}


class Connection:
    """A connection to a listener, which sends whatever a test wants."""

    def __init__(self, port: int, tls: ssl.SSLContext | None, client_id: str = NODE_ID) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        self.client_id = client_id

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, request: Any) -> None:
        self.send_frame(codec.encode_request(request, 1, self.client_id))

    def send_frame(self, frame: bytes) -> None:
        self.sock.sendall(pack(">i", len(frame)) + frame)

    def ask(self, request: Any) -> Any:
        self.send(request)
        return codec.decode_response(self.receive_frame(), type(request))[1]

    def receive_frame(self) -> bytes:
        (length,) = unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the node")
            data += piece
        return data

    def is_closed(self) -> bool:
        """Whether the node closes the connection without a word."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    # --- authentication ----------------------------------------------------------------------------------------------

    def handshake(self, mechanism: str = MECHANISM) -> Any:
        return self.ask(sasl_handshake.SaslHandshakeRequest(mechanism=mechanism))

    def authenticate(self, message: bytes) -> Any:
        return self.ask(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=message))

    def log_in(self, user: str, password: str) -> list[bytes]:
        """The client's messages."""
        assert self.handshake().error_code is ErrorCode.none
        scram = Scram("sha512", user, password, secrets.token_hex(12))
        first = scram.first()
        proof = scram.answer(bytes(self.authenticate(first).auth_bytes))
        assert proof is not None
        answer = self.authenticate(proof)
        if answer.error_code is not ErrorCode.none:
            raise PermissionError(answer.error_message)
        assert scram.answer(bytes(answer.auth_bytes)) is None
        return [first, proof]


class Target:
    """The cluster, as its attackers and its administrator see it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.directory = cluster.log_of(1).parents[1] / "security"
        self.admin_password = cluster.client_config("admin")["sasl.password"]
        self.certificate = cluster.client_certificate("mallory")

    def tls(self, certificate: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def log_in(self, user: str, node: int = 1, client_id: str = NODE_ID) -> Connection:
        password = self.admin_password if user == "admin" else SECRETS[user]
        connection = Connection(self.cluster.nodes[node].port, self.tls(), client_id)
        connection.log_in(user, password)
        return connection

    def as_mallory(self, listener: str, node: int) -> Connection:
        if listener == "CLIENTS":
            return self.log_in("mallory", node)
        ports = self.cluster.nodes[node]
        port = ports.node_port if listener == "NODES" else ports.controller_port
        return Connection(port, self.tls(self.certificate))

    def as_admin(self, request: Any, node: int = 1) -> Any:
        with self.log_in("admin", node) as connection:
            return connection.ask(request)

    def topic_id(self, name: str) -> Any:
        request = metadata.MetadataRequest(
            topics=(metadata.MetadataRequestTopic(topic_id=None, name=name),), include_topic_authorized_operations=False
        )
        return self.as_admin(request).topics[0].topic_id

    def state(self) -> Any:
        """What no attack may change: the quorum's term, leaders, ISRs, high watermarks, brokers, ACLs."""
        with self.log_in("admin", self.cluster.leader_of(ORDERS)) as admin:
            quorum = admin.ask(quorum_request()).topics[0].partitions[0]
            topics = admin.ask(topics_request()).topics
            offsets = admin.ask(offsets_request(ORDERS)).topics
            brokers = admin.ask(brokers_request()).brokers
            acls = admin.ask(acls_request()).resources
        return (quorum.leader_id, quorum.leader_epoch), topics, offsets, brokers, acls


def quorum_request() -> Any:
    metadata_log = {"topic_name": METADATA_TOPIC, "partitions": ({"partition_index": 0},)}
    return request_of("describe_quorum", topics=(metadata_log,))


def topics_request() -> Any:
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics=(), cursor=None)


def offsets_request(name: str, replica_id: int = -1) -> Any:
    cls = codec.pinned_request_type(APIS["list_offsets"].key)
    line = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    return build_request(
        cls,
        {
            "replica_id": replica_id,
            "isolation_level": 0,
            "timeout": ms(5_000),
            "topics": ({"name": name, "partitions": (line,)},),
        },
    )


def brokers_request() -> Any:
    return request_of(
        "describe_cluster",
        endpoint_type=1,
        include_cluster_authorized_operations=False,
        include_fenced_brokers=True,
    )


def acl_filter(principal: str | None = None) -> dict[str, Any]:
    return EVERY_ACL | {"principal_filter": principal}


def acls_request() -> Any:
    return request_of("describe_acls", **acl_filter())


def request_of(api: str, **body: Any) -> Any:
    return build_request(codec.pinned_request_type(APIS[api].key), body)


def all_errors(value: Any) -> set[ErrorCode]:
    if isinstance(value, ErrorCode):
        return {value}
    if isinstance(value, tuple | list):
        return set().union(*(all_errors(item) for item in value))
    fields = getattr(value, "__dataclass_fields__", ())
    return set().union(*(all_errors(getattr(value, name)) for name in fields))


@contextmanager
def attacked_cluster() -> Iterator[Target]:
    """A cluster in which mallory has an account and no rights."""
    topics = {ORDERS: 1, HIDDEN: 1}
    with Cluster(brokers=3, topics=topics, security="sasl_ssl", users=SECRETS) as cluster:
        target = Target(cluster)
        removal = request_of("delete_acls", filters=(acl_filter("User:mallory"),))
        assert len(target.as_admin(removal).filter_results[0].matching_acls) == 3
        produce_one(target)
        yield target


def produce_request(topic_id: Any) -> Any:
    records = bytes(batch.build([batch.NewRecord(key=None, value=b"v")], timestamp_ms=1_700_000_000_000))
    line = produce.PartitionProduceData(index=0, records=records)
    topic = produce.TopicProduceData(topic_id=topic_id, partition_data=(line,))
    return produce.ProduceRequest(transactional_id=None, acks=-1, timeout=ms(5_000), topic_data=(topic,))


def produce_one(target: Target) -> None:
    with target.log_in("alice", target.cluster.leader_of(ORDERS)) as alice:
        assert all_errors(alice.ask(produce_request(target.topic_id(ORDERS)))) == {ErrorCode.none}


def metadata_request(*names: str) -> Any:
    return metadata.MetadataRequest(
        topics=tuple(metadata.MetadataRequestTopic(topic_id=None, name=name) for name in names) or None,
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )


def acl_creation(principal: str, name: str = CLUSTER_NAME, kind: ResourceType = ResourceType.CLUSTER) -> Any:
    creation = create_acls.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=Operation.ALL,
        permission_type=Permission.ALLOW,
    )
    return create_acls.CreateAclsRequest(creations=(creation,))
