"""No module of src/insync imports itself through others, lazily and for type checkers included.

Two modules that need each other are one module, or need a third one below both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from import_graph import SOURCE, find_cycles, module_graph


def main(root: Path = SOURCE) -> int:
    cycles = find_cycles(module_graph(root))
    for cycle in cycles:
        print(f"import cycle: {', '.join(cycle)}")
    return 1 if cycles else 0


if __name__ == "__main__":
    sys.exit(main())
