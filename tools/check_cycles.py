"""No module of src/insync imports itself through others, lazily and for type checkers included.

Two modules that need each other are one module, or need a third one below both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from import_graph import SOURCE, find_cycles, module_graph
from problems import report


def main(root: Path = SOURCE) -> int:
    return report([f"import cycle: {', '.join(cycle)}" for cycle in find_cycles(module_graph(root))])


if __name__ == "__main__":
    sys.exit(main())
