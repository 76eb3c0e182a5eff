"""A node's listeners: their names, addresses and security protocols, and which of them nodes use among themselves.

Settings have Kafka's names and rules. `listener.security.protocol.map` gives each name a protocol; a name that is a
protocol's own needs no entry. Nodes reach brokers by the inter-broker listener, and controllers by the first of
`controller.listener.names`. Without that setting the inter-broker listener serves the controllers too.

`listener.name.NAME.KEY` overrides a setting for one listener. What a listener's settings mean is read elsewhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

from insync.metadata import apache_broker_keys
from insync.node.config import BROKER, CONTROLLER
from insync.security.errors import SecuritySettingError
from insync.server.endpoints import ListenerAddress, parse_listeners
from insync.server.property_keys import InvalidValueError, comma_separated

LISTENERS = "listeners"
ADVERTISED = "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
INTER_BROKER_NAME = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL = "security.inter.broker.protocol"
CONTROLLER_NAMES = "controller.listener.names"
KEYS = (LISTENERS, ADVERTISED, PROTOCOL_MAP, INTER_BROKER_NAME, INTER_BROKER_PROTOCOL, CONTROLLER_NAMES)
OVERRIDE = "listener.name."
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"

DEFAULT_LISTENERS = "PLAINTEXT://:9092"
DEFAULT_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
_ANY_MECHANISM = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_PER_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
OAUTH_PREFIX = "sasl.oauthbearer."
"""Settings that a listener may also have for the mechanism: listener.name.NAME.oauthbearer.sasl.oauthbearer...."""
_IGNORED = (
    "sasl.client.",
    "sasl.kerberos.",
    "sasl.login.",
    "ssl.keymanager.algorithm",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
"""What concerns Java's own code, or Kerberos."""
_SECRETS = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
)
"""Those that have Kafka's type PASSWORD."""
_SECURITY = frozenset(key for key in apache_broker_keys.FIXED if key.startswith(("ssl.", "sasl."))) | {
    "connections.max.reauth.ms"
}


class SecurityProtocol(IntEnum):
    """With Kafka's numbers."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """What a listener of this name requires, here or on other nodes."""

    name: str
    protocol: SecurityProtocol
    settings: Mapping[str, str] = field(repr=False, default_factory=dict)
    """The settings of TLS and SASL that count for it."""
    overrides: frozenset[str] = frozenset()
    """Those of them that are its own."""
    login_mechanism_key: str = INTER_BROKER_MECHANISM
    """The setting that says by which mechanism nodes authenticate to it."""

    def key_of(self, setting: str) -> str:
        """The key that a setting has in the file, or would have if it can only be set for one listener."""
        is_own = setting in self.overrides or setting.partition(".")[0].upper() in _ANY_MECHANISM
        return f"{_prefix(self.name)}{setting}" if is_own else setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundListener:
    """A listener that this node opens."""

    address: ListenerAddress
    security: ListenerSecurity
    serves_nodes: bool
    """Whether other nodes use it too."""

    @property
    def name(self) -> str:
        return self.address.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    bound: tuple[BoundListener, ...]
    advertised: tuple[ListenerAddress, ...]
    """The brokers' listeners, as registrations name them."""
    protocols: Mapping[str, SecurityProtocol]
    """Of every name that has one."""
    inter_broker: ListenerSecurity
    """How nodes reach brokers."""
    controller: ListenerSecurity
    """How nodes reach controllers."""

    @property
    def has_separate_controller_listener(self) -> bool:
        return self.controller.name != self.inter_broker.name


def is_override(key: str) -> bool:
    return key.startswith(OVERRIDE)


def is_security_setting(key: str) -> bool:
    """Whether the key is read for each listener."""
    return key in _SECURITY


