"""Attacks on a secured cluster of real processes: by strangers, and by a user without rights.

Clients use SASL_SSL; nodes use listeners of their own with client certificates. Every test ends with a cluster that is
as before.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import pack, unpack
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from insync.client.request_builder import build_request
from insync.client.scram import Scram
from insync.cluster.cluster import Cluster
from insync.node.apis.describe_configs import STATE_KEY
from insync.quorum.config import METADATA_DIRECTORY
from insync.security.acl import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from insync.security.certificates import Authority
from insync.security.principal import MappingRuleError, map_name, parse_rules
from insync.security.x509_fields import subject_name
from insync.server.local_security import PRINCIPAL_RULES
from insync.wire import batch, codec
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode
from insync.wire.forwarded_client import encode_principal
from insync.wire.messages import (
    create_acls,
    describe_topic_partitions,
    envelope,
    fetch,
    get_replica_log_info,
    metadata,
    produce,
    sasl_authenticate,
    sasl_handshake,
)
from insync.wire.types import METADATA_TOPIC, millis, ms
from tests.acl_filters import EVERY_ACL
from tests.authorization_cases import CASES, Case
from tests.server.server_harness import eventually

TIMEOUT_S = 20.0
AUTHORITY = Authority.create("cluster CA")
MECHANISM = "SCRAM-SHA-512"
SECRETS = {"alice": "alice-5ecret", "mallory": "mallory-5ecret"}
ORDERS, HIDDEN = "orders", "hidden"
NODE_ID = "insync-node-1"
"""The client id of a node."""
NODE_CASES = [case for case in CASES if case.between_nodes]
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


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
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


# --- posing as a node (A4) --------------------------------------------------------------------------------------------


def body_of(case: Case, target: Target) -> Any:
    is_ours = case.api == "get_replica_log_info"
    api = APIS[case.api]
    cls = get_replica_log_info.GetReplicaLogInfoRequest if is_ours else codec.request_type(api.key, api.pinned)
    ids = {ORDERS: target.topic_id(ORDERS), "secret": target.topic_id(HIDDEN)}
    return build_request(cls, case.body(ids))


def replica_fetch(target: Target, broker_epoch: int, replica_id: int) -> Any:
    """As if the follower had all records and more: a leader that believes it moves its high watermark."""
    line = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=1_000,
        last_fetched_epoch=-1,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
        max_wait=ms(0),
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(fetch.FetchTopic(topic_id=target.topic_id(ORDERS), partitions=(line,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def isr_change(target: Target, broker_epoch: int, leader: int) -> Any:
    """Removes all followers from the ISR."""
    line = {
        "partition_index": 0,
        "leader_epoch": 0,
        "new_isr_with_epochs": ({"broker_id": leader, "broker_epoch": broker_epoch},),
        "leader_recovery_state": 0,
        "partition_epoch": 0,
    }
    topics = ({"topic_id": target.topic_id(ORDERS), "partitions": (line,)},)
    return request_of("alter_partition", broker_id=leader, broker_epoch=broker_epoch, topics=topics)


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


def wrapped(request: Any, principal: str = "User:admin") -> Any:
    return envelope.EnvelopeRequest(
        request_data=codec.encode_request(request, 0, NODE_ID),
        request_principal=encode_principal(principal),
        client_host_address=bytes((127, 0, 0, 1)),
    )


@pytest.mark.parametrize("listener", ["CLIENTS", "NODES", "CONTROLLER"])
def test_a_user_cannot_pose_as_a_node(target: Target, listener: str) -> None:
    """Neither a node's client id, nor a replica id with its broker epoch, nor the listeners of nodes help."""
    leader = target.cluster.leader_of(ORDERS)
    follower = next(node for node in target.cluster.nodes if node != leader)
    asked = get_replica_log_info.TopicPartitions(topic_id=target.topic_id(ORDERS), partitions=(0,))
    epochs = {
        node: target.as_admin(
            get_replica_log_info.GetReplicaLogInfoRequest(topic_partitions=(asked,)), node
        ).broker_epoch
        for node in (leader, follower)
    }
    before = target.state()
    controller = before[0][0]
    requests = [body_of(case, target) for case in NODE_CASES]
    requests += [
        replica_fetch(target, epochs[follower], follower),
        isr_change(target, epochs[leader], leader),
        request_of(
            "broker_heartbeat",
            broker_id=follower,
            broker_epoch=epochs[follower],
            current_metadata_offset=1,
            want_fence=True,
            want_shut_down=True,
        ),
        wrapped(acl_creation("User:mallory")),
        wrapped(wrapped(acl_creation("User:mallory"))),
        wrapped(isr_change(target, epochs[leader], leader), "User:nodes"),
    ]
    for node in {leader, controller}:
        with target.as_mallory(listener, node) as mallory:
            for request in requests:
                assert all_errors(mallory.ask(request)) & REFUSALS, type(request).__name__
    assert target.state() == before


