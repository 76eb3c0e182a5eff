"""A node's settings from a properties file with Kafka's own key names.

An unknown key or an invalid value is an error that names the file, the line and the key: a setting that is silently
ignored is noticed at the worst moment. Kafka's keys without a meaning here (thread counts and the like) are accepted,
so that a file written for Kafka can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from insync import java_properties
from insync.metadata import apache_broker_keys
from insync.node.config import AuthorizerConfig
from insync.security.errors import SecuritySettingError
from insync.server import listeners, property_keys
from insync.server.endpoints import parse_voters
from insync.server.limits import Limits
from insync.server.listeners import ListenerSettings
from insync.server.profiles import PROFILES
from insync.server.property_keys import InvalidValueError

PRINCIPAL_BUILDERS = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
}
"""Kafka's own class is accepted: principals are built as it does."""


VOTERS, BOOTSTRAP_SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"


class PropertiesError(Exception):
    """A setting is missing, unknown or invalid: names the file, the line and the key."""

    def __init__(self, source: str, line: int, key: str, problem: str) -> None:
        super().__init__(f"{source}:{line}: {key}: {problem}" if line else f"{source}: {key}: {problem}")


@dataclass(frozen=True, slots=True)
class Entry:
    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The checked content of one file."""

    node_id: int
    roles: tuple[str, ...]
    directory: str
    listeners: ListenerSettings
    authorizer: AuthorizerConfig | None
    voters: dict[int, tuple[str, int]]
    rack: str | None
    metrics_host: str
    metrics_port: int | None
    settings: dict[str, dict[str, Any]]
    """By part ("node", "quorum", "controller", "replication", "limits", "groups"): field name -> value."""
    topic_defaults: dict[str, str] = field(default_factory=dict)
    """Broker-side defaults of topic configs, under the broker's names."""
    unused: tuple[str, ...] = ()
    """Kafka's keys in the file that have no meaning here."""
    as_written: dict[str, str] = field(default_factory=dict, repr=False)
    """Every key of the file with its unparsed value."""


def load(path: str) -> Properties:
    return parse(decode(Path(path).read_bytes(), path), path)


def decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PropertiesError(source, line, "this line", "is not UTF-8 text") from error


def parse(text: str, source: str) -> Properties:
    entries: dict[str, Entry] = {}
    for line, key, written in java_properties.entries(text):
        value = written.rstrip()  # Java keeps trailing blanks, which are never meant
        if key in entries:
            raise PropertiesError(source, line, key, f"is set twice, first in line {entries[key].line}. Remove one.")
        entries[key] = Entry(value, line)
    return _Reader(source, entries).read()


