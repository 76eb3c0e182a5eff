"""`--client-config FILE`: settings for a secured cluster, in the format of --command-config of Kafka's tools.

Every command with --bootstrap has this option: `add_option` adds it to the command's function, and code that connects
calls `current_settings`. It is a file because all users of a machine can read secrets on a command line. A local
cluster that is found because it runs has such a file of its own, if it is secured.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from insync import java_properties
from insync.cli.exits import usage_error
from insync.cli.running_cluster import resolve_bootstrap

if TYPE_CHECKING:
    from insync.client.settings import ClientSettings

PARAMETER = "client_config"
ClientConfig = Annotated[
    Path | None,
    typer.Option(
        "--client-config",
        envvar="INSYNC_CLIENT_CONFIG",
        metavar="FILE",
        help="Client settings such as security.protocol, under the names of Java's clients.",
    ),
]

_chosen: ContextVar[ClientSettings | None] = ContextVar("client_settings", default=None)
log = logging.getLogger("insync.client")


def current_settings() -> ClientSettings:
    """The settings of the running command."""
    from insync.client.settings import DEFAULT_SETTINGS

    return _chosen.get() or DEFAULT_SETTINGS


def add_option(command: Callable[..., Any] | None) -> Any:
    """The command with the option added, if it connects to a cluster."""
    if command is None:
        return None
    signature = inspect.signature(command, eval_str=True)
    if "bootstrap" not in signature.parameters or PARAMETER in signature.parameters:
        return command

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        values["bootstrap"], default_file = resolve_bootstrap(values["bootstrap"])
        file = values.pop(PARAMETER) or default_file
        token = _chosen.set(None if file is None else read_settings(file))
        try:
            return command(**values)
        finally:
            _chosen.reset(token)

    option = inspect.Parameter(PARAMETER, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ClientConfig)
    run.__signature__ = signature.replace(parameters=_insert_option(list(signature.parameters.values()), option))  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, PARAMETER: ClientConfig}
    return run


def _insert_option(parameters: list[inspect.Parameter], option: inspect.Parameter) -> list[inspect.Parameter]:
    """After --bootstrap in the help."""
    at = [parameter.name for parameter in parameters].index("bootstrap") + 1
    return [*parameters[:at], option.replace(kind=parameters[0].kind), *parameters[at:]]


def read_settings(file: Path, option: str = "--client-config") -> ClientSettings:
    """The settings in a file that was named with `option`."""
    from insync.client.errors import SettingError
    from insync.client.setting_names import COMMON, READING
    from insync.client.settings import ClientSettings, log_ineffective_settings

    try:
        values = java_properties.parse(file.read_text())
    except OSError as error:
        raise usage_error(f"{option} {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise usage_error(f"{option} {file}: is not a text file") from None
    log_ineffective_settings(log, values, used=(*COMMON, *READING))
    try:
        return ClientSettings.of(values)
    except SettingError as error:
        raise usage_error(f"{option} {file}: {error}") from None
