"""TLS of a client: trusted authorities, the client's certificate, and explanations of failures.

Only PEM files are supported, as in Python's ssl module. Files are read on the machine that opens a connection, each
time it opens one, so that a renewed certificate takes effect without a restart.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from insync.client.errors import AccessDeniedError, SettingError

_PEM = b"-----BEGIN "
_WRONG_NAME = (62, 64)
"""OpenSSL's codes for a certificate of another host name or address."""
_EXPIRED, _NOT_YET = 10, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    ca_file: str = ""
    ca_pem: str = field(default="", repr=False)
    """Without either, the machine's authorities are trusted."""
    certificate_file: str = ""
    key_file: str = ""
    certificate_pem: str = field(default="", repr=False)
    key_pem: str = field(default="", repr=False)
    """The client's certificate, if brokers require one. The key may be in the certificate's file."""
    key_password: str = field(default="", repr=False)
    check_name: bool = True
    names: tuple[tuple[str, str], ...] = ()
    """The settings that the values come from, for error messages."""

    def make_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_name
        self._trust(context)
        if self.certificate_pem:
            self._identify_inline(context)
        elif self.certificate_file:
            self._identify(context, self.certificate_file, self.key_file)
        return context

    def name(self, value: str, default: str) -> str:
        return dict(self.names).get(value, default)

    def _trust(self, context: ssl.SSLContext) -> None:
        name = self.name("ca", "ssl.truststore.location")
        try:
            if self.ca_pem:
                context.load_verify_locations(cadata=self.ca_pem)
            elif self.ca_file:
                check_pem_file(name, self.ca_file)
                context.load_verify_locations(cafile=self.ca_file)
            else:
                context.load_default_certs()
        except (ssl.SSLError, ValueError):
            raise SettingError(name, "contains no readable certificate: it must be PEM") from None

    def _identify(self, context: ssl.SSLContext, certificate: str, key: str) -> None:
        name = self.name("certificate", "ssl.keystore.location")
        check_pem_file(name, certificate)
        if key:
            check_pem_file(self.name("key", "ssl.key.location"), key)
        try:
            # Without a password OpenSSL would prompt for one.
            context.load_cert_chain(certificate, key or None, self.key_password)
        except (ssl.SSLError, ValueError):
            problem = (
                "contains no certificate with a readable private key: check that the key is there, that it belongs to"
            )
            raise SettingError(name, f"{problem} the certificate, and that ssl.key.password is right") from None

    def _identify_inline(self, context: ssl.SSLContext) -> None:
        """The ssl module only reads files: write a temporary one that only this user may read."""
        handle, path = tempfile.mkstemp(prefix="insync-", suffix=".pem")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(f"{self.key_pem}\n{self.certificate_pem}\n")
            self._identify(context, path, "")
        finally:
            os.unlink(path)


def check_pem_file(setting: str, path: str) -> None:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(setting, f"is {path!r}, which cannot be read on this machine: {error.strerror}") from None
    if _PEM not in content:
        raise SettingError(setting, f"is {path!r}, which is not a PEM file: {conversion_hint(setting, path)}")


def conversion_hint(setting: str, path: str) -> str:
    """The commands that convert Java's stores to PEM."""
    file = path or "FILE"
    if "keystore" in setting or "certificate" in setting or "key" in setting:
        return (
            f"`keytool -importkeystore -srckeystore {file} -destkeystore client.p12 -deststoretype PKCS12` and then "
            "`openssl pkcs12 -in client.p12 -out client.pem` convert it"
        )
    return f"`keytool -list -rfc -keystore {file} > ca.pem` converts it"


def explain_tls_error(error: ssl.SSLError, host: str, port: int, tls: Tls) -> AccessDeniedError | None:
    """What a failed handshake means; None if the other side just closed the connection."""
    address = f"{host}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return AccessDeniedError(f"the certificate of {address} {_explain_distrust(error, host, tls)}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"):
        return no_tls_error(address)
    return AccessDeniedError(describe_alert(error, address))


def no_tls_error(address: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"{address} does not speak TLS: use the address of a TLS listener in bootstrap.servers, or set "
        "security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    )


def describe_alert(error: ssl.SSLError, address: str) -> str:
    """The broker's TLS alert."""
    reason = (error.reason or "TLS error").replace("_", " ").lower()
    return (
        f"{address} rejected TLS ({reason}): if it requires a client certificate, set ssl.keystore.location to one "
        "that it trusts"
    )


def _explain_distrust(error: ssl.SSLCertVerificationError, host: str, tls: Tls) -> str:
    if error.verify_code in _WRONG_NAME:
        return (
            f"is not for the name '{host}': use a name of the certificate in bootstrap.servers and in the brokers' "
            "advertised.listeners, or disable the check with an empty ssl.endpoint.identification.algorithm"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET):
        return f"is not valid now ({error.verify_message}): renew it, or correct this machine's clock"
    if tls.ca_file or tls.ca_pem:
        authority = f"an authority in {tls.name('ca', 'ssl.truststore.location')}"
    else:
        authority = "an authority of this machine: set ssl.truststore.location to its authority's PEM file"
    return f"is not signed by {authority} ({error.verify_message})"
