"""Keystores and truststores: PEM in files or in the settings themselves, and PKCS12 files.

What a file contains decides, not its name: keytool has written PKCS12 for years, whatever the file is called, and Java
reads it under the type JKS too. Real JKS files are refused with the command that converts them, because no maintained
Python library reads them.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from insync.security.errors import SecuritySettingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.S)
_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""How JKS and JCEKS files begin."""
_DER_SEQUENCE = b"\x30"
_PEM = b"-----BEGIN "
_END = "-----END CERTIFICATE-----"
_LINE = 64
PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
_TYPES = (JKS, PEM, PKCS12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate chain, the leaf first, and its private key, both as PEM."""

    chain: str
    key: str = field(repr=False)
    key_password: str = field(repr=False)
    setting: str
    """The setting that it comes from, for error messages."""

    @property
    def certificate(self) -> bytes:
        """The leaf, as DER."""
        return ssl.PEM_cert_to_DER_cert(self.chain[: self.chain.index(_END) + len(_END)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Keystore:
    """Where a certificate and its key are."""

    location: str = ""
    kind: str = ""
    """As set; empty if it is not."""
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    chain: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    @staticmethod
    def of(settings: Mapping[str, str]) -> Keystore | None:
        """None if there is none. Contradictions are those that Kafka refuses."""
        store = Keystore(
            location=settings.get("ssl.keystore.location", ""),
            kind=_read_kind(settings, "ssl.keystore.type"),
            password=settings.get("ssl.keystore.password", ""),
            key_password=settings.get("ssl.key.password", ""),
            chain=settings.get("ssl.keystore.certificate.chain", ""),
            key=settings.get("ssl.keystore.key", ""),
        )
        if store.chain or store.key:
            if not store.chain or not store.key:
                given, missing = ("certificate.chain", "key") if store.chain else ("key", "certificate.chain")
                raise SecuritySettingError(
                    f"ssl.keystore.{given}", f"is set but ssl.keystore.{missing} is not. Set both."
                )
            if store.kind != PEM:
                raise SecuritySettingError("ssl.keystore.key", "is PEM text. Set ssl.keystore.type to PEM.")
            if store.location:
                raise SecuritySettingError("ssl.keystore.key", "and ssl.keystore.location are both set. Remove one.")
        elif not store.location:
            if store.password:
                raise SecuritySettingError("ssl.keystore.password", "is set but ssl.keystore.location is not.")
            return None
        if store.kind == PEM and store.password:
            raise SecuritySettingError(
                "ssl.keystore.password", "does not apply to PEM. Set ssl.key.password if the key is encrypted."
            )
        return store

    def read(self) -> Identity:
        if self.key:
            return _identity(
                _blocks(self.chain), _blocks(self.key), self.key_password, "ssl.keystore.certificate.chain"
            )
        data, kind = _read_file("ssl.keystore.location", self.location, self.kind)
        if kind == PEM:
            blocks = _blocks(data.decode("utf-8", "replace"))
            return _identity(blocks, blocks, self.key_password, "ssl.keystore.location")
        return _identity_of_pkcs12(data, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truststore:
    """Where the trusted authorities are."""

    location: str = ""
    kind: str = ""
    password: str = field(default="", repr=False)
    certificates: str = field(default="", repr=False)

    @staticmethod
    def of(settings: Mapping[str, str]) -> Truststore | None:
        """None if there is none: then the machine's authorities are trusted."""
        store = Truststore(
            location=settings.get("ssl.truststore.location", ""),
            kind=_read_kind(settings, "ssl.truststore.type"),
            password=settings.get("ssl.truststore.password", ""),
            certificates=settings.get("ssl.truststore.certificates", ""),
        )
        if store.certificates:
            if store.kind != PEM:
                raise SecuritySettingError(
                    "ssl.truststore.certificates", "is PEM text. Set ssl.truststore.type to PEM."
                )
            if store.location:
                raise SecuritySettingError(
                    "ssl.truststore.certificates", "and ssl.truststore.location are both set. Remove one."
                )
        elif not store.location:
            if store.password:
                raise SecuritySettingError("ssl.truststore.password", "is set but ssl.truststore.location is not.")
            return None
        if store.kind == PEM and store.password:
            raise SecuritySettingError("ssl.truststore.password", "does not apply to PEM. Remove it.")
        return store

    def read(self) -> str:
        """Certificates as PEM."""
        name = "ssl.truststore.certificates" if self.certificates else "ssl.truststore.location"
        if self.certificates:
            certificates = _certificates(_blocks(self.certificates))
        else:
            data, kind = _read_file(name, self.location, self.kind)
            certificates = (
                _certificates(_blocks(data.decode("utf-8", "replace")))
                if kind == PEM
                else _certificates_of_pkcs12(data, self)
            )
        if not certificates:
            raise SecuritySettingError(name, "contains no certificate. Add the authorities that are to be trusted.")
        return "".join(certificates)


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """The ssl module reads files only: the key goes through one in memory, which no other process sees."""
    handle = os.memfd_create("insync-identity")
    try:
        with os.fdopen(os.dup(handle), "w") as file:
            file.write(f"{identity.key}{identity.chain}")
        # With an empty password OpenSSL fails on an encrypted key; without any it would prompt for one.
        context.load_cert_chain(f"/proc/self/fd/{handle}", password=identity.key_password)
    except (ssl.SSLError, ValueError) as error:
        raise SecuritySettingError(identity.setting, _explain(error, identity)) from None
    finally:
        os.close(handle)


def is_readable_by_others(path: str) -> bool:
    """Whether a file with a private key can be read by every user of this machine."""
    return bool(os.stat(path).st_mode & 0o004)


def _explain(error: Exception, identity: Identity) -> str:
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return "contains a private key that does not belong to its first certificate."
    if "ENCRYPTED" in identity.key:
        return "contains an encrypted private key that ssl.key.password does not open. Correct the password."
    return "contains a certificate or a private key that cannot be read. Write both as PEM again."


def _read_kind(settings: Mapping[str, str], key: str) -> str:
    kind = settings.get(key, "").strip().upper()
    if kind and kind not in _TYPES:
        raise SecuritySettingError(key, f"{kind!r} is not one of {', '.join(_TYPES)}")
    return kind


def _read_file(name: str, path: str, kind: str) -> tuple[bytes, str]:
    """The content, and what it is: PEM or PKCS12."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SecuritySettingError(name, f"{path!r} cannot be read: {error.strerror}.") from None
    if data.startswith(_JKS):
        target = f"{path.removesuffix('.jks')}.p12"
        raise SecuritySettingError(
            name,
            f"{path!r} is a JKS file, which only Java reads. Convert it with `keytool -importkeystore -srckeystore "
            f"{path} -destkeystore {target} -deststoretype PKCS12`, and name that file.",
        )
    if kind != PEM and data.startswith(_DER_SEQUENCE):
        return data, PKCS12
    if kind != PKCS12 and _PEM in data:
        return data, PEM
    raise SecuritySettingError(name, f"{path!r} is not a {kind or 'PEM or PKCS12'} file.")


# --- PEM -------------------------------------------------------------------------------------------------------------


def _blocks(text: str) -> list[tuple[str, str]]:
    """(label, block) of each PEM block. A block on one line, as Kafka accepts it in a setting, is wrapped again."""
    return [(match[1], _wrapped(match[1], match[2])) for match in _BLOCK.finditer(text)]


def _wrapped(label: str, body: str) -> str:
    if ":" in body:  # the headers of an old encrypted key: its lines are significant
        content = "\n".join(line.strip() for line in body.strip().splitlines())
    else:
        letters = "".join(body.split())
        content = "\n".join(letters[at : at + _LINE] for at in range(0, len(letters), _LINE))
    return f"-----BEGIN {label}-----\n{content}\n-----END {label}-----\n"


def _certificates(blocks: list[tuple[str, str]]) -> list[str]:
    return [block for label, block in blocks if label == "CERTIFICATE"]


def _identity(
    certificates: list[tuple[str, str]], keys: list[tuple[str, str]], key_password: str, name: str
) -> Identity:
    chain = _certificates(certificates)
    found = [block for label, block in keys if label.endswith("PRIVATE KEY")]
    if not chain or len(found) != 1:
        missing = "no certificate" if not chain else "no private key" if not found else "several private keys"
        raise SecuritySettingError(name, f"contains {missing}. It needs one private key and its certificate chain.")
    if "ENCRYPTED" in found[0] and not key_password:
        raise SecuritySettingError("ssl.key.password", "is missing, and the private key is encrypted.")
    return Identity(chain="".join(chain), key=found[0], key_password=key_password, setting=name)


# --- PKCS12 ----------------------------------------------------------------------------------------------------------


def _identity_of_pkcs12(data: bytes, store: Keystore) -> Identity:
    name = "ssl.keystore.location"
    if not store.password:
        raise SecuritySettingError("ssl.keystore.password", "is missing, and required for a PKCS12 file.")
    key, leaf, others = _load_pkcs12(data, store.password, name, "ssl.keystore.password")
    if key is None or leaf is None:
        raise SecuritySettingError(name, f"{store.location!r} contains no private key with a certificate.")
    from cryptography.hazmat.primitives import serialization

    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    chain = "".join(map(_to_pem, _in_order(leaf, others)))
    return Identity(chain=chain, key=key_pem, key_password="", setting=name)


def _certificates_of_pkcs12(data: bytes, store: Truststore) -> list[str]:
    _, leaf, others = _load_pkcs12(data, store.password, "ssl.truststore.location", "ssl.truststore.password")
    return [_to_pem(certificate) for certificate in ([leaf] if leaf else []) + others]


def _load_pkcs12(
    data: bytes, password: str, name: str, password_name: str
) -> tuple[PrivateKeyTypes | None, Certificate | None, list[Certificate]]:
    """(private key, its certificate, other certificates)."""
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise SecuritySettingError(
            name, "is a PKCS12 file, which needs the package cryptography. Install insync[server], or use PEM."
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        raise SecuritySettingError(
            name, f"is a PKCS12 file that {password_name} does not open, or it is damaged. Correct the password."
        ) from None
    leaf = None if store.cert is None else store.cert.certificate
    return store.key, leaf, [other.certificate for other in store.additional_certs]


def _in_order(leaf: Certificate, others: list[Certificate]) -> list[Certificate]:
    """The leaf, then each certificate's issuer, as TLS sends them. A self-signed authority ends the chain."""
    chain, rest = [leaf], list(others)
    while rest and chain[-1].issuer != chain[-1].subject:
        issuer = next((other for other in rest if other.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        chain.append(issuer)
        rest.remove(issuer)
    return chain


def _to_pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
