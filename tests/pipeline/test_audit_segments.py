"""Checking one segment: every kind of damage is reported with its file, position and offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.logdir.files import list_replicas
from insync.pipeline.audit import logs as audit_logs
from insync.pipeline.audit import segments as audit_segments
from insync.pipeline.audit.findings import Finding
from insync.pipeline.audit.segments import SegmentTask
from insync.spark.log_options import read_log_options
from insync.wire import batch
from tests.pipeline.audit_data import make_batch, ten_batches, write_replica

APACHE = Path(__file__).resolve().parent.parent / "data" / "apache-kafka-logs"


def check(root: Path, *, compacted: bool = False) -> list[Finding]:
    options = read_log_options({"path": str(root / "broker-1")})
    return audit_logs.audit_logs(options, ["orders"] if compacted else []).findings


def kinds(findings: list[Finding]) -> list[tuple[str, int]]:
    return [(finding.kind, finding.offset) for finding in findings]


def test_a_sound_log_of_several_segments_has_no_check(tmp_path: Path) -> None:
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:4], batches[4:7], batches[7:]])
    assert check(tmp_path) == []


def test_a_flipped_bit_is_a_wrong_checksum_with_its_position(tmp_path: Path) -> None:
    """S2: a batch matches its checksum."""
    batches = ten_batches()
    batches[4][70] ^= 1
    write_replica(tmp_path, 1, [batches])
    [finding] = check(tmp_path)
    assert (finding.kind, finding.broker, finding.topic, finding.partition, finding.offset) == (
        "crc",
        1,
        "orders",
        0,
        12,
    )
    assert finding.position == sum(map(len, batches[:4]))
    assert finding.file.endswith("orders-0/00000000000000000000.log")


def test_a_missing_batch_is_a_gap_and_so_is_a_missing_segment(tmp_path: Path) -> None:
    """S9: offsets have no holes, unless the topic is compacted."""
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:2] + batches[3:5], batches[7:]])
    assert [finding for finding in kinds(check(tmp_path)) if finding[0] == "gap"] == [("gap", 6), ("gap", 15)]
    assert check(tmp_path, compacted=True) == []


def test_a_transaction_marker_is_not_a_gap(tmp_path: Path) -> None:
    batches = [make_batch(0), make_batch(3, control=True), make_batch(4)]
    write_replica(tmp_path, 1, [batches], hwm=7, epochs=[(0, 0)])
    assert check(tmp_path) == []


def test_a_batch_that_lost_records_is_a_gap(tmp_path: Path) -> None:
    thin = make_batch(3, 3)
    thin[23:27] = (5).to_bytes(4, "big")  # the last offset's delta; the checksum covers it
    thin[17:21] = batch.crc_of(thin, 0, batch.read_header(thin)).to_bytes(4, "big")
    write_replica(tmp_path, 1, [[make_batch(0), thin]], hwm=9, epochs=[(0, 0)])
    assert ("gap", 3) in kinds(check(tmp_path))


def test_a_decreasing_epoch_is_found(tmp_path: Path) -> None:
    """S2: the leader epochs of a log never decrease."""
    batches = ten_batches()
    batch.stamp(batches[8], 24, 0)
    write_replica(tmp_path, 1, [batches])
    assert ("epoch", 24) in kinds(check(tmp_path))


def test_an_epoch_that_differs_from_the_checkpoint_is_found(tmp_path: Path) -> None:
    write_replica(tmp_path, 1, [ten_batches()], epochs=[(0, 0), (1, 21)])
    assert kinds(check(tmp_path)) == [("epoch", 15), ("epoch", 18)]


def test_decreasing_offsets_are_found(tmp_path: Path) -> None:
    write_replica(tmp_path, 1, [[make_batch(0), make_batch(3), make_batch(0)]], hwm=6, epochs=[(0, 0)])
    assert kinds(check(tmp_path)) == [("duplicated", 0)]


@pytest.mark.parametrize(("suffix", "at"), [(".index", 7), (".timeindex", 7)])
def test_a_wrong_index_entry_is_found(tmp_path: Path, suffix: str, at: int) -> None:
    directory = write_replica(tmp_path, 1, [ten_batches()])
    file = directory / f"{0:020d}{suffix}"
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    [finding] = check(tmp_path)
    assert (finding.kind, finding.file, finding.position) == ("index", str(file), 0)


def test_an_index_that_points_past_its_segment_or_is_torn_is_found(tmp_path: Path) -> None:
    directory = write_replica(tmp_path, 1, [ten_batches()])
    file = directory / f"{0:020d}.index"
    sound = file.read_bytes()
    file.write_bytes(sound[:-4] + (1_000_000).to_bytes(4, "big"))
    assert [(finding.kind, finding.position) for finding in check(tmp_path)] == [("index", len(sound) - 8)]
    file.write_bytes(sound[:-3])
    assert [finding.kind for finding in check(tmp_path)] == ["index"]


def test_a_log_below_its_high_watermark_is_short(tmp_path: Path) -> None:
    """S9: a replica holds what is committed."""
    write_replica(tmp_path, 1, [ten_batches()[:6]], hwm=30)
    assert kinds(check(tmp_path)) == [("short", 18)]


def test_a_torn_batch_above_the_high_watermark_is_normal(tmp_path: Path) -> None:
    batches = ten_batches()
    batches[-1] = batches[-1][:40]
    directory = write_replica(tmp_path, 1, [batches[:-1]], hwm=27)
    log = directory / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + batches[-1])
    assert check(tmp_path) == []
    write_replica(tmp_path, 2, [ten_batches()[:2]])  # another broker's directory makes no difference


def test_digests_do_not_depend_on_where_segments_begin(tmp_path: Path) -> None:
    batches = ten_batches()
    write_replica(tmp_path / "a", 1, [batches])
    write_replica(tmp_path / "b", 1, [batches[:3], batches[3:8], batches[8:]])
    cells = []
    for root in (tmp_path / "a", tmp_path / "b"):
        options = read_log_options({"path": str(root / "broker-1")})
        tasks: list[SegmentTask] = audit_logs.plan_tasks(options, list_replicas(options), [])
        cells.append(audit_logs.sum_digests(tasks, [audit_segments.check_segment(task) for task in tasks]))
    assert cells[0] == cells[1]
    assert cells[0]


def test_logs_of_apache_kafka_have_no_findings() -> None:
    """All codecs, transaction markers, log append time, a compacted topic, two epochs; two replicas of each."""
    topics = "appended,codecs,compacted,epochs,transactions"
    options = read_log_options({"path": str(APACHE / "broker-*"), "topics": topics})
    audited = audit_logs.audit_logs(options, ["compacted"])
    assert audited.findings == []
    assert (audited.replicas, audited.stretches) == (10, 4)
