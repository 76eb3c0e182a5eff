"""TLS from Kafka's settings: stores of every kind, versions, suites, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from insync.security.certificates import Authority
from insync.security.errors import SecuritySettingError
from insync.security.keystores import Keystore, Truststore
from insync.security.tls import TlsSettings

AUTHORITY = Authority.create("settings CA")
NODE = AUTHORITY.issue("node", hosts=("localhost",))
OTHER = AUTHORITY.issue("other")
PASSWORD = "o p#n=S:e\\same"
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def make_context(settings: dict[str, str]) -> ssl.SSLContext:
    tls = TlsSettings.of_listener(settings)
    return tls.server_context(tls.read())


def problem(settings: dict[str, str]) -> str:
    """What is wrong with the settings, or with what they name."""
    with pytest.raises(SecuritySettingError) as caught:
        make_context(settings)
    assert PASSWORD not in str(caught.value)
    assert "PRIVATE KEY-----" not in str(caught.value)
    return str(caught.value)


def keystore(path: Path, **more: str) -> dict[str, str]:
    return {"ssl.keystore.location": str(path), **{key.replace("_", "."): value for key, value in more.items()}}


def subject_of(settings: dict[str, str]) -> bytes:
    """The certificate that a listener with these settings shows."""
    tls = TlsSettings.of_listener(settings)
    material = tls.read()
    assert tls.server_context(material)
    assert material.identity is not None
    return material.identity.certificate


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem)


# --- keystores ---


def test_a_pem_file_has_the_key_and_the_chain(tmp_path: Path) -> None:
    NODE.write(tmp_path / "node.pem")
    for more in ({}, {"ssl_keystore_type": "PEM"}):
        assert subject_of(keystore(tmp_path / "node.pem", **more)) == der(NODE.certificate_pem)


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    NODE.write(path, PASSWORD)
    assert subject_of(keystore(path, ssl_key_password=PASSWORD)) == der(NODE.certificate_pem)
    assert "ssl.key.password: is missing" in problem(keystore(path))
    assert "ssl.key.password does not open" in problem(keystore(path, ssl_key_password="wrong"))


@pytest.mark.parametrize("separator", ["\n", " ", ""])
def test_pem_may_be_in_the_settings_and_on_one_line(separator: str) -> None:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": NODE.certificate_pem.replace("\n", separator),
        "ssl.keystore.key": NODE.key_pem().replace("\n", separator),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.certificate_pem.replace("\n", separator),
    }
    assert subject_of(settings) == der(NODE.certificate_pem)


@pytest.mark.parametrize("kind", ["", "PKCS12", "JKS"])
def test_a_pkcs12_file_is_recognized_by_its_content(tmp_path: Path, kind: str) -> None:
    """Java reads PKCS12 under the type JKS too, which is Kafka's default."""
    path = tmp_path / "node.jks"
    NODE.write_pkcs12(path, PASSWORD)
    settings = keystore(path, ssl_keystore_password=PASSWORD, ssl_keystore_type=kind)
    assert subject_of(settings) == der(NODE.certificate_pem)
    store = Keystore.of(settings)
    assert store is not None
    assert store.read().chain == NODE.certificate_pem + AUTHORITY.certificate_pem


def test_a_pkcs12_truststore_has_the_authorities(tmp_path: Path) -> None:
    AUTHORITY.write_pkcs12(tmp_path / "trust.p12", PASSWORD)
    settings = {"ssl.truststore.location": str(tmp_path / "trust.p12"), "ssl.truststore.password": PASSWORD}
    store = Truststore.of(settings)
    assert store is not None
    assert store.read() == AUTHORITY.certificate_pem


def test_a_jks_file_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "node.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    text = problem(keystore(path, ssl_keystore_password=PASSWORD))
    assert f"`keytool -importkeystore -srckeystore {path} -destkeystore {tmp_path}/node.p12 " in text


def test_private_files_are_private(tmp_path: Path) -> None:
    AUTHORITY.write(tmp_path / "ca.pem", tmp_path / "ca.key")
    NODE.write(tmp_path / "node.pem")
    NODE.write_pkcs12(tmp_path / "node.p12", PASSWORD)
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in tmp_path.iterdir() if path.name != "ca.pem"} == {
        "ca.key": "0o0",
        "node.pem": "0o0",
        "node.p12": "0o0",
    }
    assert Authority.read(tmp_path / "ca.pem", tmp_path / "ca.key").certificate == AUTHORITY.certificate


