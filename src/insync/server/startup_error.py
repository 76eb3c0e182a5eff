"""The error of a node that cannot start until an operator changes something."""

from __future__ import annotations

CANNOT_START = 2
"""The exit code of such a node. A supervisor does not restart it."""


class StartupError(Exception):
    """Its text names the file, directory or address, says what is wrong with it, and what to do."""
