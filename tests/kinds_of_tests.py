"""What a test needs: nothing but this process (`unit`), other processes (`cluster`), or a Java runtime (`spark`).

The kind follows from the directory, the fixtures, and what the file and its helpers import. `make unit` runs the unit
tests, except those with the mark `slow`, within a minute. The tests' conftest.py fails a unit test that starts a
process after all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
TOOLS = TESTS.parent / "tools"

SPARK_DIRECTORIES = ("spark",)
CLUSTER_DIRECTORIES = ("interop", "damage", "chaos", "cluster")
SPARK_MODULES = ("pyspark",)
PROCESS_MODULES = (
    "subprocess",
    "multiprocessing",
    "insync.Cluster",
    "insync.chaos",
    "insync.cluster",
    "insync.server.local_cluster",
    "insync.server.supervisor",
    "insync.testing.Cluster",
)
PROCESS_FIXTURES = ("insync_cluster", "insync_session_cluster", "pytester")
SPARK_FIXTURES = ("spark", "master")

IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n]+)|import ([^\n]+))", re.MULTILINE)
NAME = re.compile(r"([\w.]+)(?: as \w+)?")


def kind_of_test(file: Path, fixtures: Collection[str] = ()) -> str:
    """unit, cluster or spark: by its directory, by its fixtures, and by what its file and its helpers import."""
    kind = _kind_of_file(file)
    if kind == "spark" or not set(fixtures).isdisjoint(SPARK_FIXTURES):
        return "spark"
    return "cluster" if not set(fixtures).isdisjoint(PROCESS_FIXTURES) else kind


@cache
def _kind_of_file(file: Path) -> str:
    directory = file.relative_to(TESTS).parts[0] if file.is_relative_to(TESTS) else ""
    modules = imports_of(file)
    if directory in SPARK_DIRECTORIES or _any_of(modules, SPARK_MODULES):
        return "spark"
    return "cluster" if directory in CLUSTER_DIRECTORIES or _any_of(modules, PROCESS_MODULES) else "unit"


@cache
def imports_of(file: Path) -> frozenset[str]:
    """Modules that a test file imports, itself or through helper modules of the tests."""
    modules = set(_direct_imports(file))
    for module in sorted(modules):
        path = module.split(".")
        helper = TESTS.parent.joinpath(*path) if path[0] == "tests" else TOOLS / path[0]
        if helper.with_suffix(".py").exists():
            modules |= imports_of(helper.with_suffix(".py"))
    return frozenset(modules)


def _direct_imports(file: Path) -> Iterator[str]:
    for module, names, modules in IMPORT.findall(file.read_text(encoding="utf-8")):
        if module:
            yield module
        for name in NAME.findall(names or modules):
            yield f"{module}.{name}" if module else name


def _any_of(modules: frozenset[str], wanted: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for module in modules for name in wanted)
