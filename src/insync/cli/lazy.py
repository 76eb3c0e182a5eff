"""Command groups that import the module of a command only when the command is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_group

from insync.cli import client_config
from insync.cli.help_words import use_words
from insync.cli.option_groups import expand_groups

Commands = Mapping[str, tuple[str, str]]
"""By name: (a function, or an app of several commands, in a module of this package; its one-line help)."""


class LazyGroup(TyperGroup):
    """Subclasses define `table`."""

    table: ClassVar[Commands] = {}
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By title: the commands that the help lists below it; without sections, all are in one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Loaded(self)

    def load(self, module: str) -> Any:
        return import_module(f"insync.cli.{module}")

    def adapt(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """Subclasses may do something before each command."""
        return command

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in self.sections.items() or (("Commands", tuple(self.table)),):
            with formatter.section(title):
                formatter.write_dl([(name, self.table[name][1]) for name in names])


class _Loaded(Mapping[str, Any]):
    """The commands, each imported when it is looked up."""

    def __init__(self, group: LazyGroup) -> None:
        self._group = group
        self._commands: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._commands:
            self._commands[name] = use_words(self._load(name))
        return self._commands[name]

    def _load(self, name: str) -> Any:
        module, attribute = self._group.table[name][0].split(".")
        target = getattr(self._group.load(module), attribute)
        holder = typer.Typer(rich_markup_mode=None)
        if isinstance(target, typer.Typer):
            for command in target.registered_commands:
                command.callback = _with_options(command.callback)
            if target.registered_callback is not None:
                target.registered_callback.callback = _with_options(target.registered_callback.callback)
            holder.add_typer(target, name=name)
        else:
            holder.command(name=name)(self._group.adapt(_with_options(target)))
        return get_group(holder).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._group.table)

    def __len__(self) -> int:
        return len(self._group.table)


def _with_options(command: Callable[..., Any] | None) -> Any:
    return client_config.add_option(expand_groups(command))
