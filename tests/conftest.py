"""`pytest --rewrite-golden` writes the golden outputs anew, to be reviewed as a diff.

With `-n`, a process gets whole files, and files with the same `xdist_group` all together: what a module or a group
shares (a cluster, Spark) is then started once. pytest-xdist 3.8 means to group by that mark too, by changing ids that
pytest 9.2 does not let it change (pytest-dev/pytest-xdist#1386), so both processes started a Spark of their own.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

GROUP = re.compile(r'^pytestmark = .*\bxdist_group\("([\w-]+)"\)', re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden outputs instead of comparing them")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(config.rootpath / nodeid.partition("::")[0])

    return Together(config, log)


@cache
def group_of(file: Path) -> str:
    """What its mark says, or the file itself."""
    found = GROUP.search(file.read_text())
    return found[1] if found else str(file)
