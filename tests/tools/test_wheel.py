"""The wheel works when it is installed outside the clone."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import wheel_smoke


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_smoke.build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_runs_scenarios_and_a_cluster_with_and_without_uvloop(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel_smoke.use_wheel(wheel, tmp_path)
    _, _, scenario, *clusters = capsys.readouterr().out.splitlines()
    assert scenario.startswith("ok: everything is as expected")
    assert clusters == ["a cluster of three nodes survived the loss of a leader"] * 2


def test_the_wheel_has_types_and_scenarios_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "insync/py.typed" in names
    assert [name for name in names if name.endswith(".scenario")]
    assert {"insync/cli/documents/protocol/rules.md", "insync/cli/documents/wire.md"} <= set(names)
    assert {name.split("/")[0] for name in names if not name.startswith("insync-")} == {"insync", "pyspark_insync.py"}
