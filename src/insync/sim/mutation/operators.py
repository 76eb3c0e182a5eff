"""The small errors that are made in a function: one change of its syntax tree each.

A condition is negated or loses a part, a comparison moves its bound, min and max or plus and minus change places, a
number is off by one, a statement is dropped (a value is kept, a write or a send is skipped), a result is replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef

SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
EXTREMES = {"min": "max", "max": "min"}
UNTOUCHED = frozenset({"__repr__", "__str__"})
"""Functions that only make text for people."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One error; `apply` makes it in the tree, `undo` takes it back."""

    operator: str
    line: int
    column: int
    apply: Callable[[], None]
    undo: Callable[[], None]


def find_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """(qualified name, function) of all functions of a module and its classes. What stands inside a function belongs
    to it."""
    yield from _functions(tree.body, "")


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, Function) and node.name not in UNTOUCHED:
            yield prefix + node.name, node


def find_edits(function: Function) -> Iterator[Edit]:
    """In the order of the source."""
    for statement in function.body:
        if not _is_docstring(statement):
            yield from _edits(statement)
    yield from _dropped_statements(function)


def _edits(node: ast.AST) -> Iterator[Edit]:
    yield from _of_node(node)
    for child in ast.iter_child_nodes(node):
        if not _is_annotation_of(node, child):
            yield from _edits(child)
    if not isinstance(node, ast.expr):
        yield from _dropped_statements(node)


def _of_node(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            yield _replace_field("negate condition", node.test, node, "test", _negated(node.test))
        case ast.BoolOp():
            neutral = isinstance(node.op, ast.And)
            for at, value in enumerate(node.values):
                kept = [*node.values[:at], ast.Constant(neutral), *node.values[at + 1 :]]
                yield _replace_field(f"drop part {at + 1} of condition", value, node, "values", kept)
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                swapped = SWAPPED[type(operator)]
                name = f"{type(operator).__name__} to {swapped.__name__}"
                yield _replace_field(name, node, node, "ops", [*node.ops[:at], swapped(), *node.ops[at + 1 :]])
        case ast.Call(func=ast.Name(id=("min" | "max") as name)):
            yield _replace_field(f"{name} to {EXTREMES[name]}", node, node.func, "id", EXTREMES[name])
        case ast.BinOp(op=ast.Add()):
            yield _replace_field("Add to Sub", node, node, "op", ast.Sub())
        case ast.BinOp(op=ast.Sub()):
            yield _replace_field("Sub to Add", node, node, "op", ast.Add())
        case ast.AugAssign(op=ast.Add()):
            yield _replace_field("Add to Sub", node, node, "op", ast.Sub())
        case ast.AugAssign(op=ast.Sub()):
            yield _replace_field("Sub to Add", node, node, "op", ast.Add())
        case ast.Constant(value=bool() as flag):
            yield _replace_field(f"{flag} to {not flag}", node, node, "value", not flag)
        case ast.Constant(value=int() as number):
            yield _replace_field("off by one", node, node, "value", number + 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            none = ast.IfExp(ast.Constant(False), value, ast.Constant(None))
            yield _replace_field("return None", node, node, "value", none)


def _dropped_statements(owner: ast.AST) -> Iterator[Edit]:
    """Statements with an effect of their own: without them a value is kept, or a write or a send is skipped.

    They stand in a branch that never runs: without them, a function would lose a variable of its closure (`super()`
    needs one), and its code could not be replaced.
    """
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(owner, name, None)
        if not isinstance(statements, list):
            continue
        for at, statement in enumerate(statements):
            if _has_effect(statement) and not _is_docstring(statement):
                never = ast.copy_location(ast.If(ast.Constant(False), [statement], []), statement)
                changed = [*statements[:at], never, *statements[at + 1 :]]
                what = type(statement).__name__.lower()
                yield _replace_field(f"drop {what}", statement, owner, name, changed)


def _has_effect(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.Return(value=None):
            return True
        case ast.Assign():
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets)
        case ast.AnnAssign(value=ast.expr()):
            return isinstance(statement.target, ast.Attribute)
    return False


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_annotation_of(node: ast.AST, child: ast.AST) -> bool:
    return child in (getattr(node, "annotation", None), getattr(node, "returns", None))


def _negated(test: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _replace_field(operator: str, at: ast.expr | ast.stmt, owner: ast.AST, name: str, value: object) -> Edit:
    original = getattr(owner, name)

    def apply() -> None:
        setattr(owner, name, value)
        ast.fix_missing_locations(owner)

    def undo() -> None:
        setattr(owner, name, original)

    return Edit(operator, at.lineno, at.col_offset, apply, undo)
