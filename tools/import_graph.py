"""Which module of src/insync imports which: read from the syntax trees, so nothing is run.

Every import counts, also one inside a function or behind TYPE_CHECKING: the reader of a module needs what it imports,
whenever Python does. `from insync.wire import batch` is an import of the module `insync.wire.batch`; it is an import of
the package `insync.wire` only if `batch` is a name that the package's `__init__` defines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path("src/insync")
Graph = dict[str, set[str]]


def read_modules(root: Path = SOURCE) -> dict[str, Path]:
    """The modules under `root` by their dotted names."""
    modules: dict[str, Path] = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def module_graph(root: Path = SOURCE) -> Graph:
    """Module -> the modules under `root` that it imports."""
    modules = read_modules(root)
    return {
        module: {imported for imported in _imports(module, path, modules) if imported != module}
        for module, path in modules.items()
    }


def package_graph(graph: Mapping[str, set[str]]) -> Graph:
    """The same for what lies directly under the root: packages, and modules that are in no package."""
    packages: Graph = {package_of(module): set() for module in graph}
    for module, imported in graph.items():
        packages[package_of(module)] |= {package_of(other) for other in imported} - {package_of(module)}
    return packages


def package_of(module: str) -> str:
    """`insync.wire.batch` -> `wire`; the root itself keeps its name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def find_cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan's strongly connected components), sorted."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            at = stack.index(node)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                cycles.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(cycles)


def _imports(module: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                if name in modules or base in modules:
                    yield name if name in modules else base


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parent = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parent, *([node.module] if node.module else [])])
