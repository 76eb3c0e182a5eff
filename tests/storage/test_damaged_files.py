"""Files that no stop leaves: bit rot, wrong restores, names that only look right. Found by fuzzing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from struct import pack
from uuid import UUID

import pytest

from insync.findings import Findings
from insync.sansio import Outbox
from insync.sim.engine.disk import SimDisk
from insync.storage import checkpoints, clean_shutdown
from insync.storage import disk as disks
from insync.storage.config import LogConfig
from insync.storage.damage import CorruptSegmentError
from insync.storage.log_store import LogStore
from insync.storage.posix import PosixDisk
from insync.storage.segment import whole_batches
from insync.wire import batch as batches
from insync.wire import batch_filter
from tests.storage.storage_harness import LogHarness, batch, content
from tests.wire.batch_harness import write_crc

FIRST = "00000000000000000000"


@pytest.fixture
def harness() -> LogHarness:
    harness = LogHarness(index_interval_bytes=1)
    for _ in range(4):
        harness.append(2)
    return harness


def rewrite(harness: LogHarness, name: str, at: int, data: bytes) -> None:
    path = harness.path(name)
    old = disks.read_all(harness.disk, path)
    disks.write_plainly(harness.disk, path, old[:at] + data + old[at + len(data) :])


def reopen_as_clean(harness: LogHarness) -> None:
    """As after a clean stop: nothing is checked."""
    harness.open(recovery_point=harness.log.leo, clean=True)


@pytest.mark.parametrize("length", [-12, -13, 0, 48, -(2**31)])
def test_an_impossible_batch_length_ends_the_whole_batches(length: int) -> None:
    data = bytes(batch()[0])
    assert whole_batches(data + pack(">qi", 1, length) + bytes(100), 10) == len(data)


@pytest.mark.parametrize("length", [-12, -(2**31), 10, 2**31 - 1])
def test_a_damaged_length_after_a_clean_stop_is_an_error_and_no_endless_loop(harness: LogHarness, length: int) -> None:
    harness.log.close()
    rewrite(harness, f"{FIRST}.log", 8, pack(">i", length))
    reopen_as_clean(harness)
    with pytest.raises(CorruptSegmentError, match="no batch with offset 0"):
        harness.log.read(0, 100, limit_offset=8)


def test_offsets_after_damage_do_not_reach_the_index(harness: LogHarness) -> None:
    """An index entry has 31 bits for an offset relative to the segment's base."""
    size = len(batch(2)[0])
    harness.log.close()
    rewrite(harness, f"{FIRST}.log", 2 * size, pack(">q", 2**40))
    harness.disk.remove(harness.path(f"{FIRST}.index"))
    reopen_as_clean(harness)
    assert harness.log.max_timestamp == 1_000
    assert list(harness.log.segments[0].index.keys) == [3]
    harness.log.close()


def test_undecodable_records_are_found_by_time_through_their_header(harness: LogHarness) -> None:
    """P5: an older broker may have stored a batch without decoding it."""
    data, header = batch(2, timestamp=5_000)
    data[batches.HEADER_SIZE :] = b"\xff" * (len(data) - batches.HEADER_SIZE)
    write_crc(data)
    base = harness.log.append_as_leader(data, header, 1, 0)
    harness.append(timestamp=6_000)
    assert harness.log.offset_for_timestamp(2_000, harness.log.leo) == (base, 5_000)
    assert harness.log.offset_for_timestamp(5_500, harness.log.leo) == (base + 2, 6_000)


def test_a_batch_with_too_many_records_is_not_decoded(harness: LogHarness) -> None:
    """P5: a megabyte of compressed zeros can be twenty million records."""
    data, header = batch(2, timestamp=5_000)
    header.count = batch_filter.MOST_RECORDS + 1
    data[57:61] = header.count.to_bytes(4, "big")
    write_crc(data)
    assert not batch_filter.all_have_keys(data, 0, header)
    base = harness.log.append_as_leader(data, header, 1, 0)
    assert harness.log.offset_for_timestamp(2_000, harness.log.leo) == (base, 5_000)


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000009.bak.log",
        "99999999999999999999.log",
        "0000000000000000000².log",
        "00000000000000000009.x.snapshot",
        "x.log.swap",
        "1-2.log.swap",
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_file_that_only_looks_like_part_of_the_log_is_left_alone(harness: LogHarness, name: str, clean: bool) -> None:
    before, end = content(harness.log), harness.log.leo
    harness.log.close()
    disks.write_plainly(harness.disk, harness.path(name), b"what is this?")
    log = harness.open(recovery_point=end, clean=clean)
    assert (log.leo, content(log), [segment.base for segment in log.segments]) == (end, before, [0])
    assert harness.disk.exists(harness.path(name))


@pytest.mark.parametrize("offset", [-1, 2**62 + 1, 10**30])
def test_a_checkpoint_with_an_impossible_number_is_damaged(offset: int) -> None:
    assert checkpoints.decode_offsets(f"0\n1\nt 0 {offset}\n".encode()) is None
    assert checkpoints.decode_epochs(f"0\n1\n1 {offset}\n".encode()) is None
    assert checkpoints.decode_epochs(f"0\n1\n{offset} 1\n".encode()) is None