def is_without_effect(key: str, names: Iterable[str]) -> bool:
    """Whether a setting of listeners is accepted, because Kafka knows it, and ignored. `names`: of listeners."""
    prefix = next((prefix for name in names if key.startswith(prefix := _prefix(name))), "")
    setting = key.removeprefix(prefix)
    mechanism, _, rest = setting.partition(".")
    if mechanism.upper() in _ANY_MECHANISM:
        return rest.startswith(_IGNORED)
    return setting == "sasl.jaas.config" or setting.startswith(_IGNORED) or setting not in _SECURITY


def is_secret(key: str) -> bool:
    """Whether its value must not be shown."""
    return key.endswith(_SECRETS)


def read_listeners(values: Mapping[str, str], roles: tuple[str, ...]) -> ListenerSettings:
    """`values`: all settings of the file. SecuritySettingError names the first that is wrong."""
    return _Reader(values, roles).read()


def check_security(listeners: ListenerSettings) -> None:
    """SecuritySettingError if settings of TLS or SASL are missing or contradict each other. Files are not read."""
    for listener in listeners.bound:
        with naming_the_key(listener.security):
            _check(listener.security, is_server=True)
    for security in (listeners.inter_broker, listeners.controller):
        with naming_the_key(security):
            _check(security, is_server=False)


@contextmanager
def naming_the_key(security: ListenerSecurity) -> Iterator[None]:
    """Errors name the key as it is in the file, and the listener."""
    try:
        yield
    except SecuritySettingError as error:
        raise SecuritySettingError(
            security.key_of(error.key), f"{error.problem} (listener {security.name}, {security.protocol.name})"
        ) from None


def _check(security: ListenerSecurity, *, is_server: bool) -> None:
    """A node without TLS or SASL does not import them."""
    if security.protocol.uses_tls:
        from insync.security.tls import TlsSettings

        if is_server:
            TlsSettings.of_listener(security.settings)
        else:
            TlsSettings.of(security.settings)
    if security.protocol.uses_sasl:
        from insync.security.sasl import ClientLogin, SaslSettings

        if is_server:
            SaslSettings.of(security.settings)
        else:
            ClientLogin.of(security.settings, security.login_mechanism_key)