class _Reader:
    def __init__(self, source: str, entries: Mapping[str, Entry]) -> None:
        self._source = source
        self._entries = entries
        self._settings: dict[str, dict[str, Any]] = {}
        self._defaults: dict[str, str] = {}
        self._unused: list[str] = []

    def read(self) -> Properties:
        profile = self._optional("insync.profile", property_keys.one_of(*PROFILES), "production")
        for part, values in PROFILES[profile].items():
            self._settings[part] = dict(values)
        for key, entry in self._entries.items():
            self._read_entry(key, entry)
        self._check_delay()
        directory = self._required(
            "log.dir" if "log.dir" in self._entries and "log.dirs" not in self._entries else "log.dirs", _one_directory
        )
        roles = self._required("process.roles", property_keys.roles)
        as_written = {key: entry.value for key, entry in self._entries.items()}
        settings = self._listeners(as_written, roles)
        self._unused += [
            key
            for key in as_written
            if (listeners.is_override(key) or listeners.is_security_setting(key))
            and listeners.is_without_effect(key, settings.protocols)
        ]
        return Properties(
            node_id=self._required("node.id", property_keys.integer(0, 2**31 - 1)),
            roles=roles,
            directory=directory,
            listeners=settings,
            authorizer=self._authorizer(),
            voters=self._voters(roles, settings),
            rack=self._optional("broker.rack", str, None),
            metrics_host=self._optional("insync.metrics.host", str, "127.0.0.1"),
            metrics_port=self._optional("insync.metrics.port", property_keys.integer(0, 65_535), None),
            settings=self._settings,
            topic_defaults=self._defaults,
            unused=tuple(self._unused),
            as_written=as_written,
        )

    def _voters(self, roles: tuple[str, ...], settings: ListenerSettings) -> dict[int, tuple[str, int]]:
        """From controller.quorum.voters. Files for Kafka 4 name controllers without their ids
        (controller.quorum.bootstrap.servers): if the only one is this node, its id is known."""
        if VOTERS in self._entries or BOOTSTRAP_SERVERS not in self._entries:
            return dict(self._required(VOTERS, parse_voters))
        servers = property_keys.comma_separated(self._entries[BOOTSTRAP_SERVERS].value)
        own_ports = [bound.address.port for bound in settings.bound if bound.name == settings.controller.name]
        host, _, port = servers[0].strip().rpartition(":") if servers else ("", "", "")
        if len(servers) == 1 and "controller" in roles and port.isdecimal() and int(port) in own_ports:
            node_id = self._entries["node.id"].value if "node.id" in self._entries else ""
            return dict(self._convert(BOOTSTRAP_SERVERS, Entry(f"{node_id}@{host}:{port}", 0), parse_voters))
        raise PropertiesError(
            self._source,
            self._entries[BOOTSTRAP_SERVERS].line,
            BOOTSTRAP_SERVERS,
            f"does not say which node is which. Set {VOTERS}=ID@HOST:PORT,... for all controllers.",
        )

    def _check_delay(self) -> None:
        """As in Kafka: a client must get the answer to a failed authentication."""
        limits = Limits(**self._settings.get("limits", {}))
        if limits.failed_authentication_delay_ms >= limits.idle_ms:
            key = "connection.failed.authentication.delay.ms"
            line = self._entries[key].line if key in self._entries else 0
            raise PropertiesError(self._source, line, key, "must be less than connections.max.idle.ms. Lower it.")

    def _listeners(self, values: dict[str, str], roles: tuple[str, ...]) -> ListenerSettings:
        try:
            settings = listeners.read_listeners(values, roles)
            listeners.check_security(settings)
            return settings
        except SecuritySettingError as error:
            entry = self._entries.get(error.key)
            raise PropertiesError(self._source, entry.line if entry else 0, error.key, error.problem) from error

    def _authorizer(self) -> AuthorizerConfig | None:
        super_users = self._optional("super.users", property_keys.principals, ())
        allow_if_no_acl = self._optional("allow.everyone.if.no.acl.found", property_keys.boolean, False)
        if not self._optional("authorizer.class.name", property_keys.authorizer_class, ""):
            return None
        return AuthorizerConfig(super_users=super_users, allow_if_no_acl=allow_if_no_acl)

    def _read_entry(self, key: str, entry: Entry) -> None:
        if key in property_keys.STRUCTURAL or listeners.is_override(key) or listeners.is_security_setting(key):
            return
        if entry.value and apache_broker_keys.is_unsafe_to_ignore(key) and entry.value != PRINCIPAL_BUILDERS.get(key):
            raise PropertiesError(
                self._source,
                entry.line,
                key,
                "restricts access, which insync does not support. Remove the setting, or protect the node otherwise.",
            )
        if key in property_keys.SETTINGS:
            for part, name, convert in property_keys.SETTINGS[key]:
                self._settings.setdefault(part, {})[name] = self._convert(key, entry, convert)
        elif key in property_keys.COARSER_UNITS:
            name, convert = property_keys.COARSER_UNITS[key]
            if name not in self._entries:  # the setting in the finer unit wins, as in Kafka
                self._defaults[name] = self._convert(key, entry, convert)
        elif key in property_keys.UNUSED or apache_broker_keys.is_known(key):
            self._unused.append(key)
        elif (problem := property_keys.topic_default_problem(key, entry.value)) is None:
            self._defaults[key] = entry.value
        else:
            raise PropertiesError(self._source, entry.line, key, problem)

    def _required(self, key: str, convert: property_keys.Convert) -> Any:
        if key not in self._entries:
            raise PropertiesError(self._source, 0, key, "is missing, and required")
        return self._optional(key, convert, None)

    def _optional(self, key: str, convert: property_keys.Convert, default: Any) -> Any:
        entry = self._entries.get(key)
        return default if entry is None else self._convert(key, entry, convert)

    def _convert(self, key: str, entry: Entry, convert: property_keys.Convert) -> Any:
        try:
            return convert(entry.value)
        except InvalidValueError as error:
            raise PropertiesError(self._source, entry.line, key, str(error)) from error


def _one_directory(text: str) -> str:
    directories = property_keys.comma_separated(text)
    if len(directories) != 1:
        raise InvalidValueError(f"a node has one log directory, not {len(directories)}. Start one node per disk.")
    return directories[0]
