"""No module of src/insync imports itself through others, lazily and for type checkers included.

Two modules that need each other are one module, or need a third one below both. KNOWN names the packages that still
have cycles; it may only become shorter.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from import_graph import SOURCE, find_cycles, module_graph, package_of

KNOWN: tuple[str, ...] = ()


def main(root: Path = SOURCE, known: Collection[str] = KNOWN) -> int:
    remaining = set(known)
    new: list[str] = []
    for cycle in find_cycles(module_graph(root)):
        packages = {package_of(module) for module in cycle}
        remaining -= packages
        if not packages <= set(known):
            new.append(f"import cycle: {', '.join(cycle)}")
    for line in new:
        print(line)
    for package in sorted(remaining):
        print(f"note: {package} has no import cycle any more: remove it from KNOWN in tools/check_cycles.py")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
