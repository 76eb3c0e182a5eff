"""Options and marks of all tests.

`pytest --rewrite-golden` writes golden outputs instead of comparing them; review the diff.

Every test gets a mark that `-m` selects, by what it needs: `unit`, `cluster` or `spark` (see kinds_of_tests). A unit
test that starts a process fails.

With `-n`, what takes long begins first: tests with Spark, then those with clusters, and at the end unit tests, which
fill what time a process has left. A process gets whole files, and files of one `xdist_group` together, so that what a
module or a group shares (a cluster, a Spark session) is started once. pytest-xdist 3.8 also groups by that mark, but by
changing ids, which pytest 9.2 does not allow (pytest-dev/pytest-xdist#1386); without this each process started a Spark
session of its own.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.kinds_of_tests import CLUSTER_DIRECTORIES, SPARK_DIRECTORIES, TESTS, kind_of_test

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

OTHER_DIRECTORIES = [TESTS / name for name in (*CLUSTER_DIRECTORIES, *SPARK_DIRECTORIES)]
KINDS = ("spark", "cluster", "unit")
PROCESS_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn")
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Halves the CPU time of a Spark session that is used briefly: nothing runs long enough to be compiled better."""
GROUP = re.compile(r'^pytestmark = .*\bxdist_group\("([\w-]+)"\)', re.MULTILINE)


hypothesis.settings.register_profile("no-deadline", deadline=None)  # a busy machine must not fail a property
hypothesis.settings.load_profile("no-deadline")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden outputs instead of comparing them")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m unit...`, files of other kinds are not even imported: that would take longer than many unit tests."""
    expression: str = config.getoption("markexpr", "")
    if not expression.startswith("unit"):
        return None
    is_test_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if collection_path in OTHER_DIRECTORIES or (is_test_file and kind_of_test(collection_path) != "unit"):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(kind_of_test(item.path, getattr(item, "fixturenames", ())))
    if hasattr(config, "workerinput"):  # in a process of pytest-xdist
        items.sort(key=lambda item: KINDS.index(kind_of_test(item.path)))


class UnitTestGuard:
    """Fails a unit test that starts a process: it belongs to another kind, and `make unit` would be slow with it."""

    def __init__(self) -> None:
        self.unit_test: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.unit_test = item if item.get_closest_marker("unit") else None
        try:
            return (yield)
        finally:
            self.unit_test = None

    def on_audit_event(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in PROCESS_STARTS and self.unit_test is not None:
            raise RuntimeError(
                f"{self.unit_test.nodeid} is a unit test and starts a process ({event}). "
                "Import what starts it by a name that tests/kinds_of_tests.py knows."
            )


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_JVM)
    directory = tempfile.TemporaryDirectory(prefix="insync-tests-")  # clusters of this user are not those of the tests
    config.add_cleanup(directory.cleanup)
    os.environ["INSYNC_RUNTIME_DIR"] = directory.name
    guard = UnitTestGuard()
    config.pluginmanager.register(guard, "insync-unit-test-guard")
    sys.addaudithook(guard.on_audit_event)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return group_of(config.rootpath / nodeid.partition("::")[0])

    return GroupScheduling(config, log)


@cache
def group_of(file: Path) -> str:
    """The xdist_group of the file's mark, or the file itself."""
    mark = GROUP.search(file.read_text())
    return mark[1] if mark else str(file)
