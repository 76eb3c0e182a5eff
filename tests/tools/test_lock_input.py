"""The lock pins everything that pyproject.toml asks for."""

from __future__ import annotations

import lock_input


def test_the_lock_has_the_dependencies_of_the_project_its_extras_and_its_groups() -> None:
    project = '[project]\nname = "own"\ndependencies = ["a>=1"]\n'
    extras = '[project.optional-dependencies]\nfast = ["d"]\nall = ["own[fast]"]\n'
    groups = '[dependency-groups]\ndev = ["b"]\ndocs = ["c"]\n'
    assert lock_input.requirements(project + extras + groups) == ["a>=1", "d", "b", "c"]