def test_an_envelope_has_only_what_brokers_forward(target: Target) -> None:
    """Even of a super user: an envelope must not become a way around the checks of its content."""
    before = target.state()
    for inner in (wrapped(acl_creation("User:mallory")), isr_change(target, 1, 1), quorum_vote()):
        answer = target.as_admin(wrapped(inner), before[0][0])
        assert answer.error_code is ErrorCode.invalid_request
    denied = target.as_admin(wrapped(acl_creation("User:mallory"), "User:mallory"), before[0][0])
    assert denied.error_code is ErrorCode.none
    inner = codec.decode_response(bytes(denied.response_data), create_acls.CreateAclsRequest)[1]
    assert inner.results[0].error_code is ErrorCode.cluster_authorization_failed
    assert target.state() == before


def quorum_vote() -> Any:
    return request_of("vote", cluster_id=None, voter_id=-1, topics=())


# --- certificates -----------------------------------------------------------------------------------------------------


def issue_with_subject(authority: Authority, subject: x509.Name, patch: tuple[bytes, bytes] = (b"", b"")) -> bytes:
    """A key and a certificate, as PEM. `patch` replaces bytes of the subject, which is how invalid text gets there."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(authority.key, hashes.SHA256())
    )
    der = made.public_bytes(serialization.Encoding.DER)
    if patch[0]:
        body = made.tbs_certificate_bytes.replace(*patch)
        algorithm = bytes.fromhex("300a06082a8648ce3d040302")
        signature = b"\0" + authority.key.sign(body, ec.ECDSA(hashes.SHA256()))
        content = body + algorithm + bytes((3, len(signature))) + signature
        der = b"\x30\x82" + len(content).to_bytes(2, "big") + content
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + ssl.DER_cert_to_PEM_cert(der).encode()


def name_of(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])


ORGANIZATION = "insync nodes"
CN, ORG, UNIT = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME


@pytest.mark.parametrize(
    "subject",
    [
        name_of((CN, f"node-1,O={ORGANIZATION}")),
        name_of((CN, f"node-1\\,O={ORGANIZATION}")),
        name_of((CN, f'node-1",O={ORGANIZATION}')),
        name_of((CN, f"x\nCN=node-1,O={ORGANIZATION}")),
        name_of((CN, "node-1"), (ORG, ORGANIZATION)),  # the other way round
        name_of((ORG, f"{ORGANIZATION}+CN=admin"), (CN, "node-1")),
        name_of((ORG, f" {ORGANIZATION}"), (CN, "node-1")),
        name_of((UNIT, ORGANIZATION), (CN, "node-1")),
        name_of((CN, "admin"), (CN, "mallory")),
        name_of((CN, "admin,O=x")),
        name_of((CN, "admin\0")),
        name_of((CN, " admin")),
        name_of((UNIT, "x"), (CN, "admin")),
    ],
    ids=repr,
)
def test_a_certificate_cannot_be_mistaken_for_that_of_a_node_or_the_admin(subject: x509.Name) -> None:
    pem = issue_with_subject(AUTHORITY, subject).decode()
    certificate = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])
    try:
        principal = map_name(parse_rules(PRINCIPAL_RULES), subject_name(certificate))
    except MappingRuleError:
        return
    assert principal not in ("nodes", "admin")


def test_a_certificate_whose_subject_is_not_text_is_refused(target: Target, tmp_path: Path) -> None:
    authority = Authority.read(target.directory / "ca.pem", target.directory / "ca.key")
    pem = tmp_path / "damaged.pem"
    # OpenSSL checks UTF-8, but not that a PrintableString is printable. Countries are PrintableStrings.
    subject = name_of((CN, "mallory"), (NameOID.COUNTRY_NAME, "ZZ"))
    pem.write_bytes(issue_with_subject(authority, subject, (b"\x13\x02ZZ", b"\x13\x02\xff\xfe")))
    node = target.cluster.nodes[1]
    for _ in range(3):
        with Connection(node.node_port, target.tls(pem)) as connection:
            connection.send(topics_request())
            assert connection.is_closed()
    assert "Traceback" not in node.log.read_text()
    target.state()


def test_text_from_outside_does_not_forge_lines_of_the_log(target: Target) -> None:
    forged = "x\nevent=forged \x1b[2J\u2028event=forged"
    with (
        Connection(target.cluster.nodes[1].port, target.tls(), client_id=forged) as connection,
        pytest.raises(PermissionError),
    ):
        connection.log_in(forged, "wrong")
    with target.log_in("mallory", client_id=forged) as mallory:
        mallory.ask(metadata_request(forged))
        mallory.ask(acl_creation(forged))
    with target.log_in("admin", client_id=forged) as admin:
        for kind in (ResourceType.TOPIC, ResourceType.GROUP):
            assert all_errors(admin.ask(acl_creation(f"User:{forged}", forged, kind))) == {ErrorCode.none}
    shown = {acl.principal for resource in target.state()[4] for acl in resource.acls}
    assert f"User:{forged}" in shown
    target.as_admin(request_of("delete_acls", filters=(acl_filter(f"User:{forged}"),)))
    for node in target.cluster.nodes.values():
        text = node.log.read_bytes().decode()
        assert not [line for line in text.splitlines() if line.startswith("event=forged") or "\x1b" in line]
    assert "event=authorization_denied principal=User:mallory" in target.cluster.log_of(1).read_text()


# --- what is shown ----------------------------------------------------------------------------------------------------


def metadata_request(*names: str) -> Any:
    return metadata.MetadataRequest(
        topics=tuple(metadata.MetadataRequestTopic(topic_id=None, name=name) for name in names) or None,
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )


def named_requests(name: str) -> Iterator[Any]:
    """Requests that would tell something about this topic."""
    yield metadata_request(name)
    yield request_of("describe_topic_partitions", topics=({"name": name},), response_partition_limit=100, cursor=None)
    for replica_id in (-1, -2, 2):
        yield offsets_request(name, replica_id)
        line = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        yield request_of(
            "offset_for_leader_epoch", replica_id=replica_id, topics=({"topic": name, "partitions": (line,)},)
        )
    yield request_of("describe_producers", topics=({"name": name, "partition_indexes": (0,)},))
    line = {"partition_index": 0, "offset": 0}
    yield request_of("delete_records", timeout=ms(1_000), topics=({"name": name, "partitions": (line,)},))
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    yield request_of("describe_configs", resources=(resource,), include_synonyms=True, include_documentation=False)
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    yield request_of("create_topics", topics=(wanted,), timeout=ms(1_000), validate_only=True)
    more = {"name": name, "count": 9, "assignments": None}
    yield request_of("create_partitions", topics=(more,), timeout=ms(1_000), validate_only=True)
    yield request_of("delete_topics", topics=({"name": name, "topic_id": None},), timeout=ms(1_000))


def test_a_topic_that_may_not_be_described_looks_like_one_that_is_missing(target: Target) -> None:
    before = target.state()
    for node in target.cluster.nodes:
        with target.log_in("mallory", node) as mallory:
            for hidden, missing in zip(named_requests(HIDDEN), named_requests("absent"), strict=True):
                shown, expected = mallory.ask(hidden), mallory.ask(missing)
                assert repr(shown) == repr(expected).replace("absent", HIDDEN)
                assert all_errors(shown) & REFUSALS
            assert mallory.ask(metadata_request()).topics == ()
            groups = mallory.ask(request_of("list_groups", states_filter=(), types_filter=())).groups
            assert groups == ()
    assert target.state() == before
    assert 'insync_authorization_denied_total{operation="DESCRIBE",resource_type="TOPIC"}' in metrics_of(target, 1)


def old_request(api: str, version: int, body: dict[str, Any]) -> Any:
    return build_request(codec.request_type(APIS[api].key, version), body)


def old_produce(version: int, names: tuple[str, ...], acks: int = -1) -> Any:
    records = bytes(batch.build([batch.NewRecord(key=None, value=b"v")], timestamp_ms=1_700_000_000_000))
    topics = tuple({"name": name, "partition_data": ({"index": 0, "records": records},)} for name in names)
    body = {"transactional_id": None, "acks": acks, "timeout": ms(1_000), "topic_data": topics}
    return old_request("produce", version, body)


def old_fetch(version: int, names: tuple[str, ...], replica_id: int = -1, session_id: int = 0) -> Any:
    line = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1}
    line |= {"log_start_offset": -1, "partition_max_bytes": 1_000}
    topics = tuple({"topic": name, "partitions": (line,)} for name in names)
    body = {"replica_id": replica_id, "max_wait": ms(0), "min_bytes": 1, "max_bytes": 1_000, "isolation_level": 0}
    body |= {"session_id": session_id, "session_epoch": 5 if session_id else -1, "topics": topics, "rack_id": ""}
    return old_request("fetch", version, body | {"forgotten_topics_data": (), "cluster_id": None})


def test_versions_that_name_topics_do_not_show_which_exist(target: Target) -> None:
    """A3: the translator refuses names that do not exist before the node sees the request."""
    pairs = [((HIDDEN,), ("absent",)), (("other", HIDDEN), ("other", "absent")), ((HIDDEN, "x"), ("absent", "x"))]
    with target.log_in("mallory") as mallory:
        for hidden, absent in pairs:
            for version in (3, 6, 12):
                shown, expected = (mallory.ask(old_produce(version, names)) for names in (hidden, absent))
                assert repr(shown) == repr(expected).replace("absent", HIDDEN), version
            for version in (4, 7, 12):
                for replica_id, session_id in ((-1, 0), (2, 0), (-1, 77), (2, 77)):
                    requests = (old_fetch(version, names, replica_id, session_id) for names in (hidden, absent))
                    shown, expected = (mallory.ask(request) for request in requests)
                    assert repr(shown) == repr(expected).replace("absent", HIDDEN), (version, replica_id, session_id)
    for name in (HIDDEN, "absent"):
        with target.log_in("mallory") as mallory:
            mallory.send(old_produce(12, (name,), acks=0))
            assert mallory.is_closed(), name


def metrics_of(target: Target, node: int) -> str:
    address = f"http://127.0.0.1:{target.cluster.nodes[node].metrics_port}/metrics"
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as page:
        return str(page.read().decode())


def test_secrets_are_not_shown(target: Target) -> None:
    hidden = [*SECRETS.values(), target.admin_password, "PRIVATE KEY", "ScramLoginModule"]
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    request = request_of("describe_configs", resources=(resource,), include_synonyms=True, include_documentation=True)
    with target.log_in("mallory") as mallory:
        refused = mallory.ask(request).results[0]
        assert (refused.error_code, refused.configs) == (ErrorCode.cluster_authorization_failed, ())
        state = {**resource, "configuration_keys": (STATE_KEY,)}
        assert mallory.ask(replace(request, resources=build_resources(state))).results[0].configs == ()
    texts = {"configs": repr(target.as_admin(request))}
    for node in target.cluster.nodes.values():
        texts[f"log of {node.id}"] = node.log.read_text()
        texts[f"metrics of {node.id}"] = metrics_of(target, node.id)
    for where, text in texts.items():
        assert not [secret for secret in hidden if secret in text], where


def build_resources(resource: dict[str, Any]) -> Any:
    return request_of(
        "describe_configs", resources=(resource,), include_synonyms=False, include_documentation=False
    ).resources


def test_files_with_keys_are_their_owners_only(target: Target) -> None:
    public = {"ca.pem"}
    files = [path for path in target.directory.rglob("*") if path.is_file() and path.name not in public]
    files += target.directory.parent.rglob("bootstrap.checkpoint")
    assert len(files) > len(target.cluster.nodes)
    assert not [path for path in files if path.stat().st_mode & 0o077]
    private = [target.directory]
    for node in target.cluster.nodes.values():
        private += [node.directory, node.directory / "data" / METADATA_DIRECTORY]
    assert not [path for path in private if path.stat().st_mode & 0o077]


# --- quotas -----------------------------------------------------------------------------------------------------------


def set_quota(target: Target, user: str, bytes_per_second: float, *, remove: bool = False) -> None:
    change = {"key": "producer_byte_rate", "value": bytes_per_second, "remove": remove}
    entry = {"entity": ({"entity_type": "user", "entity_name": user},), "ops": (change,)}
    answer = target.as_admin(request_of("alter_client_quotas", entries=(entry,), validate_only=False))
    assert all_errors(answer) == {ErrorCode.none}


def test_a_quota_is_not_escaped_by_other_client_ids_and_connections(target: Target) -> None:
    """A9: nor by the client id of a node. Others are served meanwhile."""
    leader, topic_id = target.cluster.leader_of(ORDERS), target.topic_id(ORDERS)

    def throttled_ms(client_id: str) -> int:
        with target.log_in("alice", leader, client_id) as alice:
            return millis(alice.ask(produce_request(topic_id)).throttle_time)

    set_quota(target, "alice", 1.0)
    try:
        eventually(lambda: throttled_ms("first") > 0, "the quota is applied")
        assert all(throttled_ms(client_id) > 0 for client_id in ("second", "", "insync-node-2"))
        assert target.as_admin(brokers_request(), leader).error_code is ErrorCode.none
    finally:
        set_quota(target, "alice", 0.0, remove=True)
    eventually(lambda: throttled_ms("first") == 0, "the quota is removed")


# --- before authentication --------------------------------------------------------------------------------------------

STRANGER = "127.0.0.2"
"""The address of the attacker; the others are at 127.0.0.1."""
SERVED_S = 15.0
"""How long a client may wait meanwhile, on a machine that is busy with other tests."""


def client_hello(target: Target) -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = target.tls().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def open_sockets(port: int, count: int) -> list[socket.socket]:
    return [
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S, source_address=(STRANGER, 0)) for _ in range(count)
    ]


def assert_served(target: Target) -> None:
    """A client logs in and produces, and a node connects to the listener of nodes."""
    began = time.monotonic()
    produce_one(target)
    certificate = target.directory / "node-2.pem"
    with Connection(target.cluster.nodes[1].node_port, target.tls(certificate), "test") as node:
        assert node.ask(brokers_request()).error_code is ErrorCode.none
    assert time.monotonic() - began < SERVED_S


@pytest.mark.parametrize("size", [0, 5, None], ids=["silent", "begun", "whole"])
def test_a_flood_of_half_open_connections_does_not_keep_others_out(target: Target, size: int | None) -> None:
    """More than are allowed, all of them fresh: none of them counts as slow yet. `size`: of the ClientHello's bytes."""
    sent = client_hello(target)[:size]
    flood = open_sockets(target.cluster.nodes[1].port, 1_100)
    try:
        for sock in flood:
            with suppress(ConnectionError):
                sock.sendall(sent)
        assert_served(target)
    finally:
        for sock in flood:
            sock.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + bytes(70_000),  # a record that is too long
        b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(70_000),  # a ClientHello of 16 MB
        pack(">ihhih", 10, 18, 0, 1, -1),  # ApiVersions without TLS
    ],
    ids=["http", "record", "hello", "kafka"],
)
def test_garbage_is_answered_with_an_alert(target: Target, garbage: bytes) -> None:
    node = target.cluster.nodes[1]
    for port in (node.port, node.node_port, node.controller_port):
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as sock:
            sock.sendall(garbage)
            with suppress(ConnectionResetError):
                assert sock.recv(1) == b"\x15"
    assert_served(target)


