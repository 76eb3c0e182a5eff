"""Certificates for clusters on one machine and for tests: an authority, and what it issues to nodes and clients.

    authority = Authority.create("insync test CA")
    authority.write(directory / "ca.pem")
    authority.issue("node-1", hosts=("localhost", "127.0.0.1")).write(directory / "node-1.pem")

Keys are on the curve P-256, which makes a handshake cheap. Private keys are written to files that only this user reads.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DEFAULT_DAYS = 365
_BACKDATED = timedelta(minutes=5)
"""Certificates are valid from a little earlier on, for machines whose clocks are slow."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate with its private key and the authority that signed it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    authority: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return _certificate_pem(self.certificate)

    def key_pem(self, password: str = "") -> str:
        return _key_pem(self.key, password)

    def write(self, path: Path, password: str = "") -> None:
        """The key and the certificate in one PEM file, as `ssl.keystore.type=PEM` expects them."""
        write_private(path, f"{self.key_pem(password)}{self.certificate_pem}".encode())

    def write_pkcs12(self, path: Path, password: str) -> None:
        encryption = serialization.BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_key_and_certificates(
            b"key", self.key, self.certificate, [self.authority], encryption_algorithm=encryption
        )
        write_private(path, data)


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @staticmethod
    def create(name: str, days: int = 10 * DEFAULT_DAYS) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        now = datetime.now(UTC)
        builder = (
            _builder(subject, subject, key.public_key(), now - _BACKDATED, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
        )
        return Authority(builder.sign(key, hashes.SHA256()), key)

    @staticmethod
    def read(certificate: Path, key: Path) -> Authority:
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key} is not the key of an authority that insync made.")
        return Authority(x509.load_pem_x509_certificate(certificate.read_bytes()), private)

    @property
    def certificate_pem(self) -> str:
        return _certificate_pem(self.certificate)

    def write(self, certificate: Path, key: Path | None = None) -> None:
        certificate.write_text(self.certificate_pem)
        if key is not None:
            write_private(key, _key_pem(self.key, "").encode())

    def write_pkcs12(self, path: Path, password: str) -> None:
        """A truststore with this authority."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(self.certificate, b"ca")], encryption)
        )

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = (),
        organization: str = "",
        days: float = DEFAULT_DAYS,
        is_expired: bool = False,
    ) -> IssuedCertificate:
        """For a node, if it has `hosts`, or for a client. Nodes are clients of each other, so both may be either."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        first, last = now - _BACKDATED, now + timedelta(days=days)
        if is_expired:
            first, last = now - timedelta(days=2), now - timedelta(days=1)
        builder = (
            _builder(_subject(name, organization), self.certificate.subject, key.public_key(), first, last)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        return IssuedCertificate(builder.sign(self.key, hashes.SHA256()), key, self.certificate)


def write_private(path: Path, data: bytes) -> None:
    """Replace the file by one that only this user can read; a reader sees the old content or the new."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, first: datetime, last: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey, password: str) -> str:
    encryption: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()
