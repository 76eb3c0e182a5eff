"""One place picks the version of each Kafka message."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_pins
import lock_input


@pytest.mark.parametrize(
    "source",
    [
        "from kio.schema.fetch.v17.request import FetchRequest\n",
        "import kio.schema.fetch.v17 as fetch\n",
        "from kio.schema.fetch import v17\n",
    ],
)
def test_an_import_of_a_versioned_message_is_found(source: str) -> None:
    assert len(check_pins.check(source, "a.py")) == 1


def test_error_codes_and_primitives_have_no_version() -> None:
    source = "from kio.schema.errors import ErrorCode\nfrom kio.static.primitive import i32\n"
    assert check_pins.check(source) == []


def test_wire_may_pick_versions_and_nobody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("wire", "node"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("from kio.schema.vote.v2.request import VoteRequest\n")
    assert check_pins.main(tmp_path) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path}/node/a.py:1: kio.schema.vote.v2.request.VoteRequest: ")


def test_the_lock_is_made_of_the_projects_dependencies_and_all_groups() -> None:
    pyproject = '[project]\ndependencies = ["a>=1"]\n[dependency-groups]\ndev = ["b"]\ndocs = ["c"]\n'
    assert lock_input.requirements(pyproject) == ["a>=1", "b", "c"]
