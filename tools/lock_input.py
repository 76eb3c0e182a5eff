"""Print every requirement of pyproject.toml, one a line: the input of `make lock`.

pip-compile reads a project's dependencies but not its dependency groups, so it gets all of them on its input.
"""

from __future__ import annotations

import tomllib
from pathlib import Path


def requirements(pyproject: str) -> list[str]:
    """The project's own dependencies, those of its extras and of all groups, in the file's order.

    Extras that name other extras (`insync[server]`) add nothing.
    """
    data = tomllib.loads(pyproject)
    name = data["project"].get("name", "")
    extras: dict[str, list[str]] = data["project"].get("optional-dependencies", {})
    groups: dict[str, list[str]] = data.get("dependency-groups", {})
    lines = [
        *data["project"]["dependencies"],
        *(line for section in (extras, groups) for lines in section.values() for line in lines),
    ]
    return [line for line in lines if not line.startswith(f"{name}[")]


if __name__ == "__main__":
    print("\n".join(requirements(Path("pyproject.toml").read_text(encoding="utf-8"))))
