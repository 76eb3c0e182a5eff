"""The options of `format("insync-log")`."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from typing import Any

from insync.logdir.options import END, FAIL, HWM, ROWS, ReadOptions
from insync.spark.option_values import OptionError, OptionValues
from insync.spark.typed_options import TYPED_NAMES

_NAMES = (
    *("path", "paths", "brokers", "topics", "bound", "corrupt", "includeControl", "pushFilters"),
    *("startingOffset", "endingOffset", "startingTimestamp", "endingTimestamp"),
    *TYPED_NAMES,
)


def read_log_options(options: Mapping[str, str]) -> ReadOptions:
    values = OptionValues(options, _NAMES)
    values.reject_unknown()
    for edge in ("starting", "ending"):
        if f"{edge}Offset" in values and f"{edge}Timestamp" in values:
            raise OptionError(f"give '{edge}Offset' or '{edge}Timestamp', not both")
    paths = _paths(values)
    return ReadOptions(
        paths=paths,
        brokers=_brokers(values, len(paths)),
        topics=values.names("topics"),
        start_offset=values.number("startingOffset", minimum=0),
        end_offset=values.number("endingOffset", minimum=0),
        start_time_ms=values.number("startingTimestamp", minimum=0),
        end_time_ms=values.number("endingTimestamp", minimum=0),
        bound=values.choice("bound", (HWM, END), default=HWM),
        corrupt=values.choice("corrupt", (FAIL, ROWS), default=FAIL),
        include_control=values.flag("includeControl"),
        push_filters=values.flag("pushFilters"),
    )


def _paths(values: OptionValues) -> tuple[str, ...]:
    name = "path" if "path" in values else "paths"
    text = values.get(name).strip()
    if not text:
        raise OptionError("option 'path' is missing: a log directory, or several with commas or as a JSON list")
    directories: dict[str, None] = {}
    example = '["/first/directory", "/second/directory"]'
    for pattern in values.json(name, _parse_list, example) if text.startswith("[") else values.names(name):
        matches = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        existing = [path for path in matches if os.path.isdir(path)]
        if not existing:
            raise OptionError(f"option '{name}' names {pattern!r}: there is no such directory")
        directories.update(dict.fromkeys(os.path.abspath(path) for path in existing))
    return tuple(directories)


def _parse_list(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(path, str) and path for path in given):
        raise ValueError("not a list of paths")
    return tuple(given)


def _brokers(values: OptionValues, paths: int) -> tuple[int, ...]:
    text = values.get("brokers").strip()
    if not text:
        return ()
    if not re.fullmatch(r"\d+(\s*,\s*\d+)*", text):
        raise values.error("brokers", "broker ids with commas between them")
    brokers = tuple(int(broker) for broker in text.split(","))
    if len(brokers) != paths:
        raise values.error("brokers", f"{len(brokers)} ids for {paths} directories of option 'path'")
    return brokers
