"""Which log directories a job reads: arguments of commands become the options of the reader."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence

from insync.logdir.options import ReadOptions
from insync.pipeline.text import pluralize
from insync.spark.log_options import read_log_options


def list_log_directories(path: str) -> list[str]:
    """The nodes' log directories in a cluster's directory; otherwise `path` itself."""
    return sorted(glob.glob(os.path.join(path, "node-*", "data"))) or [path]


def to_read_options(logs: Sequence[str], topics: Sequence[str] = (), brokers: Sequence[int] = ()) -> ReadOptions:
    """Raises `OptionError`; `logs` may contain wildcards."""
    values = {"path": json.dumps(list(logs)), "topics": ",".join(topics)}
    if brokers:
        values["brokers"] = ",".join(map(str, brokers))
    return read_log_options(values)


def check_broker_ids(logs: Sequence[str], brokers: Sequence[int]) -> None:
    directories = len(to_read_options(logs).paths)
    if brokers and len(brokers) != directories:
        ids, places = pluralize(len(brokers), "id"), pluralize(directories, "directory", "directories")
        raise ValueError(f"--brokers {','.join(map(str, brokers))}: {ids} for {places}; give one for each")
