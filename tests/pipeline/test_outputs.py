"""Results go nowhere where they would cost somebody else's files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from insync.pipeline import lake, outputs
from insync.pipeline.lake import LakeError
from insync.pipeline.ledger import DIRECTORY
from insync.pipeline.outputs import OutputError
from insync.pipeline.report import page as report_page
from insync.pipeline.text import format_time, pluralize

PART = "part-00000-0b1c3a52-8f0e-4d36-9f53-6f3c6b8e9a01-c000.snappy.parquet"
COLUMNS = ("kind", "detail")


def an_output(path: Path, *columns: str) -> Path:
    path.mkdir()
    pq.write_table(pa.table({name: ["x"] for name in columns}), path / PART)
    for name in ("_SUCCESS", "._SUCCESS.crc", f".{PART}.crc"):
        (path / name).touch()
    return path


def test_an_earlier_output_a_new_and_an_empty_directory_may_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    own = an_output(tmp_path / "own", "detail", "kind")
    for place in (own, tmp_path / "empty", tmp_path / "new/deeper"):
        outputs.check_frame("--out", str(place), COLUMNS)
        outputs.check_frame("--out", f"file://{place}", COLUMNS)
    outputs.check_frame("--out", "s3://bucket/found", COLUMNS)


def test_a_directory_with_anything_else_in_it_is_refused_by_what_it_has(tmp_path: Path) -> None:
    beside, other, torn = (an_output(tmp_path / name, "kind", "detail") for name in ("beside", "other", "torn"))
    (beside / "notes.txt").write_text("mine")
    (torn / PART).write_bytes(b"PAR1")
    pq.write_table(pa.table({"kind": ["x"]}), other / PART)
    for place, told in ((beside, "notes.txt"), (other, PART), (torn, PART)):
        with pytest.raises(OutputError) as refused:
            outputs.check_frame("--out", str(place), COLUMNS)
        assert str(refused.value).startswith(f"--out {place}: the directory has '{told}' in it")


def test_a_file_is_no_place_for_a_directory_nor_is_anything_below_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        with pytest.raises(OutputError, match=f"--out {place}: .* is a file"):
            outputs.check_directory("--out", str(place))
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="results need a directory"):
        outputs.check_directory("--out", str(dangling))


def test_a_page_replaces_pages_and_empty_files_only(tmp_path: Path) -> None:
    page, empty, foreign = (tmp_path / name for name in ("page.html", "empty.html", "foreign.html"))
    page.write_text(report_page.page("Health", []))
    empty.touch()
    foreign.write_text("<!doctype html><p>mine")
    for place in (page, empty, tmp_path / "new.html"):
        outputs.check_page("--html", place)
    for place, told in (
        (foreign, "did not write"),
        (tmp_path, "that is a directory"),
        (tmp_path / "none/x.html", f"there is no directory {tmp_path / 'none'}"),
    ):
        with pytest.raises(OutputError, match=told):
            outputs.check_page("--html", place)


def test_files_of_a_lake_whose_ledger_is_gone_are_not_swept_away(tmp_path: Path) -> None:
    """Without its ledger, everything in a lake looks like an orphan."""
    file = tmp_path / f"topic=orders/date=2026-11-16/part-00000-{0:020d}-{9:020d}-abc-0-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_text("archived")
    for _ in range(2):
        with pytest.raises(LakeError, match="no ledger"):
            lake.Lake.open(tmp_path, {})
    assert file.read_text() == "archived"
    assert not (tmp_path / DIRECTORY).exists()
    with pytest.raises(LakeError, match="is a file"):
        lake.check_lake(file / "below")


def test_one_of_something_is_told_without_an_s() -> None:
    assert [pluralize(number, "file") for number in (0, 1, 2, 1000)] == ["0 files", "1 file", "2 files", "1,000 files"]
    assert [pluralize(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]
    assert (format_time(0), format_time(1 << 62)) == ("1970-01-01T00:00:00.000Z", str(1 << 62))
