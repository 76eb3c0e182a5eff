"""TLS of a listener, and of connections to one, from Kafka's `ssl.*` settings.

A node has both sides: it accepts connections on its listeners, and it connects to other nodes with the same keystore
and truststore.

Python's ssl module selects cipher suites of TLS 1.2 only. Of TLS 1.3 it always offers all of OpenSSL's, so
`ssl.cipher.suites` decides whether TLS 1.3 is used, but not which of its suites.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from insync.security.errors import SecuritySettingError
from insync.security.keystores import Identity, Keystore, Truststore, load_identity
from insync.security.principal import MappingRule, MappingRuleError, parse_rules

NONE, REQUESTED, REQUIRED = "none", "requested", "required"
_VERIFY = {NONE: ssl.CERT_NONE, REQUESTED: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_UNSAFE_VERSIONS = ("TLSv1", "TLSv1.1")
"""Accepted beside safe ones, as in Kafka's documentation, and not used: Java does not use them either by default."""
_SUITES_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_SUITE = re.compile(r"TLS_(?:(?P<exchange>\w+?)_)?WITH_(?P<cipher>\w+)")
_UNSUPPORTED = ("ssl.engine.factory.class", "ssl.provider", "security.providers")
"""They name Java classes that would take the place of the code here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """The content of a keystore and a truststore."""

    identity: Identity | None
    authorities: str | None
    """PEM; None: those of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    keystore: Keystore | None
    truststore: Truststore | None
    client_auth: str
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
    """(lowest, highest)."""
    ciphers: str
    """Of TLS 1.2, in OpenSSL's notation; empty: Python's choice."""
    check_name: bool
    """Whether a node that connects checks that the certificate is for the name that it connects to."""
    principal_rules: tuple[MappingRule, ...]
    allows_other_subject: bool
    """Whether a reloaded certificate may have another subject, or lack names that the previous one had."""
    allows_other_names: bool
    unsafe_versions: tuple[str, ...]
    """Those of `ssl.enabled.protocols` that are not used."""
    has_unrestricted_suites: bool
    """Whether `ssl.cipher.suites` leaves out suites of TLS 1.3 that are offered nevertheless."""

    @staticmethod
    def of_listener(settings: Mapping[str, str]) -> TlsSettings:
        found = TlsSettings.of(settings)
        if found.keystore is None:
            raise SecuritySettingError(
                "ssl.keystore.location", "is missing. A listener with TLS needs a certificate and its private key."
            )
        return found

    @staticmethod
    def of(settings: Mapping[str, str]) -> TlsSettings:
        for key in _UNSUPPORTED:
            if settings.get(key):
                raise SecuritySettingError(key, "names a Java class, which cannot be used here. Remove the setting.")
        suites = _comma_separated(settings.get("ssl.cipher.suites", ""))
        versions = _read_versions(settings)
        return TlsSettings(
            keystore=Keystore.of(settings),
            truststore=Truststore.of(settings),
            client_auth=_one_of(settings, "ssl.client.auth", NONE, tuple(_VERIFY)),
            versions=_restrict_versions(versions, suites),
            ciphers=":".join(_openssl_name(suite) for suite in suites if suite not in _SUITES_1_3),
            check_name=_read_check_name(settings),
            principal_rules=_read_rules(settings),
            allows_other_subject=_one_of(settings, "ssl.allow.dn.changes", "false", ("true", "false")) == "true",
            allows_other_names=_one_of(settings, "ssl.allow.san.changes", "false", ("true", "false")) == "true",
            unsafe_versions=tuple(
                name for name in _comma_separated(settings.get("ssl.enabled.protocols", "")) if name in _UNSAFE_VERSIONS
            ),
            has_unrestricted_suites=0 < sum(suite in _SUITES_1_3 for suite in suites) < len(_SUITES_1_3),
        )

    def read(self) -> TlsMaterial:
        """Read the stores; SecuritySettingError if one cannot be read."""
        return TlsMaterial(
            identity=None if self.keystore is None else self.keystore.read(),
            authorities=None if self.truststore is None else self.truststore.read(),
        )

    def server_context(self, material: TlsMaterial) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_SERVER, material)
        context.verify_mode = _VERIFY[self.client_auth]
        # A client must not make the server work by asking for new keys again and again.
        context.options |= ssl.OP_NO_RENEGOTIATION
        return context

    def client_context(self, material: TlsMaterial) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT, material)
        context.check_hostname = self.check_name
        return context

    def files(self) -> tuple[str, ...]:
        """The files whose content decides. A context that was made from an earlier content keeps that."""
        stores = (self.keystore, self.truststore)
        return tuple(store.location for store in stores if store is not None and store.location)

    def file_versions(self) -> tuple[tuple[int, int, int], ...]:
        """Differs when a file was changed or replaced; (0, 0, 0) for a file that cannot be read."""
        return tuple(_file_version(path) for path in self.files())

    def _context(self, protocol: int, material: TlsMaterial) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version, context.maximum_version = self.versions
        context.options |= ssl.OP_NO_COMPRESSION
        # As in Java, every certificate in a truststore is trusted, also one that another authority has signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.ciphers:
            try:
                context.set_ciphers(self.ciphers)
            except ssl.SSLError:
                raise SecuritySettingError(
                    "ssl.cipher.suites", "names no suite that OpenSSL offers. Correct it, or remove the setting."
                ) from None
        if material.authorities is None:
            context.load_default_certs()
        else:
            try:
                context.load_verify_locations(cadata=material.authorities)
            except (ssl.SSLError, ValueError):
                raise SecuritySettingError(
                    "ssl.truststore.location", "contains a certificate that cannot be read. Write it as PEM again."
                ) from None
        if material.identity is not None:
            load_identity(context, material.identity)
        return context


