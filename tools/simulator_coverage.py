"""Lists the functions of the protocol that no simulated run executes.

    python tools/simulator_coverage.py [first:last] [--jobs N] [--all]

A property proves nothing about code that never runs. Functions are counted by their definitions in the source files of
the packages below; a function that cannot run in the simulator is named in `NOT_RUN` with the reason.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FrameType

SOURCE = Path("src/insync")
PACKAGES = ("replication", "quorum", "controller", "storage", "groups", "node")
TARGET_PERCENT = 95

NOT_RUN: dict[str, str] = {}
"""Path prefixes, `package/module.py` or `package/module.py:Class.function`, and why no run reaches them."""


def defined_functions(root: Path = SOURCE) -> dict[str, tuple[str, int]]:
    """Every function with a body, as `package/module.py:Class.name`, and where it starts."""
    functions: dict[str, tuple[str, int]] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root).as_posix()
            for name, line in _functions(ast.parse(path.read_text()), ""):
                functions[f"{relative}:{name}"] = (relative, line)
    return functions


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            is_protocol = any(isinstance(base, ast.Name) and base.id == "Protocol" for base in child.bases)
            yield from () if is_protocol else _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _is_empty(child):
                first = child.decorator_list[0].lineno if child.decorator_list else child.lineno
                yield f"{prefix}{child.name}", first
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _is_empty(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Only a docstring, `...`, `pass` or NotImplementedError: a declaration."""
    for statement in function.body:
        is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        raises = isinstance(statement, ast.Raise) and "NotImplementedError" in ast.dump(statement)
        if not (is_constant or raises or isinstance(statement, ast.Pass)):
            return False
    return True


def run_seeds(seeds: Sequence[int], root: str) -> set[tuple[str, int]]:
    """The functions, as (path, first line), that these seeds execute."""
    from insync.sim.run import run_seed

    seen: set[tuple[str, int]] = set()
    codes: dict[CodeType, None] = {}

    def on_call(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code not in codes:
            codes[code] = None
            if code.co_filename.startswith(root):
                seen.add((code.co_filename[len(root) + 1 :], code.co_firstlineno))

    sys.setprofile(on_call)
    try:
        for seed in seeds:
            run_seed(seed)
    finally:
        sys.setprofile(None)
    return seen


def is_excused(name: str) -> str | None:
    return next((reason for prefix, reason in NOT_RUN.items() if name.startswith(prefix)), None)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("seeds", nargs="?", default="0:200", help="the seeds to run, first:last")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--all", action="store_true", help="also list the functions that are excused, with the reason")
    options = parser.parse_args(arguments)
    first, last = map(int, options.seeds.split(":"))
    root = str(SOURCE.resolve())
    chunks = [range(start, min(start + 5, last)) for start in range(first, last, 5)]
    executed: set[tuple[str, int]] = set()
    with get_context("spawn").Pool(options.jobs) as pool:
        for seen in pool.imap_unordered(partial(run_seeds, root=root), chunks):
            executed |= seen
    return report(defined_functions(), executed, list_excused=options.all)


def report(functions: dict[str, tuple[str, int]], executed: set[tuple[str, int]], *, list_excused: bool) -> int:
    """Print what did not run, and the share of each package; 1 if a package is below the target."""
    is_below = False
    for package in PACKAGES:
        names = [name for name in functions if name.startswith(f"{package}/")]
        counted = [name for name in names if is_excused(name) is None]
        missing = [name for name in counted if functions[name] not in executed]
        for name in missing:
            print(f"not run: {name}")
        if list_excused:
            for name in names:
                if is_excused(name) is not None and functions[name] not in executed:
                    print(f"excused: {name}: {is_excused(name)}")
        percent = 100 * (len(counted) - len(missing)) / max(1, len(counted))
        is_below |= percent < TARGET_PERCENT
        print(f"{package}: {len(counted) - len(missing)} of {len(counted)} functions run ({percent:.1f} %)")
    return int(is_below)


if __name__ == "__main__":
    sys.exit(main())
