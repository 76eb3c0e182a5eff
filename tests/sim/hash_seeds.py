"""Whether code depends on the order in which sets and dicts of strings are iterated."""

from __future__ import annotations

import os
import subprocess
import sys


def run_with_hash_seed(code: str, hash_seed: int) -> bytes:
    """What a new interpreter prints."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