def _file_version(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _comma_separated(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _one_of(settings: Mapping[str, str], key: str, default: str, choices: tuple[str, ...]) -> str:
    value = (settings.get(key) or default).strip().lower()
    if value not in choices:
        raise SecuritySettingError(key, f"{value!r} is not one of {', '.join(choices)}")
    return value


def _read_versions(settings: Mapping[str, str]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    protocol = settings.get("ssl.protocol", "").strip()
    if protocol and protocol not in ("TLS", *_VERSIONS):
        raise SecuritySettingError("ssl.protocol", f"{protocol!r} is not one of TLS, {', '.join(_VERSIONS)}")
    enabled = _comma_separated(settings.get("ssl.enabled.protocols", ""))
    for name in enabled:
        if name not in (*_VERSIONS, *_UNSAFE_VERSIONS):
            raise SecuritySettingError("ssl.enabled.protocols", f"{name!r} is not one of {', '.join(_VERSIONS)}")
    if enabled and not any(name in _VERSIONS for name in enabled):
        raise SecuritySettingError(
            "ssl.enabled.protocols", f"has no version that is safe. Add one of {', '.join(_VERSIONS)}."
        )
    enabled = tuple(name for name in enabled if name in _VERSIONS)
    if not enabled:
        enabled = ("TLSv1.2",) if protocol == "TLSv1.2" else tuple(_VERSIONS)
    versions = [_VERSIONS[name] for name in enabled]
    return min(versions), max(versions)


def _restrict_versions(
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion], suites: tuple[str, ...]
) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """A version without a suite cannot be used."""
    if not suites:
        return versions
    usable = [
        version
        for version in dict.fromkeys(versions)
        if any((suite in _SUITES_1_3) is (version is ssl.TLSVersion.TLSv1_3) for suite in suites)
    ]
    if not usable:
        raise SecuritySettingError(
            "ssl.cipher.suites", "has no suite of a protocol in ssl.enabled.protocols. Correct one of them."
        )
    return min(usable), max(usable)


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384."""
    match = _SUITE.fullmatch(suite)
    if match is None:
        raise SecuritySettingError(
            "ssl.cipher.suites", f"{suite!r} is not a suite of TLS 1.2 or 1.3 in Java's notation (TLS_..._WITH_...)"
        )
    exchange = match["exchange"].replace("_", "-")
    cipher = re.sub(r"AES_(\d+)_", r"AES\1-", match["cipher"]).replace("CBC_", "").replace("_", "-")
    cipher = cipher.removesuffix("-SHA256") if "POLY1305" in cipher else cipher
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"


def _read_check_name(settings: Mapping[str, str]) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    algorithm = settings.get(key, "https").strip().lower()
    if algorithm not in ("https", ""):
        raise SecuritySettingError(key, f"{algorithm!r} is neither https nor empty. Empty disables the check of names.")
    return algorithm == "https"


def _read_rules(settings: Mapping[str, str]) -> tuple[MappingRule, ...]:
    key = "ssl.principal.mapping.rules"
    try:
        return parse_rules(settings.get(key, ""))
    except MappingRuleError as error:
        raise SecuritySettingError(key, str(error).removeprefix(f"{key} ")) from None
