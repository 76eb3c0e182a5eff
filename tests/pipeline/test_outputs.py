"""Results never overwrite files that the command did not write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from insync.lake import directory
from insync.lake.ledger import DIRECTORY
from insync.lake.store import LakeError
from insync.pipeline import outputs
from insync.pipeline.outputs import OutputError
from insync.pipeline.report import page as report_page
from insync.pipeline.text import format_time, pluralize

PART = "part-00000-0b1c3a52-8f0e-4d36-9f53-6f3c6b8e9a01-c000.snappy.parquet"
COLUMNS = ("kind", "detail")


def write_output(path: Path, *columns: str) -> Path:
    path.mkdir()
    pq.write_table(pa.table({name: ["x"] for name in columns}), path / PART)
    for name in ("_SUCCESS", "._SUCCESS.crc", f".{PART}.crc"):
        (path / name).touch()
    return path


def test_earlier_new_and_empty_directories_are_accepted_until_something_else_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    own = write_output(tmp_path / "own", "detail", "kind")
    before = sorted(tmp_path.rglob("*"))
    places = (own, tmp_path / "empty", tmp_path / "new/deeper")
    for place in places:
        outputs.check_frame("--out", str(place), COLUMNS)
        outputs.check_frame("--out", f"file://{place}", COLUMNS)
    assert sorted(tmp_path.rglob("*")) == before
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / "notes.txt").write_text("mine")
        with pytest.raises(OutputError, match=r"notes\.txt"):
            outputs.check_frame("--out", f"file://{place}", COLUMNS)


def test_stores_that_only_spark_can_access_have_no_local_path(tmp_path: Path) -> None:
    """They are checked by `check_store`, once Spark runs."""
    assert outputs.to_local_path("s3://bucket/findings") is None
    assert outputs.to_local_path(f"file://{tmp_path}") == outputs.to_local_path(str(tmp_path)) == tmp_path
    outputs.check_frame("--out", "s3://bucket/findings", COLUMNS)


def test_the_error_names_what_else_is_in_a_directory(tmp_path: Path) -> None:
    beside, other, torn = (write_output(tmp_path / name, "kind", "detail") for name in ("beside", "other", "torn"))
    (beside / "notes.txt").write_text("mine")
    (torn / PART).write_bytes(b"PAR1")
    pq.write_table(pa.table({"kind": ["x"]}), other / PART)
    for place, name in ((beside, "notes.txt"), (other, PART), (torn, PART)):
        with pytest.raises(OutputError) as caught:
            outputs.check_frame("--out", str(place), COLUMNS)
        assert str(caught.value).startswith(f"--out {place}: the directory contains '{name}'")


def test_a_path_at_or_below_a_file_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        with pytest.raises(OutputError, match=f"--out {place}: .*is a file"):
            outputs.check_directory("--out", str(place))
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="it is a file; name a directory"):
        outputs.check_directory("--out", str(dangling))


def test_a_page_replaces_only_pages_and_empty_files(tmp_path: Path) -> None:
    page, empty, foreign = (tmp_path / name for name in ("page.html", "empty.html", "foreign.html"))
    page.write_text(report_page.page("Health", []))
    empty.touch()
    foreign.write_text("<!doctype html><p>mine")
    for place in (page, empty, tmp_path / "new.html"):
        outputs.check_page("--html", place)
        assert not place.exists() or place.read_text() in ("", report_page.page("Health", []))
    for place, message in (
        (foreign, "did not write"),
        (tmp_path, "it is a directory"),
        (tmp_path / "none/x.html", f"there is no directory {tmp_path / 'none'}"),
    ):
        with pytest.raises(OutputError, match=message):
            outputs.check_page("--html", place)


def test_files_of_a_lake_without_its_ledger_are_not_deleted(tmp_path: Path) -> None:
    """Without its ledger, everything in a lake looks like an orphan."""
    file = tmp_path / f"topic=orders/date=2026-11-16/part-00000-{0:020d}-{9:020d}-abc-0-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_text("archived")
    for _ in range(2):
        with pytest.raises(LakeError, match="no ledger"):
            directory.Lake.open(tmp_path, {})
    assert file.read_text() == "archived"
    assert not (tmp_path / DIRECTORY).exists()
    with pytest.raises(LakeError, match="is a file"):
        directory.check_lake(file / "below")


def test_numbers_and_times_in_sentences() -> None:
    assert [pluralize(number, "file") for number in (0, 1, 2, 1000)] == ["0 files", "1 file", "2 files", "1,000 files"]
    assert [pluralize(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]
    assert (format_time(0), format_time(1 << 62)) == ("1970-01-01T00:00:00.000Z", str(1 << 62))
