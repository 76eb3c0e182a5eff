"""Names of TLS clients, as Java's X500Principal.getName() writes them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import NameAttribute, RelativeDistinguishedName
from cryptography.x509.oid import NameOID

from insync.security.certificates import Authority
from insync.security.x509_fields import CertificateError, alternative_names, subject_name, valid_until

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(name: x509.Name, *, years: int = 1) -> bytes:
    now = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([NameAttribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=365 * years))
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (
            [
                (NameOID.COUNTRY_NAME, "DE"),
                (NameOID.STATE_OR_PROVINCE_NAME, "Bayern"),
                (NameOID.LOCALITY_NAME, "München"),
                (NameOID.ORGANIZATION_NAME, 'A, B + C="x"'),
                (NameOID.ORGANIZATIONAL_UNIT_NAME, " lead#trail; "),
                (NameOID.COMMON_NAME, "alice<>\\"),
            ],
            r"CN=alice\<\>\\,OU=\ lead\#trail\;\ ,O=A\, B \+ C\=\"x\",L=München,ST=Bayern,C=DE",
        ),
        (
            [
                (NameOID.DOMAIN_COMPONENT, "com"),
                (NameOID.DOMAIN_COMPONENT, "example"),
                (NameOID.USER_ID, "u1"),
                (NameOID.EMAIL_ADDRESS, "a@b.c"),
                (NameOID.SERIAL_NUMBER, "12"),
                (NameOID.STREET_ADDRESS, "Main St 1"),
            ],
            "STREET=Main St 1,2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63,UID=u1,DC=example,DC=com",
        ),
        ([(NameOID.TITLE, "Dr"), (NameOID.COMMON_NAME, "x\0y")], r"CN=x\00y,2.5.4.12=#0c024472"),
        ([], ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(attributes: list[tuple[x509.ObjectIdentifier, str]], name: str) -> None:
    """The expected texts are Java's own."""
    assert subject_name(certificate(x509.Name([NameAttribute(*attribute) for attribute in attributes]))) == name


def test_attributes_of_one_relative_name_are_joined_by_plus() -> None:
    both = RelativeDistinguishedName([NameAttribute(NameOID.COMMON_NAME, "x"), NameAttribute(NameOID.USER_ID, "y")])
    last = RelativeDistinguishedName([NameAttribute(NameOID.ORGANIZATION_NAME, "o")])
    assert subject_name(certificate(x509.Name([both, last]))) == "O=o,CN=x+UID=y"


def test_alternative_names_are_compared_as_they_are() -> None:
    authority = Authority.create("ca")

    def names(*hosts: str) -> frozenset[bytes]:
        issued = authority.issue("node", hosts=hosts).certificate
        return alternative_names(issued.public_bytes(serialization.Encoding.DER))

    assert names("a", "127.0.0.1") == names("127.0.0.1", "a")
    assert names("a") < names("a", "b")
    assert names() == frozenset()


def test_the_end_of_validity_is_read_in_both_notations() -> None:
    """Before 2050 it has a year of two digits."""
    name = x509.Name([NameAttribute(NameOID.COMMON_NAME, "x")])
    assert valid_until(certificate(name)) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert valid_until(certificate(name, years=40)).year == 2064


def test_damaged_certificates_are_errors_of_their_own_kind() -> None:
    sound = certificate(x509.Name([NameAttribute(NameOID.COMMON_NAME, "x")]))
    rng = random.Random(1)
    failures = 0
    for _ in range(2_000):
        damaged = bytearray(sound[: rng.randrange(len(sound))] if rng.random() < 0.3 else sound)
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        for read in (subject_name, alternative_names, valid_until):
            try:
                read(bytes(damaged))
            except CertificateError:
                failures += 1
    assert failures > 500
