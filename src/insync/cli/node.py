"""`insync node FILE`: run one node."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def node(file: Annotated[Path, typer.Argument(help="Properties file, with Kafka's key names.")]) -> None:
    """Run one node until SIGTERM or Ctrl-C, which shut it down cleanly."""
    # Replaces this process, whose command-line modules would cost every node memory.
    os.execv(sys.executable, [sys.executable, "-m", "insync.server", str(file)])