class _Reader:
    def __init__(self, values: Mapping[str, str], roles: tuple[str, ...]) -> None:
        self._values = values
        self._is_broker = BROKER in roles
        self._is_controller = CONTROLLER in roles
        self._controllers = tuple(name.upper() for name in comma_separated(values.get(CONTROLLER_NAMES, "")))
        self._listeners = _parse(LISTENERS, values.get(LISTENERS) or DEFAULT_LISTENERS)
        self._protocols = self._read_protocols()

    def read(self) -> ListenerSettings:
        self._check_ports()
        self._check_names((listener.name for listener in self._listeners), LISTENERS)
        self._check_controllers()
        advertised = self._read_advertised()
        inter_broker = self._read_inter_broker(advertised)
        self._check_overrides()
        return ListenerSettings(
            bound=tuple(
                BoundListener(
                    address=address,
                    security=self._security(address.name),
                    serves_nodes=address.name == inter_broker or self._is_for_controllers(address.name),
                )
                for address in self._listeners
            ),
            advertised=advertised,
            protocols=self._protocols,
            inter_broker=self._security(inter_broker),
            controller=self._security(self._controllers[0] if self._controllers else inter_broker),
        )

    # --- names and protocols -----------------------------------------------------------------------------------------

    def _read_protocols(self) -> dict[str, SecurityProtocol]:
        text = self._values.get(PROTOCOL_MAP)
        if text is not None:
            return _parse_map(text)
        protocols = {protocol.name: protocol for protocol in SecurityProtocol}
        used = {*self._controllers, *(listener.name for listener in self._listeners)}
        if used.isdisjoint(("SSL", "SASL_PLAINTEXT", "SASL_SSL")):  # as in Kafka: otherwise a guess would be unsafe
            protocols |= dict.fromkeys(self._controllers, SecurityProtocol.PLAINTEXT)
        return protocols

    def _check_names(self, names: Iterable[str], key: str) -> None:
        for name in names:
            if name not in self._protocols:
                raise SecuritySettingError(
                    key, f"the listener {name} has no security protocol. Add {name}:SSL, or another, to {PROTOCOL_MAP}."
                )

    def _is_for_controllers(self, name: str) -> bool:
        return name in self._controllers

    def _security(self, name: str) -> ListenerSecurity:
        protocol = self._protocols[name]
        general = {key: value for key, value in self._values.items() if key in _SECURITY}
        if protocol is SecurityProtocol.SASL_SSL:
            # As in Kafka: certificates of clients that authenticate by SASL are required by this listener's own
            # setting only.
            general.pop("ssl.client.auth", None)
        prefix = _prefix(name)
        own = {key.removeprefix(prefix): value for key, value in self._values.items() if key.startswith(prefix)}
        return ListenerSecurity(
            name=name,
            protocol=protocol,
            settings=general | own,
            overrides=frozenset(own),
            login_mechanism_key=CONTROLLER_MECHANISM if self._is_for_controllers(name) else INTER_BROKER_MECHANISM,
        )

    # --- contradictions ----------------------------------------------------------------------------------------------

    def _check_ports(self) -> None:
        """One port may serve two listeners if one has an IPv4 address and the other an IPv6 address."""
        by_port: dict[int, list[ListenerAddress]] = {}
        for listener in self._listeners:
            by_port.setdefault(listener.port, []).append(listener)
        for port, sharing in by_port.items():
            if port and len(sharing) > 1 and sorted(map(_ip_version, sharing)) != [4, 6]:
                names = " and ".join(listener.name for listener in sharing)
                raise SecuritySettingError(
                    LISTENERS, f"{names} have the same port {port}. Give each listener a port of its own."
                )

    def _check_controllers(self) -> None:
        if not self._controllers:
            return
        names = [listener.name for listener in self._listeners]
        if self._is_controller:
            for name in self._controllers:
                if name not in names:
                    raise SecuritySettingError(
                        CONTROLLER_NAMES,
                        f"the listener {name} is not in {LISTENERS}, and this node is a controller. "
                        f"Add {name}://host:port to {LISTENERS}.",
                    )
            if not self._is_broker:
                for name in names:
                    if name not in self._controllers:
                        raise SecuritySettingError(
                            LISTENERS,
                            f"the listener {name} is not in {CONTROLLER_NAMES}, and this node is a controller only. "
                            f"Remove it, or add it to {CONTROLLER_NAMES}.",
                        )
        else:
            for name in self._controllers:
                if name in names:
                    raise SecuritySettingError(
                        LISTENERS,
                        f"{name} is in {CONTROLLER_NAMES}, and this node is a broker only. Remove it from {LISTENERS}.",
                    )
        self._check_names(self._controllers, CONTROLLER_NAMES)

    def _read_advertised(self) -> tuple[ListenerAddress, ...]:
        text = self._values.get(ADVERTISED)
        listeners = self._listeners if text is None else _parse(ADVERTISED, text)
        self._check_names((listener.name for listener in listeners), ADVERTISED)
        names = [listener.name for listener in self._listeners]
        for listener in listeners if self._is_broker else ():
            if listener.name not in names:
                raise SecuritySettingError(
                    ADVERTISED,
                    f"the listener {listener.name} is not in {LISTENERS}"
                    + (
                        ", and brokers do not advertise the controllers' listeners. Remove it."
                        if self._is_for_controllers(listener.name)
                        else ". Add it there, or remove it here."
                    ),
                )
            if text is not None and listener.host in ("0.0.0.0", "::"):
                raise SecuritySettingError(
                    ADVERTISED, f"{listener.host} is no address to connect to. Name a host that clients can reach."
                )
        advertised = tuple(listener for listener in listeners if not self._is_for_controllers(listener.name))
        if self._is_broker and not advertised:
            raise SecuritySettingError(
                ADVERTISED if text is not None else LISTENERS,
                f"all listeners are in {CONTROLLER_NAMES}, and this node is a broker too. Add a listener for clients.",
            )
        return advertised

    def _read_inter_broker(self, advertised: tuple[ListenerAddress, ...]) -> str:
        name, protocol = self._values.get(INTER_BROKER_NAME), self._values.get(INTER_BROKER_PROTOCOL)
        if name and protocol:
            raise SecuritySettingError(INTER_BROKER_NAME, f"and {INTER_BROKER_PROTOCOL} are both set. Remove one.")
        key = INTER_BROKER_NAME if name else INTER_BROKER_PROTOCOL
        chosen = name.upper() if name else _parse_protocol(INTER_BROKER_PROTOCOL, protocol or "PLAINTEXT").name
        if not self._is_broker:
            return self._inter_broker_of_controller(chosen, is_given=bool(name or protocol))
        if self._is_for_controllers(chosen):
            raise SecuritySettingError(
                key, f"{chosen} is in {CONTROLLER_NAMES}. Brokers need a listener of their own; name another."
            )
        names = [listener.name for listener in advertised]
        if chosen not in names:
            problem = "" if name or protocol else f"is not set, so brokers would use the listener {chosen}, but "
            raise SecuritySettingError(
                key,
                f"{problem}{chosen} is not among the advertised listeners {', '.join(names)}. "
                f"Set {INTER_BROKER_NAME} to one of them.",
            )
        return chosen

    def _inter_broker_of_controller(self, chosen: str, *, is_given: bool) -> str:
        """A node that is a controller only need not say how brokers are reached; then its own listener says it."""
        if is_given or self._controllers:
            self._check_names((chosen,), INTER_BROKER_NAME)
            return chosen
        return self._listeners[0].name

    def _check_overrides(self) -> None:
        """A misspelt override must not leave a listener with other settings than were meant."""
        names = {*self._protocols, *self._controllers, *(listener.name for listener in self._listeners)}
        prefixes = [_prefix(name) for name in names]
        for key in self._values:
            if not is_override(key):
                continue
            suffixes = [key.removeprefix(prefix) for prefix in prefixes if key.startswith(prefix)]
            if not suffixes:
                raise SecuritySettingError(
                    key, "names no listener of this node. Check its spelling (the name is in lower case), or remove it."
                )
            if not any(map(_is_override_of_listener, suffixes)):
                raise SecuritySettingError(
                    key, "is not a known setting of a listener. Check its spelling, or remove it."
                )


