"""Option groups: options that several commands share, as one parameter of their functions.

A group is a dataclass whose fields are options of typer. `expand_groups` replaces a parameter of such a type by the
options of the group; the command's function receives the group with the values that the user gave.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def expand_groups(command: Callable[..., Any] | None) -> Any:
    """The command with the options of its groups instead of the groups, in the same order."""
    if command is None:
        return None
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {name: p.annotation for name, p in parameters.items() if is_dataclass(p.annotation)}
    if not groups:
        return command
    options = {name: _options(group) for name, group in groups.items()}

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in options[name]})
        return command(**values)

    expanded = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in parameters.items()
        for option in options.get(name, (parameter,))
    ]
    run.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in expanded}
    return run


def _options(group: Any) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name]
        )
        for field in fields(group)
    ]
