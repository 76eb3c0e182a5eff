"""Only wire/ chooses the version of a Kafka message; everyone else takes the class from insync.wire.messages.

A handler that imported kio.schema.fetch.v16 while its peer speaks v17 would fail at run time only. Error codes and
primitive types have no version and may be imported anywhere.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

SOURCE = Path("src/insync")
PINNED = re.compile(r"kio\.schema\.\w+\.v\d+")


def check(source: str, path: str = "<source>") -> list[str]:
    """Imports of one versioned kio module, as `file:line: module`."""
    return [f"{path}:{line}: {module}" for line, module in _imports(source) if PINNED.match(module)]


def _imports(source: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return sorted(found)


def main(root: Path = SOURCE) -> int:
    outside = (path for path in sorted(root.rglob("*.py")) if path.relative_to(root).parts[0] != "wire")
    findings = [found for path in outside for found in check(path.read_text(encoding="utf-8"), str(path))]
    for found in findings:
        print(f"{found}: only wire/ picks message versions; import it from insync.wire.messages")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
