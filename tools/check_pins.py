"""Only wire/ picks the versions of Kafka messages, and there is one table of APIs.

A handler that imported kio.schema.fetch.v16 while its peer speaks v17 would fail at run time only; it takes the class
from insync.wire.messages. Error codes and primitive types have no version and may be imported anywhere.

Keys, names and versions are in insync/wire/apis.py, handlers in insync/node/handlers.py and controller_apis.py. Another
collection, call or import that names many APIs, or a folder with a module for most of them, is a second list that
would have to be kept equal.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from insync.wire.apis import APIS
from problems import report

SOURCE = Path("src/insync")
PINNED = re.compile(r"kio\.schema\.\w+\.v\d+")
TABLES = ("wire/apis.py", "node/handlers.py", "node/controller_apis.py")
MOST_NAMES = 12
"""A few APIs may be treated alike, such as those with hand-written translations; more in one place are a list."""
MOST_MODULES = 20
"""APIs with logic have a module; a folder with more modules than this has forwarding ones."""


Listing = ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Call | ast.ImportFrom


def check_versions(source: str, path: str = "<source>") -> list[str]:
    """Imports of versioned kio modules, as `file:line: module`."""
    return [f"{path}:{line}: {module}" for line, module in _imports(source) if PINNED.match(module)]


def check_lists(source: str, path: str = "<source>") -> list[str]:
    """Places that name more APIs than MOST_NAMES, as `file:line: count`."""
    counts = [(node, _count_apis(node)) for node in ast.walk(ast.parse(source)) if isinstance(node, Listing)]
    return [f"{path}:{node.lineno}: {count} APIs" for node, count in counts if count > MOST_NAMES]


def check_folders(root: Path) -> list[str]:
    """Folders with more modules named after APIs than MOST_MODULES, as `folder: count`."""
    counts = [(folder, sum(path.stem in APIS for path in folder.glob("*.py"))) for folder in _folders(root)]
    return [f"{folder}: modules for {count} APIs" for folder, count in counts if count > MOST_MODULES]


def _folders(root: Path) -> list[Path]:
    return [root, *sorted(path for path in root.rglob("*") if path.is_dir())]


def _imports(source: str) -> list[tuple[int, str]]:
    imports: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return sorted(imports)


def _count_apis(node: Listing) -> int:
    if isinstance(node, ast.ImportFrom):
        return sum(alias.name in APIS for alias in node.names)
    items = node.keys if isinstance(node, ast.Dict) else node.args if isinstance(node, ast.Call) else node.elts
    return len({name.lower() for item in items if item is not None for name in _names(item) if name.lower() in APIS})


def _names(item: ast.expr) -> Iterator[str]:
    """What an item of a collection is called: a string, a name, or any part of a dotted name."""
    for node in ast.walk(item):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def main(root: Path = SOURCE) -> int:
    derive = "a second list of APIs; derive it from insync.wire.apis or insync.node.handlers"
    problems = [f"{place}: {derive}" for place in check_folders(root)]
    for path in sorted(root.rglob("*.py")):
        name, source = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        if not name.startswith("wire/"):
            problems += [
                f"{import_}: only wire/ picks message versions; import it from insync.wire.messages"
                for import_ in check_versions(source, str(path))
            ]
        if name not in TABLES:
            problems += [f"{place}: {derive}" for place in check_lists(source, str(path))]
    return report(problems)


if __name__ == "__main__":
    sys.exit(main())
