"""`insync` without a command lists all commands without loading them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.main import get_group

from insync.cli.main import COMMANDS, app


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_exists_and_has_the_help_text_of_the_list(name: str) -> None:
    group = get_group(app)
    command = group.get_command(typer.Context(group), name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(1_000) == COMMANDS[name][1]


def test_the_list_of_commands_is_printed_without_loading_them() -> None:
    print_modules = "import atexit, sys; atexit.register(lambda: print(*sys.modules, sep='\\n'))"
    code = f"{print_modules}; from insync.cli.main import app; app(['--help'])"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, _, loaded = completed.stdout.partition("sys\n")
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert not {"insync.cli.sim", "insync.cli.up", "insync.wire", "kio"} & set(loaded.split())
