"""`make damage` tests every cell of the damage table; else the files with the long tests are left out."""

from __future__ import annotations

from damage_harness import FULL

collect_ignore_glob = [] if FULL else ["*_full.py"]
