"""The options of `format("insync-log")`. Every mistake is an `OptionError` that names the option and its value."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Mapping

from insync.logdir.options import END, FAIL, HWM, ROWS, ReadOptions
from insync.spark.client_options import OptionError, unknown

_NAMES = (
    *("path", "paths", "brokers", "topics", "bound", "corrupt", "includeControl"),
    *("startingOffset", "endingOffset", "startingTimestamp", "endingTimestamp"),
)
_KNOWN = {name.lower(): name for name in _NAMES}


def read_options(options: Mapping[str, str]) -> ReadOptions:
    values = {name.lower(): value for name, value in options.items()}
    for name, value in values.items():
        if name not in _KNOWN:
            raise unknown(name, repr(value), _NAMES)
    paths = _paths(values)
    found = ReadOptions(
        paths=paths,
        brokers=_brokers(values, len(paths)),
        topics=tuple(dict.fromkeys(name.strip() for name in values.get("topics", "").split(",") if name.strip())),
        start_offset=_number(values, "startingoffset"),
        end_offset=_number(values, "endingoffset"),
        start_time_ms=_number(values, "startingtimestamp"),
        end_time_ms=_number(values, "endingtimestamp"),
        bound=_one_of(values, "bound", (HWM, END)),
        corrupt=_one_of(values, "corrupt", (FAIL, ROWS)),
        include_control=_one_of(values, "includecontrol", ("false", "true")) == "true",
    )
    _not_twice(found)
    return found


def _not_twice(options: ReadOptions) -> None:
    if options.start_offset is not None and options.start_time_ms is not None:
        raise OptionError("give 'startingOffset' or 'startingTimestamp', not both")
    if options.end_offset is not None and options.end_time_ms is not None:
        raise OptionError("give 'endingOffset' or 'endingTimestamp', not both")


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    name = "path" if "path" in values else "paths"
    text = values.get(name, "").strip()
    if not text:
        raise OptionError("option 'path' is missing: a log directory, or several with commas or as a JSON list")
    found: dict[str, None] = {}
    for each in _listed(name, text):
        matching = sorted(glob.glob(each)) if glob.has_magic(each) else [each]
        directories = [path for path in matching if os.path.isdir(path)]
        if not directories:
            raise OptionError(f"option '{name}' names {each!r}: there is no such directory")
        found.update(dict.fromkeys(os.path.abspath(path) for path in directories))
    return tuple(found)


def _listed(name: str, text: str) -> list[str]:
    if not text.startswith("["):
        return [each.strip() for each in text.split(",") if each.strip()]
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise OptionError(f'option \'{name}\' is {text!r}: write ["/first/directory", "/second/directory"]')
    return found


def _brokers(values: Mapping[str, str], paths: int) -> tuple[int, ...]:
    text = values.get("brokers", "").strip()
    if not text:
        return ()
    if not re.fullmatch(r"\d+(\s*,\s*\d+)*", text):
        raise OptionError(f"option 'brokers' is {text!r}: broker ids with commas between them")
    found = tuple(int(each) for each in text.split(","))
    if len(found) != paths:
        raise OptionError(f"option 'brokers' is {text!r}: {len(found)} ids, and option 'path' names {paths}")
    return found


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d{1,18}\s*", text):
        raise OptionError(f"option '{_KNOWN[name]}' is {text!r}: a whole number, at least 0")
    return int(text)


def _one_of(values: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    text = values.get(name, allowed[0]).strip().lower()
    if text not in allowed:
        raise OptionError(f"option '{_KNOWN[name]}' is {text!r}: {' or '.join(allowed)}")
    return text