# --- SASL -------------------------------------------------------------------------------------------------------------


def connect(target: Target, node: int = 1) -> Connection:
    return Connection(target.cluster.nodes[node].port, target.tls())


def test_a_recorded_login_cannot_be_replayed(target: Target) -> None:
    with connect(target) as alice:
        recorded = alice.log_in("alice", SECRETS["alice"])
    for skipped in (0, 1):
        with connect(target) as replaying:
            replaying.handshake()
            answers = [replaying.authenticate(message) for message in recorded[skipped:]]
            assert answers[-1].error_code is ErrorCode.sasl_authentication_failed
            assert not answers[-1].auth_bytes
            assert replaying.is_closed()


@pytest.mark.parametrize("damage", ["truncated", "without a proof", "empty proof", "another user", "another nonce"])
def test_a_damaged_login_fails(target: Target, damage: str) -> None:
    with connect(target) as connection:
        connection.handshake()
        scram = Scram("sha512", "mallory", SECRETS["mallory"], secrets.token_hex(12))
        first = scram.first()
        sent = first.replace(b"n=mallory", b"n=admin") if damage == "another user" else first
        proof = scram.answer(bytes(connection.authenticate(sent).auth_bytes))
        assert proof is not None
        before_proof = proof.rpartition(b",p=")[0]
        damaged = {
            "truncated": proof[:-5],
            "without a proof": before_proof,
            "empty proof": before_proof + b",p=",
            "another user": proof,
            "another nonce": proof.replace(b",r=", b",r=x"),
        }
        assert connection.authenticate(damaged[damage]).error_code is ErrorCode.sasl_authentication_failed
        assert connection.is_closed()


