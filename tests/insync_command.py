"""The `insync` command in the process of the test, on one cluster."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from insync.cli.main import app


class InsyncCommand:
    def __init__(self, bootstrap: str, timeout_s: int) -> None:
        self._runner = CliRunner(env={"INSYNC_BOOTSTRAP": bootstrap, "COLUMNS": "200"})
        self._timeout_s = timeout_s

    def run(self, *arguments: str, stdin: str | None = None, timeout_s: int | None = None) -> Result:
        """Run a command that may fail."""
        timeout = str(self._timeout_s if timeout_s is None else timeout_s)
        return self._runner.invoke(app, [*arguments, "--timeout", timeout], input=stdin)

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command that must succeed, and return what it prints on stdout."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Any:
        """The value that a command prints with --json."""
        return json.loads(self(*arguments, "--json"))

    def json_lines(self, *arguments: str, stdin: str | None = None) -> list[Any]:
        """The values that a command prints with --json, one per line."""
        return [json.loads(line) for line in self(*arguments, "--json", stdin=stdin).splitlines()]
