"""Why a node cannot start, for a reason that starting it again does not remove."""

from __future__ import annotations

CANNOT_START = 2
"""The exit code of a node that ends for such a reason. A supervisor does not start it again."""


class StartupError(Exception):
    """One sentence that names the file, directory or address, and one that says what to do."""