def test_a_mechanism_that_is_not_enabled_cannot_be_chosen(target: Target) -> None:
    for mechanism in ("PLAIN", "OAUTHBEARER", "GSSAPI", "scram-sha-512", "", "SCRAM-SHA-1"):
        with connect(target) as connection:
            assert connection.handshake(mechanism).error_code is ErrorCode.unsupported_sasl_mechanism
            assert connection.is_closed()


def test_nothing_is_served_before_and_during_authentication(target: Target) -> None:
    scram = Scram("sha512", "alice", SECRETS["alice"], secrets.token_hex(12))
    premature = (
        metadata_request(),
        acl_creation("User:ANONYMOUS"),
        sasl_authenticate.SaslAuthenticateRequest(auth_bytes=scram.first()),
    )
    for request in premature:
        with connect(target) as connection:
            connection.send(request)
            assert connection.is_closed()
    for request in premature[:2]:
        with connect(target) as connection:
            connection.handshake()
            connection.authenticate(scram.first())
            connection.send(request)
            assert connection.is_closed()


def test_large_tokens_are_refused(target: Target) -> None:
    with connect(target) as connection:
        connection.handshake()
        answer = connection.authenticate(b"n,,n=alice,r=" + b"x" * 100_000)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
    with connect(target) as connection:
        connection.handshake()
        with suppress(OSError):  # TLS reports the hang-up as an error of its own
            connection.send_frame(bytes(600_000))
        assert connection.is_closed()
    assert_served(target)


