"""Leaves out the files with long tests, unless `make damage` tests every cell of the damage table."""

from __future__ import annotations

from tests.damage.damage_harness import FULL

collect_ignore_glob = [] if FULL else ["*_full.py"]
