"""All mutations of the decision modules, and how one is put into the running program.

A mutation changes a function's code in place, so that a forked process can make it in a program that is already
imported: no module is loaded anew, and every reference to the function sees the change.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

from insync.sim.mutation.operators import Function, find_edits, find_functions

DECISION_PACKAGES = ("replication", "quorum", "controller", "storage", "groups")


@dataclass(frozen=True, slots=True)
class Mutation:
    module: str
    function: str
    """The qualified name."""
    index: int
    """Among the edits of the function."""
    operator: str
    line: int
    column: int
    digest: str
    """Of the function's source: results of another version do not count."""
    function_line: int
    """Where the function begins."""

    @property
    def key(self) -> str:
        return f"{self.module}:{self.function}:{self.digest}:{self.index}"

    @property
    def package(self) -> str:
        return self.module.split(".")[1]

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.operator}"


def list_modules(packages: Sequence[str] = DECISION_PACKAGES) -> list[str]:
    names = []
    for name in packages:
        package = importlib.import_module(f"insync.{name}")
        if hasattr(package, "__path__"):
            names += [module.name for module in pkgutil.walk_packages(package.__path__, f"insync.{name}.")]
        else:
            names.append(f"insync.{name}")
    return sorted(names)


def list_mutations(modules: Sequence[str]) -> Iterator[Mutation]:
    for module in modules:
        tree, source = _parse(module)
        for name, function in find_functions(tree):
            text = ast.get_source_segment(source, function) or ""
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            for index, edit in enumerate(find_edits(function)):
                yield Mutation(module, name, index, edit.operator, edit.line, edit.column, digest, first_line(function))


@cache
def _parse(module: str) -> tuple[ast.Module, str]:
    source = Path(module_file(module)).read_text()
    return ast.parse(source), source


@cache
def module_file(module: str) -> str:
    file = importlib.import_module(module).__file__
    assert file is not None
    return file


def compile_mutation(mutation: Mutation) -> CodeType:
    """The function's code with the error in it."""
    tree, _ = _parse(mutation.module)
    function = next(
        node
        for name, node in find_functions(tree)
        if (name, first_line(node)) == (mutation.function, mutation.function_line)
    )
    edit = list(find_edits(function))[mutation.index]
    edit.apply()
    try:
        compiled = compile(tree, module_file(mutation.module), "exec")
    finally:
        edit.undo()
    place = (module_file(mutation.module), mutation.function, mutation.function_line)
    return next(code for code in _codes(compiled) if place_of(code) == place)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@contextmanager
def applied(mutation: Mutation) -> Iterator[int]:
    """Within the context the program has the error; yields in how many functions (a decorator may have made copies)."""
    importlib.import_module(mutation.module)
    code = compile_mutation(mutation)
    functions = find_loaded_functions(code)
    originals = [function.__code__ for function in functions]
    for function in functions:
        function.__code__ = code
    try:
        yield len(functions)
    finally:
        for function, original in zip(functions, originals, strict=True):
            function.__code__ = original


def find_loaded_functions(code: CodeType) -> list[FunctionType]:
    """Those with the same place in the source. Frozen objects are not listed, and a Spark task freezes all modules'."""
    gc.unfreeze()
    functions = [item for item in gc.get_objects() if type(item) is FunctionType]
    return [function for function in functions if place_of(function.__code__) == place_of(code)]


def place_of(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def first_line(function: Function) -> int:
    """As code objects have it: decorators belong to the function."""
    return min(node.lineno for node in (function, *function.decorator_list))
