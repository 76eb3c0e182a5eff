"""Draw ARCHITECTURE.md's picture of the packages from the imports.

    python tools/draw_architecture.py            # print it
    python tools/draw_architecture.py --write    # put it between the markers in ARCHITECTURE.md

A line is a package and the packages that it imports; those that these import anyway are left out, so that the picture
shows each dependency once. Lines are in layers: a package imports only what stands below it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from import_graph import SOURCE, Graph, find_cycles, module_graph, package_graph
from written_block import WrittenBlock

BLOCK = WrittenBlock(Path("ARCHITECTURE.md"), "packages", "draw_architecture.py")
WIDTH = 100


class ArchitectureError(Exception):
    """The picture cannot be drawn."""


def draw(root: Path = SOURCE) -> str:
    """The picture as a Markdown block."""
    graph = package_graph(module_graph(root))
    shared = sorted(package for package in graph if (root / f"{package}.py").exists())
    packages = {
        package: imported - set(shared)
        for package, imported in graph.items()
        if package not in shared and (package != root.name or imported - set(shared))
    }
    packages = {package: imported & set(packages) for package, imported in packages.items()}
    cycles = find_cycles(packages)
    if cycles:
        raise ArchitectureError(f"packages import each other: {'; '.join(', '.join(cycle) for cycle in cycles)}")
    return "\n".join(["```", *_lines(packages), "", *_shared_lines(shared), "```"])


def _lines(packages: Graph) -> list[str]:
    reduced = {package: _direct(package, packages) for package in packages}
    levels = {package: _level(package, packages) for package in packages}
    width = max(map(len, packages), default=0)
    lines: list[str] = []
    for package in sorted(packages, key=lambda name: (-levels[name], name)):
        line = f"{package:<{width}}  →"
        for imported in sorted(reduced[package], key=lambda name: (-levels[name], name)):
            line += f"  {imported}"
        lines.append(line if reduced[package] else package)
    return lines


def _shared_lines(shared: list[str]) -> list[str]:
    lines = ["shared by all, in no package:"] if shared else []
    for name in shared:
        if len(lines) == 1 or len(f"{lines[-1]}  {name}") > WIDTH:
            lines.append(f"  {name}")
        else:
            lines[-1] += f"  {name}"
    return lines


def _direct(package: str, packages: Graph) -> set[str]:
    """What `package` imports, without what is reached through the others."""
    imported = packages[package]
    return {other for other in imported if not any(other in _reached(third, packages) for third in imported - {other})}


def _reached(package: str, packages: Graph) -> set[str]:
    reached = set(packages[package])
    for other in packages[package]:
        reached |= _reached(other, packages)
    return reached


def _level(package: str, packages: Mapping[str, set[str]]) -> int:
    return 1 + max((_level(other, packages) for other in packages[package]), default=0)


def main(root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write the picture into {BLOCK.document}")
    arguments = parser.parse_args()
    picture = draw(root / SOURCE)
    if arguments.write:
        BLOCK.write(picture, root)
    else:
        print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
