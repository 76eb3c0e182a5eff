"""A node's process: its settings, its log, its garbage collector, and the code that it exits with."""

from __future__ import annotations

import gc
import logging
import os
import resource
import sys
from collections.abc import Callable

import uvloop

from insync import memory
from insync.errors import InvariantViolation
from insync.server import properties
from insync.server.properties import Properties, PropertiesError
from insync.server.server import Server
from insync.server.startup_error import CANNOT_START, StartupError
from insync.wire.errors import MalformedFrame

GC_THRESHOLD = 50_000
"""Requests make few cycles; looking for them after every 700 objects costs more than it frees."""


FAILED = 1


def main(path: str, make_server: Callable[[Properties], Server] = Server) -> int:
    try:
        settings = properties.load(path)
    except (PropertiesError, OSError) as error:
        print(error, file=sys.stderr)
        return CANNOT_START
    _log_to_stderr(settings.node_id)
    log = logging.getLogger("insync.server")
    _allow_many_files()
    memory.keep_buffers()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    for key in settings.unused:
        log.info("event=setting_without_effect key=%s", key)
    try:
        stop = uvloop.run(make_server(settings).run())
    except (StartupError, InvariantViolation, MalformedFrame) as error:  # it cannot begin with these files
        print(error, file=sys.stderr)
        return CANNOT_START
    except OSError as error:  # a full disk, too many open files: another attempt may succeed
        print(error, file=sys.stderr)
        return FAILED
    log.info("event=stopped clean=%s reason=%r", str(stop.clean).lower(), stop.reason)
    if stop.permanent:
        print(stop.reason, file=sys.stderr)
        return CANNOT_START
    return 0 if stop.clean else FAILED


def _allow_many_files() -> None:
    """Every segment and every connection is one; what the administrator allows at most is what a server wants."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _log_to_stderr(node_id: int) -> None:
    level = os.environ.get("INSYNC_LOG", "INFO").upper()
    form = f"time=%(asctime)s.%(msecs)03dZ level=%(levelname)s node={node_id} %(message)s"
    logging.basicConfig(level=level, format=form, datefmt="%Y-%m-%dT%H:%M:%S", stream=sys.stderr)
