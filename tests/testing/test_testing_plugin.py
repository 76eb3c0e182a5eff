"""The fixtures as a user's test suite uses them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import insync.cluster.cluster  # noqa: F401  loaded once for all suites that run here

pytest_plugins = ["pytester"]


def test_markers_configure_the_cluster_and_a_failing_test_shows_the_logs(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.insync(brokers=3, topics={"orders": 3})

        @pytest.mark.insync(brokers=1)
        def test_the_nearest_marker_wins(insync_cluster):
            assert list(insync_cluster.nodes) == [1]
            assert insync_cluster.leader_of("orders", 2) == 1

        def test_fails(insync_cluster_factory):
            assert insync_cluster_factory(brokers=1).bootstrap == ""

        @pytest.mark.insync(brokers=1, topics=["first"])
        def test_fails_after_the_start(insync_cluster):
            insync_cluster.create_topic("second")
            insync_cluster.restart(1)
            assert False

        @pytest.mark.insync(3, broker=1)
        def test_has_a_wrong_marker(insync_cluster): ...
        """
    )
    result = pytester.runpytest_inprocess("--strict-markers")
    result.assert_outcomes(passed=1, failed=2, errors=1)
    result.stdout.fnmatch_lines(["*pytest.mark.insync takes brokers, * by name, not 3, broker*"])
    result.stdout.fnmatch_lines(["*lines of insync node 1 during this test*", "*node=1 event=started*"])
    assert result.stdout.str().count("event=started") == 2  # not that of the start before the test


def test_the_session_cluster_is_mended_after_each_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def insync_session_options():
            return {"brokers": 1, "topics": ["kept"]}
        """
    )
    pytester.makepyfile(
        """
        def test_breaks_the_node(insync_session_cluster):
            insync_session_cluster.fill_disk(1)
            insync_session_cluster.kill(1)

        def test_finds_it_running(insync_session_cluster):
            assert insync_session_cluster.wait_for_leader("kept") == 1
            insync_session_cluster.create_topic("new")
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


def test_loading_the_plugin_imports_nothing_else() -> None:
    """Every pytest session imports it wherever insync is installed."""
    script = (
        "import sys, insync.testing.plugin; print(*(m for m in sys.modules if m.split('.')[0] in ('insync', 'kio')))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert sorted(loaded.split()) == ["insync", "insync.testing", "insync.testing.plugin", "insync.version"]
