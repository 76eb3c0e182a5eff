"""Print every requirement of pyproject.toml, one a line: what `make lock` pins.

pip-compile reads a project's dependencies but not its dependency groups, so all are handed to it on its input.
"""

from __future__ import annotations

import tomllib
from pathlib import Path


def requirements(pyproject: str) -> list[str]:
    """The project's own dependencies, those of its extras and of all groups, in the file's order."""
    data = tomllib.loads(pyproject)
    extras: dict[str, list[str]] = data["project"].get("optional-dependencies", {})
    groups: dict[str, list[str]] = data.get("dependency-groups", {})
    return [
        *data["project"]["dependencies"],
        *(line for each in (extras, groups) for rest in each.values() for line in rest),
    ]


if __name__ == "__main__":
    print("\n".join(requirements(Path("pyproject.toml").read_text(encoding="utf-8"))))
