"""One place picks the version of each Kafka message, and there is one list of APIs."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_pins
from insync.wire.apis import APIS


@pytest.mark.parametrize(
    "source",
    [
        "from kio.schema.fetch.v17.request import FetchRequest\n",
        "import kio.schema.fetch.v17 as fetch\n",
        "from kio.schema.fetch import v17\n",
    ],
)
def test_an_import_of_a_versioned_message_is_reported(source: str) -> None:
    assert len(check_pins.check_versions(source, "a.py")) == 1


def test_error_codes_and_primitives_have_no_version() -> None:
    source = "from kio.schema.errors import ErrorCode\nfrom kio.static.primitive import i32\n"
    assert check_pins.check_versions(source) == []


def test_only_wire_may_pick_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("wire", "node"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("from kio.schema.vote.v2.request import VoteRequest\n")
    assert check_pins.main(tmp_path) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path}/node/a.py:1: kio.schema.vote.v2.request.VoteRequest: ")


NAMES = list(APIS)[: check_pins.MOST_NAMES + 1]


@pytest.mark.parametrize(
    "source",
    [
        f"NAMES = {NAMES}",
        f"TABLE = {dict.fromkeys(NAMES)}",
        f"TABLE = {{{', '.join(f'keys.{name.upper()}: None' for name in NAMES)}}}",
        f"TABLE = by_key({', '.join(f'apis.{name}' for name in NAMES)})",
        f"from messages import {', '.join(NAMES)}",
    ],
)
def test_a_second_list_of_apis_is_reported(source: str) -> None:
    (place,) = check_pins.check_lists(source, "a.py")
    assert place == f"a.py:1: {len(NAMES)} APIs"
    assert check_pins.check_lists(source.replace(NAMES[0], "other").replace(NAMES[0].upper(), "OTHER")) == []


def test_a_folder_with_a_module_for_most_apis_is_reported(tmp_path: Path) -> None:
    for name in list(APIS)[: check_pins.MOST_MODULES]:
        (tmp_path / f"{name}.py").write_text("")
    assert check_pins.main(tmp_path) == 0
    (tmp_path / f"{list(APIS)[-1]}.py").write_text("")
    assert check_pins.main(tmp_path) == 1
