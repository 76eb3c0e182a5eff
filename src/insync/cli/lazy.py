"""Groups of commands whose modules are imported when a command is run, not when the group is listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_group

from insync.cli import client_config

Commands = Mapping[str, tuple[str, str]]
"""By name: a function, or an app of several commands, in a module of this package; and what it does, in a line."""


class LazyGroup(TyperGroup):
    """Subclasses say which commands there are."""

    table: ClassVar[Commands] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Loaded(self)

    def load(self, module: str) -> Any:
        return import_module(f"insync.cli.{module}")

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])


class _Loaded(Mapping[str, Any]):
    """The commands themselves, each imported when it is looked up."""

    def __init__(self, group: LazyGroup) -> None:
        self._group = group

    def __getitem__(self, name: str) -> Any:
        module, attribute = self._group.table[name][0].split(".")
        found = getattr(self._group.load(module), attribute)
        holder = typer.Typer(rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            for command in found.registered_commands:
                command.callback = client_config.accepting(command.callback)
            if found.registered_callback is not None:
                found.registered_callback.callback = client_config.accepting(found.registered_callback.callback)
            holder.add_typer(found, name=name)
        else:
            holder.command(name=name)(client_config.accepting(found))
        return get_group(holder).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._group.table)

    def __len__(self) -> int:
        return len(self._group.table)
