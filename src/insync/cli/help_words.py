"""Help for people: words instead of Python's types, in the help and in the usage line of every command.

typer shows `<int range>` and `x>=1` for an option without a metavar, and `TOPIC <str>` for an argument. Here an option
shows N, SECONDS or PATH, and its limits as a sentence would have them.
"""

from __future__ import annotations

from typing import Any

_WORDS = {"int": "N", "float": "NUMBER", "str": "TEXT", "path": "PATH"}


def use_words(command: Any) -> Any:
    """Changes the parameters of a command, and of the commands of a group."""
    for parameter in getattr(command, "params", ()):
        if parameter.opts[0].startswith("-"):
            _describe_option(parameter)
        else:
            _describe_argument(parameter)
        low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
        parameter._get_number_range_help_str = lambda low=low, high=high: describe_limits(low, high)
    for child in getattr(command, "commands", {}).values():
        use_words(child)
    return command


def describe_limits(low: float | None, high: float | None) -> str | None:
    if low is None:
        return None if high is None else f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"{low:g} to {high:g}"


def _describe_option(option: Any) -> None:
    if option.metavar is None and not option.is_flag and not getattr(option, "count", False):
        kind = getattr(getattr(option, "type_descriptor", None), "annotation", str)
        name = getattr(kind, "__name__", "str").lower()
        option.metavar = _WORDS.get("path" if "path" in name else name, "TEXT")


def _describe_argument(argument: Any) -> None:
    name = (argument.metavar or argument.name.upper()).strip("[].")
    repeated = f"{name}..." if argument.nargs != 1 else name
    argument.metavar = name
    argument.display_type_rich = lambda ctx: None
    argument.get_usage_pieces = lambda ctx: [repeated if argument.required else f"[{repeated}]"]
