"""Fixtures for pytest: a cluster for one test, one for the whole session, and a factory for any number of them.

    @pytest.mark.insync(brokers=3, topics={"orders": 6})
    def test_orders_survive_a_broker(insync_cluster): ...

When a test fails, its report shows what the nodes logged during the test. pytest imports this module in every session
wherever insync is installed, so it imports nothing else until a fixture is used.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from insync.cluster.cluster import Cluster

MARKER = "insync"
OPTIONS = ("brokers", "controllers", "profile", "topics", "settings", "directory", "security", "users")
SHARED = "insync_session_cluster"

MAX_LINES = 20
"""Of a node's log in the report of a failed test."""

_clusters = pytest.StashKey["list[Cluster]"]()
_log_sizes = pytest.StashKey["dict[tuple[int, int], int]"]()
"""When the test began, by the cluster's identity and node."""
_shared = pytest.StashKey["Cluster"]()


def pytest_configure(config: pytest.Config) -> None:
    names = ", ".join(f"{option}=" for option in OPTIONS)
    config.addinivalue_line("markers", f"{MARKER}({names}): options of this test's `insync_cluster`")


@pytest.fixture
def insync_cluster(request: pytest.FixtureRequest, insync_cluster_factory: Callable[..., Cluster]) -> Cluster:
    """A cluster for this test alone, with the options of the `insync` markers of the test, its class and its module."""
    return insync_cluster_factory(**_marker_options(request.node))


@pytest.fixture
def insync_cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """`factory(brokers=1, topics=["a"])` returns a running cluster, which is closed at the end of the test."""
    from insync.cluster.cluster import Cluster

    clusters: list[Cluster] = request.node.stash.setdefault(_clusters, [])

    def make(**options: Any) -> Cluster:
        cluster = Cluster(**options)
        clusters.append(cluster)
        cluster.open()
        return cluster

    yield make
    for cluster in reversed(clusters):
        cluster.close()


@pytest.fixture(scope="session")
def insync_session_options() -> dict[str, Any]:
    """The options of `insync_session_cluster`; override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def insync_session_cluster(request: pytest.FixtureRequest, insync_session_options: dict[str, Any]) -> Iterator[Cluster]:
    """One cluster for all tests. After each test that uses it, its faults are undone; topics stay."""
    from insync.cluster.cluster import Cluster

    with Cluster(**insync_session_options) as cluster:
        request.config.stash[_shared] = cluster
        yield cluster
        del request.config.stash[_shared]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_log_sizes] = {
        (id(cluster), node): log.stat().st_size
        for cluster in _clusters_of(item)
        for node in cluster.nodes
        if (log := cluster.log_of(node)).exists()
    }
    yield


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
            report.sections += _log_sections(item, cluster)
    return report


def _log_sections(item: pytest.Item, cluster: Cluster) -> list[tuple[str, str]]:
    """What each node has logged since the test began; of a node that logged nothing, no section."""
    sizes, sections = item.stash.get(_log_sizes, {}), []
    for node in cluster.nodes:
        log = cluster.log_of(node)
        with log.open("rb") if log.exists() else io.BytesIO() as stream:
            stream.seek(sizes.get((id(cluster), node), 0))
            lines = stream.read().decode(errors="replace").splitlines()
        if lines:
            which = f"the last {MAX_LINES} of {len(lines)} lines" if len(lines) > MAX_LINES else "lines"
            sections.append((f"{which} of insync node {node} during this test", "\n".join(lines[-MAX_LINES:])))
    return sections


def _clusters_of(item: pytest.Item) -> list[Cluster]:
    """The clusters among the test's fixtures, and those it made with the factory."""
    module = sys.modules.get("insync.cluster.cluster")
    if module is None:
        return []
    fixtures = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, module.Cluster)]
    return list(dict.fromkeys((*fixtures, *item.stash.get(_clusters, []))))


def _marker_options(node: pytest.Item) -> dict[str, Any]:
    """For each option, the marker nearest to the test wins."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):
        unknown = [*map(repr, marker.args), *(key for key in marker.kwargs if key not in OPTIONS)]
        if unknown:
            raise pytest.UsageError(
                f"pytest.mark.{MARKER} takes {', '.join(OPTIONS)} by name, not {', '.join(unknown)}"
            )
        options.update(marker.kwargs)
    return options
