"""The options `kafka.*`: settings of the client, under the names that Kafka's own clients have for them."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping

from insync.client.client import parse_bootstrap
from insync.client.errors import AddressError, SettingError
from insync.client.setting_names import COMMON, shown
from insync.client.settings import ClientSettings, log_ineffective_settings

CLIENT = "kafka."
log = logging.getLogger("insync.spark")


class OptionError(ValueError):
    """An option that makes no sense."""


def read_client(values: Mapping[str, str], *, used: Iterable[str]) -> ClientSettings:
    """`used` are the settings, beyond those of every client, that have an effect here."""
    found = {name.removeprefix(CLIENT): value for name, value in values.items() if name.startswith(CLIENT)}
    log_ineffective_settings(log, found, used=(*COMMON, *used), prefix=CLIENT)
    try:
        return ClientSettings.of(found)
    except SettingError as error:
        raise OptionError(f"option '{CLIENT}{error.setting}' {error.problem}") from None


def bootstrap(values: Mapping[str, str]) -> str:
    found = values.get("kafka.bootstrap.servers", "").strip()
    if not found:
        raise OptionError("option 'kafka.bootstrap.servers' is missing: HOST:PORT of a broker, or several with commas")
    try:
        parse_bootstrap(found)
    except AddressError as error:
        raise OptionError(f"option 'kafka.bootstrap.servers': {error}") from None
    return found


def unknown(name: str, value: str, known: Iterable[str], *families: str) -> OptionError:
    """Spark hands over names in small letters only."""
    names = {each.lower(): each for each in known}
    similar = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{names[similar[0]]}'? Known" if similar else "known"
    *most, last = (*names.values(), *families)
    return OptionError(f"unknown option '{name}' ({value}); {hint} are {', '.join(most)} and {last}")


__all__ = ["CLIENT", "OptionError", "bootstrap", "read_client", "shown", "unknown"]
