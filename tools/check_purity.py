"""Keep clocks, sockets, randomness, files and hash order out of the protocol.

The core takes the time as an argument, its randomness from its constructor and its files through a Disk; that is why a
simulator can run the very same code, and why one seed always gives one trace. This reads the core's syntax trees and
names every place that breaks the rule, as `file:line: what: why`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from problems import report

SOURCE = Path("src/insync")
CORE = (
    "wire", "storage", "metadata", "replication", "quorum", "controller", "groups", "node", "properties",
    "sansio.py", "errors.py",
)  # fmt: skip
OUTSIDE = ("storage/posix.py",)  # the one file of the core that may touch a real disk

CLOCK = "the time is an argument (now)"
NETWORK = "traffic leaves through the Outbox"
CONCURRENCY = "a step runs alone; work off the loop is a Sync effect"
FILES = "files are reached through a Disk"
RANDOM = "randomness is a random.Random given to the constructor"
PRINT = "say it with Outbox.note"

MODULES = {
    "time": CLOCK, "socket": NETWORK, "ssl": NETWORK, "select": NETWORK, "selectors": NETWORK,
    "asyncio": CONCURRENCY, "threading": CONCURRENCY, "concurrent": CONCURRENCY, "multiprocessing": CONCURRENCY,
    "queue": CONCURRENCY, "signal": CONCURRENCY, "subprocess": CONCURRENCY,
    "os": FILES, "shutil": FILES, "tempfile": FILES, "pathlib": FILES, "mmap": FILES, "secrets": RANDOM,
}  # fmt: skip
NAMES = {
    "datetime.datetime.now": CLOCK, "datetime.datetime.utcnow": CLOCK, "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK, "uuid.uuid1": RANDOM, "uuid.uuid4": RANDOM, "io.open": FILES, "io.FileIO": FILES,
}  # fmt: skip
CALLS = {
    "open": FILES, "print": PRINT, "input": PRINT, "id": "an address differs from run to run",
    "hash": "the hash of a string differs from run to run",
}  # fmt: skip

SETS = ("set", "frozenset", "AbstractSet", "MutableSet")
SET_METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")
ORDER_FREE = ("sorted", "len", "min", "max", "sum", "any", "all", "set", "frozenset")
KEEP_ORDER = (
    "list",
    "tuple",
    "iter",
    "enumerate",
    "zip",
    "map",
    "filter",
    "reversed",
    "next",
    "fromkeys",
    "join",
    "extend",
)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    path: str
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}: {self.why}"


def check(source: str, path: str = "<source>") -> list[Finding]:
    """Every place in one core file that could make two runs differ or reach outside."""
    visitor = _Visitor(path, ast.parse(source))
    return sorted(visitor.findings)


def core_files(root: Path = SOURCE) -> Iterator[Path]:
    """The core's files, in a stable order."""
    outside = [root / name for name in OUTSIDE]
    for name in CORE:
        paths = [root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py"))
        yield from (path for path in paths if path.exists() and path not in outside)


class _Visitor(ast.NodeVisitor):
    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.findings: set[Finding] = set()
        self.origins: dict[str, str] = {}  # local name -> where it was imported from
        self.set_attributes = _set_attributes(tree)
        self.set_names: list[set[str]] = [_set_names(tree)]
        self.order_free: set[int] = set()  # generators whose reader does not care for order
        self.in_hash = False
        self.visit(tree)

    def report(self, node: ast.AST, what: str, why: str) -> None:
        self.findings.add(Finding(self.path, getattr(node, "lineno", 0), what, why))

    # --- imports ---

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.origins[alias.asname or alias.name.split(".")[0]] = (
                alias.name if alias.asname else alias.name.split(".")[0]
            )
            self._imported(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level:
            return
        if module.split(".")[0] in MODULES:
            self._imported(node, module)
            return
        for alias in node.names:
            dotted = f"{module}.{alias.name}"
            self.origins[alias.asname or alias.name] = dotted
            self._named(node, dotted)

    def _imported(self, node: ast.AST, module: str) -> None:
        why = MODULES.get(module.split(".")[0])
        if why:
            self.report(node, f"import of {module}", why)

    # --- uses ---

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = self._dotted(node)
        if dotted:
            self._named(node, dotted)
        self.generic_visit(node)

    def _named(self, node: ast.AST, dotted: str) -> None:
        if dotted in NAMES:
            self.report(node, dotted, NAMES[dotted])
        elif dotted.startswith("random.") and dotted != "random.Random":
            self.report(node, dotted, RANDOM)

    def _dotted(self, node: ast.expr) -> str | None:
        """The full name of `a.b.c` when `a` was imported."""
        if isinstance(node, ast.Name):
            return self.origins.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._dotted(node.value)
            return f"{base}.{node.attr}" if base else None
        return None

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name in CALLS and name not in self.origins and not (name == "hash" and self.in_hash):
            self.report(node, f"{name}()", CALLS[name])
        if self._dotted(node.func) == "random.Random":
            self.report(node, "Random()", RANDOM)
        called = name or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        if called in ORDER_FREE:
            self.order_free.update(id(arg) for arg in node.args)
        if called in KEEP_ORDER:
            for argument in node.args:
                self._iterated(argument)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.report(node, "assert", "it vanishes under python -O; raise InvariantError with the property's name")
        self.generic_visit(node)

    # --- the order of sets ---

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self.in_hash = self.in_hash, node.name == "__hash__"
        self.set_names.append(_set_names(node))
        self.generic_visit(node)
        self.set_names.pop()
        self.in_hash = outer

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.report(node, "async def", CONCURRENCY)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._iterated(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._iterated(node.value)
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp) -> None:
        if id(node) not in self.order_free:
            for part in node.generators:
                self._iterated(part.iter)
        self.generic_visit(node)

    def _iterated(self, node: ast.expr) -> None:
        if self._is_set(node):
            self.report(node, "iteration over a set", "its order is the hash's; use sorted(), a tuple or a dict")

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.set_names[-1]
        if isinstance(node, ast.Attribute):
            return node.attr in self.set_attributes
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            return self._is_set(node.left) or self._is_set(node.right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in SET_METHODS and self._is_set(node.func.value)
        return _makes_set(node)


def _makes_set(node: ast.expr | None) -> bool:
    """A set literal, a set comprehension, set(...) or frozenset(...)."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


def _is_set_type(annotation: ast.expr | None) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    return name in SETS


def _set_attributes(tree: ast.Module) -> set[str]:
    """Attributes that this file annotates as sets, or only ever assigns sets to."""
    sets, others = _assigned(ast.walk(tree), lambda target: target.attr if isinstance(target, ast.Attribute) else None)
    return sets - others


def _set_names(scope: ast.Module | ast.FunctionDef) -> set[str]:
    """Local names of this scope, parameters included, that hold nothing but sets."""
    sets, others = _assigned(_own_nodes(scope), lambda target: target.id if isinstance(target, ast.Name) else None)
    if isinstance(scope, ast.FunctionDef):
        for argument in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs):
            (sets if _is_set_type(argument.annotation) else others).add(argument.arg)
    return sets - others


def _assigned(nodes: Iterable[ast.AST], name_of: Callable[[ast.expr], str | None]) -> tuple[set[str], set[str]]:
    """The targets of assignments that `name_of` names: those that get sets, and those that get anything else."""
    sets: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and (name := name_of(node.target)) is not None:
            (sets if _is_set_type(node.annotation) else others).add(name)
        elif isinstance(node, ast.Assign):
            names = [name for target in node.targets if (name := name_of(target)) is not None]
            (sets if _makes_set(node.value) else others).update(names)
    return sets, others


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of one scope, without those of the functions and classes inside it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield child
            yield from _own_nodes(child)


def main(root: Path = SOURCE) -> int:
    findings = [finding for path in core_files(root) for finding in check(path.read_text(encoding="utf-8"), str(path))]
    exit_code = report(findings)
    if findings:
        print(f"\n{len(findings)} places where the core reaches outside or depends on hash order.")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
