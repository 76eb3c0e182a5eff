"""The process of a node: its settings, log, garbage collector and exit code."""

from __future__ import annotations

import errno
import gc
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from insync import event_loop, memory
from insync.errors import InvariantError
from insync.escaping import log_value, printable
from insync.server import listeners, properties
from insync.server.properties import Properties, PropertiesError
from insync.server.server import Server
from insync.server.startup_error import CANNOT_START, StartupError
from insync.wire.errors import MalformedFrameError

GC_THRESHOLD = 50_000
"""Requests make few reference cycles; a collection after every 700 objects costs more than it frees."""


FAILED = 1


def main(path: str, make_server: Callable[[Properties], Server] = Server) -> int:
    try:
        settings = properties.load(path)
    except (PropertiesError, OSError) as error:
        print(error, file=sys.stderr)
        return CANNOT_START
    _log_to_stderr(settings.node_id)
    log = logging.getLogger("insync.server")
    _raise_file_limit()
    memory.keep_buffers()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    if settings.unused:
        log.warning("event=settings_without_effect keys=%s", ",".join(settings.unused))
    if has_exposed_secrets(path, settings):
        advice = "Every user of this machine can read passwords in it. Run chmod o-r."
        log.warning("event=secrets_exposed file=%s advice=%s", log_value(path), log_value(advice))
    try:
        stop = event_loop.run(make_server(settings).run())
    except (StartupError, InvariantError, MalformedFrameError) as error:  # it cannot start with these files
        print(error, file=sys.stderr)
        return CANNOT_START
    except OSError as error:  # a full disk, too many open files: another attempt may succeed
        log.error("event=not_started reason=%s advice=%s", log_value(str(error)), log_value(advice_for(error)))
        return FAILED
    if stop.clean:
        log.info("event=stopped clean=true reason=%s", log_value(stop.reason))
        return 0
    if stop.permanent:
        log.error("event=stopped clean=false reason=%s", log_value(stop.reason))
        print(stop.reason, file=sys.stderr)
        return CANNOT_START
    advice = advice_for(stop.error)
    log.error("event=stopped clean=false reason=%s advice=%s", log_value(stop.reason), log_value(advice))
    return FAILED


def has_exposed_secrets(path: str, settings: Properties) -> bool:
    return any(map(listeners.is_secret, settings.as_written)) and bool(os.stat(path).st_mode & 0o004)


def advice_for(error: OSError | None) -> str:
    """What an operator can do about an unexpected stop; `error` comes from the operating system."""
    number = None if error is None else error.errno
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "Free space on the disk of log.dir, then start the node again."
    if number in (errno.EMFILE, errno.ENFILE):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"Raise the limit of open files (now {limit}; ulimit -n, LimitNOFILE), then start the node again."
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Make log.dir writable for the user of this process, then start the node again."
    if number in (errno.ENOTDIR, errno.EEXIST):
        return "A file has the name of a directory of the node: move it out of log.dir, then start the node again."
    if error is not None:
        return "Check the disk of log.dir, then start the node again; it fetches what it lacks from other replicas."
    return "Keep the log and the data directory, and report a defect. The node can be started again."


def _raise_file_limit() -> None:
    """Every segment and every connection needs a file: use the hard limit."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def _log_to_stderr(node_id: int) -> None:
    level = os.environ.get("INSYNC_LOG", "INFO").upper()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(node_id))
    logging.basicConfig(level=level, handlers=[handler])


class LineFormatter(logging.Formatter):
    """One line per message, whatever it contains; the lines of a traceback are indented, so that none looks like a
    message. Times are in UTC."""

    converter = time.gmtime  # type: ignore[assignment]  # typeshed omits its argument

    def __init__(self, node_id: int) -> None:
        form = f"time=%(asctime)s.%(msecs)03dZ level=%(levelname)s node={node_id} %(message)s"
        super().__init__(form, "%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        lines = super().formatException(ei).split("\n")
        return "\n".join([f"  {printable(line)}" for line in lines])
