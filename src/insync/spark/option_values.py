"""Options of a data source: names in any case, values checked, and errors that name the option.

Every mistake is an `OptionError` that says which option, its value, and what would be right.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from insync.client.client import parse_bootstrap
from insync.client.errors import AddressError, SettingError
from insync.client.setting_names import COMMON, shown
from insync.client.settings import ClientSettings, log_ineffective_settings

T = TypeVar("T")

CLIENT_PREFIX = "kafka."
log = logging.getLogger("insync.spark")


class OptionError(ValueError):
    """An option that is unknown, missing, or has a value that makes no sense."""


class OptionValues:
    """The options of one query. `names` are the known ones besides `kafka.*`; Spark passes names in lower case."""

    def __init__(self, options: Mapping[str, str], names: Iterable[str], *, ignored: Iterable[str] = ()) -> None:
        self._values = {name.lower(): value for name, value in options.items() if name.lower() not in tuple(ignored)}
        self._names = {name.lower(): name for name in names}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def get(self, name: str, default: str = "") -> str:
        return self._values.get(name.lower(), default)

    def describe(self, name: str) -> str:
        """Name and value, for messages."""
        return f"'{name}' is {self.get(name)!r}"

    def error(self, name: str, expected: str) -> OptionError:
        return OptionError(f"option {self.describe(name)}: {expected}")

    # --- all options -------------------------------------------------------------------------------------------------

    def reject_unknown(self) -> None:
        for name, value in self._values.items():
            if name not in self._names:
                hint = f"did you mean '{similar}'? Known" if (similar := self._similar(name)) else "known"
                *most, last = self._names.values()
                raise OptionError(
                    f"unknown option '{name}' ({shown(name, value)}); {hint} are {', '.join(most)} and {last}"
                )

    def warn_unknown(self) -> None:
        """Spark's connector ignores options that it does not know, so a job that moves over may have some."""
        for name, value in self._values.items():
            if name in self._names or name.startswith(CLIENT_PREFIX):
                continue
            hint = f" Did you mean '{similar}'?" if (similar := self._similar(name)) else ""
            log.warning("Unknown option '%s' with value %s ignored.%s", name, shown(name, value), hint)

    def _similar(self, name: str) -> str:
        return "".join(self._names[known] for known in difflib.get_close_matches(name, self._names, n=1))

    def reject_fixed(self, names: Iterable[str], who: str) -> None:
        """Settings of Kafka's clients that a user cannot choose here."""
        for name in names:
            if name in self:
                value = shown(name, self.get(name))
                raise OptionError(f"option '{name}' cannot be set (it was {value}): the {who} decides that itself")

    def bootstrap(self) -> str:
        name = "kafka.bootstrap.servers"
        servers = self.get(name).strip()
        if not servers:
            raise OptionError(f"option '{name}' is missing: HOST:PORT of a broker, or several with commas")
        try:
            parse_bootstrap(servers)
        except AddressError as error:
            raise OptionError(f"option '{name}': {error}") from None
        return servers

    def client_settings(self, *, used: Iterable[str]) -> ClientSettings:
        """`kafka.*`, under the names of Kafka's own clients. `used` are the settings that have an effect here, besides
        those that have one everywhere."""
        settings = {
            name.removeprefix(CLIENT_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(CLIENT_PREFIX)
        }
        log_ineffective_settings(log, settings, used=(*COMMON, *used), prefix=CLIENT_PREFIX)
        try:
            return ClientSettings.of(settings)
        except SettingError as error:
            raise OptionError(f"option '{CLIENT_PREFIX}{error.setting}' {error.problem}") from None

    # --- one option --------------------------------------------------------------------------------------------------

    def flag(self, name: str, *, default: bool = False) -> bool:
        return self.choice(name, ("true", "false"), default=str(default).lower()) == "true"

    def choice(self, name: str, allowed: tuple[str, ...], *, default: str) -> str:
        text = self.get(name, default).strip().lower()
        if text not in allowed:
            expected = f"one of {', '.join(allowed)}" if len(allowed) > 2 else " or ".join(allowed)
            raise self.error(name, expected)
        return text

    def number(self, name: str, *, minimum: int = 1) -> int | None:
        """None if the option is not set."""
        if name not in self:
            return None
        if not re.fullmatch(r"\s*\d{1,18}\s*", self.get(name)) or int(self.get(name)) < minimum:
            raise self.error(name, f"a whole number, at least {minimum}")
        return int(self.get(name))

    def names(self, name: str) -> tuple[str, ...]:
        """Names with commas between them, each once."""
        return tuple(dict.fromkeys(part.strip() for part in self.get(name).split(",") if part.strip()))

    def json(self, name: str, parse: Callable[[Any], T], example: str) -> T:
        try:
            return parse(json.loads(self.get(name)))
        except (ValueError, TypeError, AttributeError) as error:
            raise OptionError(f"option {self.describe(name)} ({error}): write {example}") from None