def _is_override_of_listener(key: str) -> bool:
    mechanism, _, rest = key.partition(".")
    if mechanism.upper() in _ANY_MECHANISM:
        return mechanism.islower() and (rest in _PER_MECHANISM or (rest in _SECURITY and rest.startswith(OAUTH_PREFIX)))
    return key in _SECURITY or apache_broker_keys.is_known(key)


def _prefix(name: str) -> str:
    return f"{OVERRIDE}{name.lower()}."


def _parse(key: str, text: str) -> tuple[ListenerAddress, ...]:
    try:
        return parse_listeners(text)
    except InvalidValueError as error:
        raise SecuritySettingError(key, str(error)) from error


def _parse_map(text: str) -> dict[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for item in comma_separated(text):
        name, separator, protocol = item.partition(":")
        if not separator or not name.strip():
            raise SecuritySettingError(PROTOCOL_MAP, f"{item!r} is not of the form NAME:PROTOCOL")
        normalized = name.strip().upper()
        if normalized in protocols:
            raise SecuritySettingError(PROTOCOL_MAP, f"the listener {normalized} is named twice. Remove one.")
        protocols[normalized] = _parse_protocol(PROTOCOL_MAP, protocol.strip())
    return protocols


def _parse_protocol(key: str, text: str) -> SecurityProtocol:
    try:
        return SecurityProtocol[text.strip().upper()]
    except KeyError:
        names = ", ".join(protocol.name for protocol in SecurityProtocol)
        raise SecuritySettingError(key, f"{text!r} is not one of {names}") from None


def _ip_version(listener: ListenerAddress) -> int:
    try:
        return ipaddress.ip_address(listener.host).version
    except ValueError:
        return 0
