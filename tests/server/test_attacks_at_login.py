"""Attacks on a secured cluster of real processes by strangers: before they log in, and while they do.

Every test ends with a cluster that is as before.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import pack

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from insync.client.scram import Scram
from insync.security.certificates import Authority
from insync.security.principal import MappingRuleError, map_name, parse_rules
from insync.security.x509_fields import subject_name
from insync.server.local_security import PRINCIPAL_RULES
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import sasl_authenticate, sasl_handshake
from tests.server.attack_harness import (
    HIDDEN,
    MECHANISM,
    SECRETS,
    TIMEOUT_S,
    Connection,
    Target,
    acl_creation,
    attacked_cluster,
    brokers_request,
    metadata_request,
    produce_one,
    topics_request,
)

AUTHORITY = Authority.create("cluster CA")


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with attacked_cluster() as target:
        yield target


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
