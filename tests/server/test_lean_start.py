"""What a process imports at its start: most of the time to the first write of a new cluster."""

from __future__ import annotations

import subprocess
import sys

LIST = "import sys; print(*sys.modules, sep='\\n')"


def modules_after(code: str) -> set[str]:
    hidden = "import sys; sys.modules['hypothesis'] = None"  # as `python -m insync.server` does
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}\n{code}\n{LIST}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_node_imports_messages_when_it_first_uses_them() -> None:
    loaded = modules_after("import insync.server.process")
    schemas = sorted(
        name for name in loaded if name.startswith("kio.schema.") and name.endswith((".request", ".response"))
    )
    assert {name.split(".")[2] for name in schemas} <= {"api_versions", "fetch", "produce"}


def test_a_node_does_not_import_the_command_line() -> None:
    loaded = modules_after("import insync.server.process")
    assert "insync.node.node" in loaded
    assert not loaded & {"prometheus_client", "typer", "rich", "insync.cli", "insync.client", "insync.sim"}


def test_starting_a_local_cluster_does_not_import_a_node() -> None:
    loaded = modules_after("import insync.server.local_cluster")
    assert not loaded & {"kio", "insync.node", "asyncio", "uvloop"}