def test_settings_do_not_show_passwords_or_keys() -> None:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": NODE.certificate_pem,
        "ssl.keystore.key": NODE.key_pem(PASSWORD),
        "ssl.key.password": PASSWORD,
    }
    tls = TlsSettings.of(settings)
    text = f"{tls!r} {tls.read()!r}"
    assert PASSWORD not in text
    assert "PRIVATE" not in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "ssl.keystore.location: is missing"),
        ({"ssl.keystore.location": "/no/such/file"}, "ssl.keystore.location: '/no/such/file' cannot be read: No such"),
        ({"ssl.keystore.type": "PFX"}, "ssl.keystore.type: 'PFX' is not one of JKS, PEM, PKCS12"),
        ({"ssl.keystore.password": PASSWORD}, "ssl.keystore.password: is set but ssl.keystore.location is not"),
        (
            {"ssl.keystore.location": "x", "ssl.keystore.type": "PEM", "ssl.keystore.password": PASSWORD},
            "ssl.keystore.password: does not apply to PEM",
        ),
        ({"ssl.keystore.key": NODE.key_pem()}, "ssl.keystore.key: is set but ssl.keystore.certificate.chain is not"),
        (
            {"ssl.keystore.certificate.chain": NODE.certificate_pem},
            "ssl.keystore.certificate.chain: is set but ssl.keystore.key is not",
        ),
        (
            {"ssl.keystore.certificate.chain": NODE.certificate_pem, "ssl.keystore.key": NODE.key_pem()},
            "ssl.keystore.key: is PEM text. Set ssl.keystore.type to PEM",
        ),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": OTHER.certificate_pem,
                "ssl.keystore.key": NODE.key_pem(),
            },
            "ssl.keystore.certificate.chain: contains a private key that does not belong to its first certificate",
        ),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "no PEM",
                "ssl.keystore.key": NODE.key_pem(),
            },
            "ssl.keystore.certificate.chain: contains no certificate",
        ),
        ({"ssl.truststore.certificates": "x"}, "ssl.truststore.certificates: is PEM text"),
        ({"ssl.truststore.password": PASSWORD}, "ssl.truststore.password: is set but ssl.truststore.location is not"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth: 'maybe' is not one of none, requested, required"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol: 'SSLv3' is not one of TLS, TLSv1.2, TLSv1.3"),
        ({"ssl.enabled.protocols": "SSLv3,TLSv1.2"}, "ssl.enabled.protocols: 'SSLv3' is not one of"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1"}, "ssl.enabled.protocols: has no version that is safe"),
        ({"ssl.engine.factory.class": "a.B"}, "ssl.engine.factory.class: names a Java class"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "ssl.endpoint.identification.algorithm: 'ldaps' is"),
        ({"ssl.principal.mapping.rules": "RULE:x"}, "ssl.principal.mapping.rules: cannot be read from 'RULE:x'"),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"}, "ssl.cipher.suites: 'ECDHE-RSA-AES256-GCM-SHA384' is"),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384", "ssl.enabled.protocols": "TLSv1.2"},
            "ssl.cipher.suites: has no suite of a protocol in ssl.enabled.protocols",
        ),
        ({"ssl.allow.dn.changes": "sometimes"}, "ssl.allow.dn.changes: 'sometimes' is not one of true, false"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, str], message: str) -> None:
    assert problem(settings).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a PEM or PKCS12 file"),
        (b"\x30\x82\x01\x00 and garbage", "does not open, or it is damaged"),
        (NODE.certificate_pem.encode(), "contains no private key"),
        ((NODE.key_pem() * 2 + NODE.certificate_pem).encode(), "contains several private keys"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + NODE.key_pem().encode(),
            "contains a certificate or a private key that cannot be read",
        ),
    ],
)
def test_a_damaged_keystore_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "node.store").write_bytes(content)
    settings = keystore(tmp_path / "node.store")
    if content.startswith(b"\x30"):
        settings["ssl.keystore.password"] = PASSWORD
    assert message in problem(settings)


# --- versions and suites ---


def settings(**more: str) -> TlsSettings:
    return TlsSettings.of({key.replace("_", "."): value for key, value in more.items()})


def test_versions_are_those_that_are_enabled() -> None:
    assert settings().versions == (TLS_1_2, TLS_1_3)
    assert settings(ssl_protocol="TLSv1.2").versions == (TLS_1_2, TLS_1_2)
    assert settings(ssl_protocol="TLSv1.3").versions == (TLS_1_2, TLS_1_3)
    assert settings(ssl_enabled_protocols="TLSv1.3").versions == (TLS_1_3, TLS_1_3)
    old = settings(ssl_enabled_protocols="TLSv1.2,TLSv1.1,TLSv1")
    assert (old.versions, old.unsafe_versions) == ((TLS_1_2, TLS_1_2), ("TLSv1.1", "TLSv1"))
    assert settings(ssl_enabled_protocols="TLSv1.3, TLSv1.2").versions == (TLS_1_2, TLS_1_3)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
    ],
)
def test_suites_have_javas_names(java: str, openssl: str) -> None:
    """Every translation is a name that OpenSSL knows."""
    assert settings(ssl_cipher_suites=java).ciphers == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(f"{openssl}:@SECLEVEL=0")
    assert openssl in [cipher["name"] for cipher in context.get_ciphers()]


def test_a_version_without_a_suite_is_not_offered() -> None:
    one_two = settings(ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    one_three = settings(ssl_cipher_suites="TLS_AES_256_GCM_SHA384")
    assert (one_two.versions, one_three.versions) == ((TLS_1_2, TLS_1_2), (TLS_1_3, TLS_1_3))
    assert not one_two.has_unrestricted_suites
    assert one_three.has_unrestricted_suites