@pytest.mark.parametrize("value", ["Infinity", "1e999", "-7", "[1]", '"3"', "true", str(2**80), "[" * 50_000])
def test_a_clean_shutdown_file_with_an_impossible_broker_epoch_is_damaged(value: str) -> None:
    """B5"""
    disk = SimDisk()
    disk.mkdir("data")
    data = f'{{"version":0,"brokerEpoch":{value}}}'.encode()
    disks.write_plainly(disk, f"data/{clean_shutdown.FILE}", data)
    assert clean_shutdown.take(disk, "data") is None


@pytest.mark.parametrize("stop", ["clean", "after a checkpoint", "unclean"])
def test_a_copy_of_a_log_under_another_name_is_set_aside(stop: str) -> None:
    """B9: the broker's own files say which name is right; without them, the longer log stays."""
    disk = SimDisk()
    store = LogStore(disk, "data")
    store.start()
    log = store.create("t", 0, UUID(int=1), LogConfig())
    for _ in range(2):
        data, header = batch(2)
        log.append_as_leader(data, header, 1, 0)
    log.flush()
    if stop == "clean":
        store.close_cleanly(7)
    elif stop == "after a checkpoint":
        store.checkpoint_recovery_points()
    disk.mkdir("data/a-0")
    for name in disk.listdir("data/t-0"):
        content = disks.read_all(disk, f"data/t-0/{name}")
        size = len(content) // 2 if stop == "unclean" and name.endswith(".log") else len(content)
        disks.write_plainly(disk, f"data/a-0/{name}", content[:size])
    findings = Findings(Outbox())
    again = LogStore(disk, "data", findings=findings)
    again.start()
    assert {name: again.logs[key].leo for name, key in again.names().items()} == {("t", 0): 4}
    stray = f"data/a-0.{1:032x}-stray"
    assert disk.exists(f"{stray}/{FIRST}.log")
    texts = {finding.subject: finding.text for finding in findings.current() if finding.kind == "stray_directory"}
    assert "t-0 has the same topic id" in texts[stray]


def test_a_directory_numbered_in_another_script_is_not_a_partition() -> None:
    disk = SimDisk()
    disk.mkdir("data/t-²")
    assert LogStore(disk, "data").start() == checkpoints.NO_BROKER_EPOCH


def _a_file_as_directory(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.write_bytes(b"junk")


def _a_dangling_link_as_directory(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.symlink_to("/nonexistent/t-0")


def _a_directory_as_segment(directory: Path) -> None:
    (directory / f"{FIRST}.log").unlink()
    (directory / f"{FIRST}.log").mkdir()


def _a_dangling_link_as_segment(directory: Path) -> None:
    (directory / f"{FIRST}.log").unlink()
    (directory / f"{FIRST}.log").symlink_to("/nonexistent/x.log")


@pytest.mark.parametrize(
    "replace",
    [_a_file_as_directory, _a_dangling_link_as_directory, _a_directory_as_segment, _a_dangling_link_as_segment],
    ids=lambda replace: replace.__name__,
)
@pytest.mark.parametrize("clean", [True, False])
def test_what_cannot_be_opened_as_a_log_is_set_aside(
    tmp_path: Path, replace: Callable[[Path], None], clean: bool
) -> None:
    """B9, B5: the other logs are opened, the start is unclean, and a finding says why. The log can be created again."""
    disk = PosixDisk(str(tmp_path))
    store = LogStore(disk, "data")
    store.start()
    for number, topic in enumerate("tu"):
        data, header = batch(2)
        log = store.create(topic, 0, UUID(int=number + 1), LogConfig())
        log.append_as_leader(data, header, 1, 0)
    store.close_cleanly(7)
    if not clean:
        (tmp_path / "data" / clean_shutdown.FILE).unlink()
    replace(tmp_path / "data" / "t-0")
    findings = Findings(Outbox())
    again = LogStore(disk, "data", findings=findings)
    assert again.start() == checkpoints.NO_BROKER_EPOCH
    assert {name: again.logs[key].leo for name, key in again.names().items()} == {("u", 0): 2}
    (stray,) = [finding for finding in findings.current() if finding.kind == "stray_directory"]
    assert "It was set aside because" in stray.text
    assert again.create("t", 0, UUID(int=1), LogConfig()).leo == 0
    again.close_cleanly(8)
    assert LogStore(disk, "data").start() == 8


def test_a_renamed_directory_is_recognized_by_its_topic_id_and_reported() -> None:
    """B9"""
    disk = SimDisk()
    store = LogStore(disk, "data")
    store.start()
    data, header = batch(2)
    store.create("t", 0, UUID(int=1), LogConfig()).append_as_leader(data, header, 1, 0)
    store.close_cleanly(7)
    disk.rename("data/t-0", "data/T-0")
    findings = Findings(Outbox())
    again = LogStore(disk, "data", findings=findings)
    again.start()
    assert again.create("t", 0, UUID(int=1), LogConfig()).leo == 2
    texts = [finding.text for finding in findings.current() if finding.kind == "misnamed_directory"]
    assert texts == ["the log of t-0 is in data/T-0. Stop the node and rename this directory to t-0."]