def test_an_unknown_user_is_answered_like_a_wrong_password(target: Target) -> None:
    """At two brokers, and twice at one: the salt of an unknown user must not change from login to login."""
    answers = []
    for user in ("alice", "nobody", "a=b,c=d"):
        shown = []
        for node in (1, 1, 2):
            with connect(target, node) as connection:
                connection.handshake()
                scram = Scram("sha512", user, "wrong", secrets.token_hex(12))
                challenge = bytes(connection.authenticate(scram.first()).auth_bytes)
                proof = scram.answer(challenge)
                assert proof is not None
                refused = connection.authenticate(proof)
                shown.append(challenge.partition(b",")[2])
                answers.append((refused.error_code, refused.error_message, len(challenge)))
                assert connection.is_closed()
        assert len(set(shown)) == 1, user
    assert set(answers) == {answers[0]}


def test_logging_in_again_as_another_user_does_not_change_the_principal(target: Target) -> None:
    with target.log_in("mallory") as mallory:
        mallory.send(sasl_handshake.SaslHandshakeRequest(mechanism=MECHANISM))
        answer = codec.decode_response(mallory.receive_frame(), sasl_handshake.SaslHandshakeRequest)[1]
        assert answer.error_code is ErrorCode.illegal_sasl_state
        assert mallory.ask(metadata_request(HIDDEN)).topics[0].error_code is ErrorCode.topic_authorization_failed
