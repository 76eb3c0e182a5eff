"""A node's settings from a properties file with Kafka's own key names.

A key that is unknown or has a wrong value is an error that names the file, the line and the key: a setting that is
silently ignored is found out in the worst moment. Keys of Kafka that mean nothing here (its thread counts and the like)
are listed and accepted, so that a file written for Kafka can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from insync import java_properties
from insync.metadata import apache_broker_keys
from insync.server import property_keys
from insync.server.endpoints import Listen, parse_listeners, parse_voters
from insync.server.profiles import PROFILES
from insync.server.property_keys import BadValue


class PropertiesError(Exception):
    """Where in which file what is wrong."""

    def __init__(self, source: str, line: int, key: str, problem: str) -> None:
        super().__init__(f"{source}:{line}: {key}: {problem}" if line else f"{source}: {key}: {problem}")


@dataclass(frozen=True, slots=True)
class Entry:
    value: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """What one file says, checked."""

    node_id: int
    roles: tuple[str, ...]
    directory: str
    listeners: tuple[Listen, ...]
    advertised: tuple[Listen, ...]
    voters: dict[int, tuple[str, int]]
    rack: str | None
    metrics_port: int | None
    settings: dict[str, dict[str, Any]]
    """By part ("node", "quorum", "controller", "replication", "limits", "groups"): field name -> value."""
    topic_defaults: dict[str, str] = field(default_factory=dict)
    """Broker-side defaults of topic configs, under the broker's names."""
    unused: tuple[str, ...] = ()
    """Keys of Kafka that were given and have no meaning here."""
    given: dict[str, str] = field(default_factory=dict)
    """Every key of the file with its value as written."""


def load(path: str) -> Properties:
    return parse(decoded(Path(path).read_bytes(), path), path)


def decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PropertiesError(source, line, "this line", "is not UTF-8 text") from error


def parse(text: str, source: str) -> Properties:
    entries: dict[str, Entry] = {}
    for line, key, written in java_properties.entries(text):
        value = written.rstrip()  # Java keeps blanks at the end of a line, which nobody sees or means
        if key in entries:
            raise PropertiesError(source, line, key, f"given twice, first in line {entries[key].line}")
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
        profile = self._own("insync.profile", property_keys.choice(*PROFILES), "production")
        for part, values in PROFILES[profile].items():
            self._settings[part] = dict(values)
        for key, entry in self._entries.items():
            self._take(key, entry)
        listeners = self._own("listeners", parse_listeners, parse_listeners("PLAINTEXT://:9092"))
        directory = self._required(
            "log.dir" if "log.dir" in self._entries and "log.dirs" not in self._entries else "log.dirs", _one_directory
        )
        controllers = self._own("controller.listener.names", property_keys.words, ())
        advertised = self._own("advertised.listeners", parse_listeners, listeners)
        return Properties(
            node_id=self._required("node.id", property_keys.whole(0, 2**31 - 1)),
            roles=self._required("process.roles", property_keys.roles),
            directory=directory,
            listeners=listeners,
            advertised=tuple(each for each in advertised if each.name not in controllers) or advertised,
            voters=self._required("controller.quorum.voters", parse_voters),
            rack=self._own("broker.rack", str, None),
            metrics_port=self._own("insync.metrics.port", property_keys.whole(0, 65_535), None),
            settings=self._settings,
            topic_defaults=self._defaults,
            unused=tuple(self._unused),
            given={key: entry.value for key, entry in self._entries.items()},
        )

    def _take(self, key: str, entry: Entry) -> None:
        if key in property_keys.STRUCTURAL:
            return
        if entry.value and apache_broker_keys.is_unsafe_to_ignore(key):
            raise PropertiesError(self._source, entry.line, key, "restricts access, which a node here cannot do")
        if key in property_keys.SETTINGS:
            for part, name, convert in property_keys.SETTINGS[key]:
                self._settings.setdefault(part, {})[name] = self._converted(key, entry, convert)
        elif key in property_keys.SPELLINGS:
            name, convert = property_keys.SPELLINGS[key]
            if name not in self._entries:  # the finer unit wins, as in Kafka
                self._defaults[name] = self._converted(key, entry, convert)
        elif key in property_keys.UNUSED or apache_broker_keys.is_known(key):
            self._unused.append(key)
        elif (problem := property_keys.topic_default_problem(key, entry.value)) is None:
            self._defaults[key] = entry.value
        else:
            raise PropertiesError(self._source, entry.line, key, problem)

    def _required(self, key: str, convert: property_keys.Convert) -> Any:
        if key not in self._entries:
            raise PropertiesError(self._source, 0, key, "is missing")
        return self._own(key, convert, None)

    def _own(self, key: str, convert: property_keys.Convert, default: Any) -> Any:
        entry = self._entries.get(key)
        return default if entry is None else self._converted(key, entry, convert)

    def _converted(self, key: str, entry: Entry, convert: property_keys.Convert) -> Any:
        try:
            return convert(entry.value)
        except BadValue as error:
            raise PropertiesError(self._source, entry.line, key, str(error)) from error


def _one_directory(text: str) -> str:
    directories = property_keys.words(text)
    if len(directories) != 1:
        raise BadValue(f"a node keeps its logs in one directory, not in {len(directories)}: start a node per disk")
    return directories[0]
