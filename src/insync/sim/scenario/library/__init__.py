"""The scenarios that ship with insync, each next to its golden output: `insync sim scenario NAME` plays one."""

from __future__ import annotations

from importlib import resources


def list_scenarios() -> list[str]:
    """The names, in alphabetical order."""
    files = (file.name for file in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(".scenario") for name in files if name.endswith(".scenario"))


def read_scenario(name: str) -> str:
    """The text of a scenario; KeyError if the library has none of that name."""
    if name not in list_scenarios():
        raise KeyError(name)
    return (resources.files(__name__) / f"{name}.scenario").read_text(encoding="utf-8")
