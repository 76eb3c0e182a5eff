"""Runs code with another PYTHONHASHSEED, which changes the order of sets of strings."""

from __future__ import annotations

import os
import subprocess
import sys


def run_with_hash_seed(code: str, hash_seed: int) -> bytes:
    """The output of a new interpreter."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
