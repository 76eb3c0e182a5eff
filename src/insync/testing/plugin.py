"""Fixtures for pytest: a cluster for one test, one for the whole session, and as many as a test wants.

    @pytest.mark.insync(brokers=3, topics={"orders": 6})
    def test_orders_survive_a_broker(insync_cluster): ...

When a test fails, its report shows what the nodes logged last. pytest imports this module in every session of everybody
who has insync installed: it imports nothing else until a fixture is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from insync.cluster.cluster import Cluster

MARKER = "insync"
WISHES = ("brokers", "controllers", "profile", "topics", "settings", "directory")
SHARED = "insync_session_cluster"

_made = pytest.StashKey["list[Cluster]"]()
_shared = pytest.StashKey["Cluster"]()


def pytest_configure(config: pytest.Config) -> None:
    names = ", ".join(f"{wish}=" for wish in WISHES)
    config.addinivalue_line("markers", f"{MARKER}({names}): the cluster that `insync_cluster` is in this test")


@pytest.fixture
def insync_cluster(request: pytest.FixtureRequest, insync_cluster_factory: Callable[..., Cluster]) -> Cluster:
    """A cluster of this test's own, as its `insync` markers want it: those of its class and module count too."""
    return insync_cluster_factory(**_wishes(request.node))


@pytest.fixture
def insync_cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """`factory(brokers=1, topics=["a"])`: a running cluster, which ends with the test."""
    from insync.cluster.cluster import Cluster

    made: list[Cluster] = request.node.stash.setdefault(_made, [])

    def make(**wishes: Any) -> Cluster:
        cluster = Cluster(**wishes)
        made.append(cluster)
        cluster.open()
        return cluster

    yield make
    for cluster in reversed(made):
        cluster.close()


@pytest.fixture(scope="session")
def insync_session_options() -> dict[str, Any]:
    """What `insync_session_cluster` is started with; to be overridden in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def insync_session_cluster(request: pytest.FixtureRequest, insync_session_options: dict[str, Any]) -> Iterator[Cluster]:
    """One cluster for all tests. After each test that uses it, whatever it broke is mended; its topics stay."""
    from insync.cluster.cluster import Cluster

    with Cluster(**insync_session_options) as cluster:
        request.config.stash[_shared] = cluster
        yield cluster
        del request.config.stash[_shared]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    cluster = item.config.stash.get(_shared, None)
    if cluster is not None and SHARED in getattr(item, "fixturenames", ()):
        cluster.mend()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for cluster in _clusters_of(item):
            report.sections += [
                (f"last lines of insync node {node}", cluster.last_lines_of(node)) for node in cluster.nodes
            ]
    return report


def _clusters_of(item: pytest.Item) -> list[Cluster]:
    """Those that the test was given, by these fixtures or its own, and those that it made."""
    module = sys.modules.get("insync.cluster.cluster")
    if module is None:
        return []
    given = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, module.Cluster)]
    return list(dict.fromkeys((*given, *item.stash.get(_made, []))))


def _wishes(node: pytest.Item) -> dict[str, Any]:
    """The marker nearest to the test has the last word about each wish."""
    wishes: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):
        unknown = [*map(repr, marker.args), *(key for key in marker.kwargs if key not in WISHES)]
        if unknown:
            raise pytest.UsageError(f"pytest.mark.{MARKER} takes {', '.join(WISHES)} by name, not {', '.join(unknown)}")
        wishes.update(marker.kwargs)
    return wishes
