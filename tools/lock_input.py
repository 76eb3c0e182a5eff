"""Print every requirement of pyproject.toml, one a line: what `make lock` pins.

pip-compile reads a project's dependencies but not its dependency groups, so both are handed to it on its input.
"""

from __future__ import annotations

import tomllib
from pathlib import Path


def requirements(pyproject: str) -> list[str]:
    """The project's own dependencies and those of all groups, in the file's order."""
    data = tomllib.loads(pyproject)
    groups: dict[str, list[str]] = data.get("dependency-groups", {})
    return [*data["project"]["dependencies"], *(line for group in groups.values() for line in group)]


if __name__ == "__main__":
    print("\n".join(requirements(Path("pyproject.toml").read_text(encoding="utf-8"))))
