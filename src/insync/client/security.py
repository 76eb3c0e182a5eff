"""TLS and SASL of a client, from settings with the names of Java's clients or librdkafka's.

    Security.of({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": "...", ...})

It is plain data that can be sent to another machine; files are read when a connection is opened. Every mistake is a
`SettingError` that names the setting and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from insync.client.errors import SettingError
from insync.client.sasl import MECHANISMS, Credentials
from insync.client.tls import Tls, conversion_hint
from insync.security import jaas

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAVAS_STORES = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12", ".keystore": "JKS", ".truststore": "JKS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    tls: Tls | None = None
    sasl: Credentials | None = None

    @staticmethod
    def of(settings: Mapping[str, str]) -> Security:
        protocol = settings.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise SettingError("security.protocol", f"is {protocol!r}, but must be one of {', '.join(PROTOCOLS)}")
        return Security(
            tls=_tls(settings) if protocol.endswith("SSL") else None,
            sasl=_credentials(settings) if protocol.startswith("SASL") else None,
        )


PLAINTEXT = Security()


# --- authentication --------------------------------------------------------------------------------------------------


def _credentials(settings: Mapping[str, str]) -> Credentials:
    mechanism = _mechanism(settings)
    if "sasl.jaas.config" in settings:
        return _from_jaas(settings["sasl.jaas.config"], mechanism)
    user, password = settings.get("sasl.username", ""), settings.get("sasl.password", "")
    if not user or not password:
        missing = "sasl.password" if user else "sasl.jaas.config"
        raise SettingError(missing, "is missing: set it, or sasl.username and sasl.password")
    _check_sendable(user, password, "sasl.password")
    return Credentials(mechanism=mechanism, username=user, password=password, setting="sasl.password")


def _mechanism(settings: Mapping[str, str]) -> str:
    name = "sasl.mechanisms" if "sasl.mechanism" not in settings and "sasl.mechanisms" in settings else "sasl.mechanism"
    mechanism = settings.get(name, "").strip().upper()
    if not mechanism:
        raise SettingError(
            name, f"is missing, and Java's default GSSAPI is not supported: set one of {', '.join(MECHANISMS)}"
        )
    if mechanism not in MECHANISMS:
        raise SettingError(name, f"is {mechanism!r}; supported are {', '.join(MECHANISMS)}")
    return mechanism


def _from_jaas(text: str, mechanism: str) -> Credentials:
    name = "sasl.jaas.config"
    try:
        module, options = jaas.parse(text)
    except jaas.JaasError as error:
        raise SettingError(name, str(error)) from None
    if module.rpartition(".")[2] not in ("PlainLoginModule", "ScramLoginModule"):
        raise SettingError(name, "must use PlainLoginModule or ScramLoginModule")
    if options.get("tokenauth", "false").lower() == "true":
        raise SettingError(
            name, "uses delegation tokens (tokenauth), which are not supported: give a user name and password"
        )
    user, password = options.get("username", ""), options.get("password", "")
    if not user or not password:
        raise SettingError(name, f'has no {"password" if user else "username"}="..."')
    _check_sendable(user, password, name)
    return Credentials(mechanism=mechanism, username=user, password=password, setting=name)


def _check_sendable(user: str, password: str, setting: str) -> None:
    if "\0" in user or "\0" in password:
        raise SettingError(setting, "contains a NUL character, which no SASL mechanism can transmit")


# --- TLS ------------------------------------------------------------------------------------------------------------


def _tls(settings: Mapping[str, str]) -> Tls:
    _check_store_type(settings, "ssl.truststore")
    _check_store_type(settings, "ssl.keystore")
    values = {
        "ca": _first(settings, "ssl.truststore.location", "ssl.ca.location"),
        "ca_pem": _first(settings, "ssl.truststore.certificates", "ssl.ca.pem"),
        "certificate": _first(settings, "ssl.keystore.location", "ssl.certificate.location"),
        "certificate_pem": _first(settings, "ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        "key": _first(settings, "ssl.key.location"),
        "key_pem": _first(settings, "ssl.keystore.key", "ssl.key.pem"),
    }
    _check_identity(values)
    contents = {what: value for what, (_, value) in values.items()}
    kept = ("ca", "certificate", "key")
    names = {what: values[what][0] or values.get(f"{what}_pem", ("", ""))[0] for what in kept}
    return Tls(
        ca_file=contents["ca"],
        ca_pem=contents["ca_pem"],
        certificate_file=contents["certificate"],
        certificate_pem=contents["certificate_pem"],
        key_file=contents["key"],
        key_pem=contents["key_pem"],
        key_password=settings.get("ssl.key.password", ""),
        check_name=_check_name(settings),
        names=tuple((what, name) for what, name in names.items() if name),
    )


def _first(settings: Mapping[str, str], *names: str) -> tuple[str, str]:
    """(name, value) of the first setting that is set."""
    return next(((name, settings[name].strip()) for name in names if settings.get(name, "").strip()), ("", ""))


def _check_identity(values: Mapping[str, tuple[str, str]]) -> None:
    certificate, key = values["certificate_pem"][1], values["key_pem"][1]
    if bool(certificate) != bool(key):
        given, missing = ("certificate_pem", "key") if certificate else ("key_pem", "certificate.chain")
        raise SettingError(values[given][0], f"is set but ssl.keystore.{missing} is not: set both")
    if values["key"][1] and not values["certificate"][1]:
        raise SettingError(values["key"][0], "is set but ssl.certificate.location is not: set both")


def _check_store_type(settings: Mapping[str, str], store: str) -> None:
    """Without a type, the file name's suffix decides; Java would assume JKS."""
    name, path = f"{store}.location", settings.get(f"{store}.location", "")
    given = settings.get(f"{store}.type", "").strip().upper()
    kind = given or _JAVAS_STORES.get(PurePath(path).suffix.lower(), "PEM")
    if kind != "PEM":
        problem = f"is {given!r}" if given else f"is {path!r}, a {kind} store"
        convert = conversion_hint(name, path)
        raise SettingError(
            f"{store}.type" if given else name, f"{problem}, but only PEM files are supported: {convert}"
        )


def _check_name(settings: Mapping[str, str]) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    algorithm = settings.get(name, "https").strip().lower()
    if algorithm not in ("https", "", "none"):
        raise SettingError(name, f"is {algorithm!r}, but must be https, or empty to disable the check of host names")
    return algorithm == "https"
