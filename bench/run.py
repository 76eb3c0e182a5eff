"""All benchmarks, each in a process of its own: python bench/run.py [name...]

Numbers depend on the machine; what counts are the ratios within one run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("wire", "storage", "replication", "node_produce", "simulator", "scale")


def main() -> int:
    names = tuple(sys.argv[1:]) or BENCHMARKS
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)} (there are {', '.join(BENCHMARKS)})", file=sys.stderr)
        return 2
    failed = [name for name in names if not _run(name)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str) -> bool:
    print(f"\n== {name}", flush=True)
    return subprocess.run([sys.executable, Path(__file__).with_name(f"{name}.py")], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
