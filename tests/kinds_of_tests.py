"""What a test needs: nothing but this process (`unit`), other processes (`cluster`), or a Java runtime (`spark`).

The kind follows from the directory, the fixtures, and what the file and its helpers import. `make unit` runs the unit
tests, except those with the mark `slow`, within a minute.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent

SPARK_DIRECTORIES = ("spark",)
CLUSTER_DIRECTORIES = ("interop", "damage", "chaos", "cluster")
SPARK_MODULES = ("pyspark",)
PROCESS_MODULES = (
    "subprocess",
    "multiprocessing",
    "insync.cluster",
    "insync.chaos",
    "insync.server.local_cluster",
    "insync.server.supervisor",
)
PROCESS_FIXTURES = ("insync_cluster", "insync_session_cluster", "pytester")
SPARK_FIXTURES = ("spark", "master")


def kind_of_test(file: Path, fixtures: Collection[str] = ()) -> str:
    """unit, cluster or spark: by its directory, by its fixtures, and by what its file and its helpers import."""
    directory = file.relative_to(TESTS).parts[0] if file.is_relative_to(TESTS) else ""
    modules = imports_of(file)
    if directory in SPARK_DIRECTORIES or _any_of(modules, SPARK_MODULES) or set(fixtures) & set(SPARK_FIXTURES):
        return "spark"
    if directory in CLUSTER_DIRECTORIES or _any_of(modules, PROCESS_MODULES) or set(fixtures) & set(PROCESS_FIXTURES):
        return "cluster"
    return "unit"


@cache
def imports_of(file: Path) -> frozenset[str]:
    """Modules that a test file imports, itself or through helper modules of the tests."""
    modules = set(_direct_imports(file))
    for module in sorted(modules):
        helper = TESTS.parent.joinpath(*module.split(".")).with_suffix(".py")
        if module.startswith("tests.") and helper.exists():
            modules |= imports_of(helper)
    return frozenset(modules)


def _direct_imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _any_of(modules: frozenset[str], wanted: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for module in modules for name in wanted)
