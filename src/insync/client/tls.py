"""TLS as a client wants it: whom to trust, who it is itself, and what a failure means.

Only PEM is read: Python's ssl knows nothing else. Files are read whenever a connection is opened, on the machine that
opens it, so that a renewed certificate is taken without a restart.
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
"""OpenSSL's codes for a certificate of another host name, or of another address."""
_EXPIRED, _NOT_YET = 10, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    ca_file: str = ""
    ca_pem: str = field(default="", repr=False)
    """Without either, the authorities of the machine are trusted."""
    certificate_file: str = ""
    key_file: str = ""
    certificate_pem: str = field(default="", repr=False)
    key_pem: str = field(default="", repr=False)
    """Of this client, where brokers ask for it. A key may be in the certificate's file."""
    key_password: str = field(default="", repr=False)
    check_name: bool = True
    names: tuple[tuple[str, str], ...] = ()
    """How the settings are called that the values come from."""

    def context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.check_hostname = self.check_name
        self._trust(made)
        if self.certificate_pem:
            self._identify_inline(made)
        elif self.certificate_file:
            self._identify(made, self.certificate_file, self.key_file)
        return made

    def name(self, value: str, default: str) -> str:
        return dict(self.names).get(value, default)

    def _trust(self, made: ssl.SSLContext) -> None:
        name = self.name("ca", "ssl.truststore.location")
        try:
            if self.ca_pem:
                made.load_verify_locations(cadata=self.ca_pem)
            elif self.ca_file:
                check_pem_file(name, self.ca_file)
                made.load_verify_locations(cafile=self.ca_file)
            else:
                made.load_default_certs()
        except (ssl.SSLError, ValueError):
            raise SettingError(name, "holds no certificate that can be read: it must be PEM") from None

    def _identify(self, made: ssl.SSLContext, certificate: str, key: str) -> None:
        name = self.name("certificate", "ssl.keystore.location")
        check_pem_file(name, certificate)
        if key:
            check_pem_file(self.name("key", "ssl.key.location"), key)
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            made.load_cert_chain(certificate, key or None, self.key_password)
        except (ssl.SSLError, ValueError):
            problem = (
                "holds no certificate with a private key that can be read: is the key there, and does it belong to"
            )
            raise SettingError(name, f"{problem} the certificate, and is ssl.key.password right?") from None

    def _identify_inline(self, made: ssl.SSLContext) -> None:
        """The ssl module reads files only: one that nobody else may read, and that is gone a moment later."""
        handle, path = tempfile.mkstemp(prefix="insync-", suffix=".pem")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(f"{self.key_pem}\n{self.certificate_pem}\n")
            self._identify(made, path, "")
        finally:
            os.unlink(path)


def check_pem_file(setting: str, path: str) -> None:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(setting, f"is {path!r}, which cannot be read here: {error.strerror}") from None
    if _PEM not in content:
        raise SettingError(setting, f"is {path!r}, and that is no PEM file: {conversion_hint(setting, path)}")


def conversion_hint(setting: str, path: str) -> str:
    """The commands that make PEM of Java's stores."""
    file = path or "FILE"
    if "keystore" in setting or "certificate" in setting or "key" in setting:
        return (
            f"`keytool -importkeystore -srckeystore {file} -destkeystore client.p12 -deststoretype PKCS12` and then "
            "`openssl pkcs12 -in client.p12 -out client.pem` make one"
        )
    return f"`keytool -list -rfc -keystore {file} > ca.pem` makes one"


def explain_tls_error(error: ssl.SSLError, host: str, port: int, tls: Tls) -> AccessDeniedError | None:
    """What a failed handshake means; None where the other side just went away."""
    address = f"{host}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return AccessDeniedError(f"the certificate of {address} {_distrust(error, host, tls)}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"):
        return no_tls_error(address)
    return AccessDeniedError(describe_alert(error, address))


def no_tls_error(address: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"{address} does not speak TLS: name a TLS listener in bootstrap.servers, or set security.protocol to "
        "PLAINTEXT, or SASL_PLAINTEXT with a user"
    )


def describe_alert(error: ssl.SSLError, address: str) -> str:
    """What the broker says against us."""
    told = (error.reason or "an error of TLS").replace("_", " ").lower()
    return (
        f"{address} ended TLS ({told}): if it asks for a certificate of the client, name one that it trusts in "
        "ssl.keystore.location"
    )


def _distrust(error: ssl.SSLCertVerificationError, host: str, tls: Tls) -> str:
    if error.verify_code in _WRONG_NAME:
        return (
            f"is not for the name '{host}': use a name that is in the certificate in bootstrap.servers and in the "
            "brokers' advertised.listeners, or set ssl.endpoint.identification.algorithm to nothing: no check of names"
        )
    if error.verify_code in (_EXPIRED, _NOT_YET):
        return f"is not valid now ({error.verify_message}): it must be renewed, or this machine's clock is wrong"
    if tls.ca_file or tls.ca_pem:
        whom = f"what {tls.name('ca', 'ssl.truststore.location')} names"
    else:
        whom = "this machine's authorities: name its authority's PEM file in ssl.truststore.location"
    return f"is not signed by {whom} ({error.verify_message})"
