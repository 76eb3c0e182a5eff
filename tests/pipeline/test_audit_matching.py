"""Replicas against each other, without Spark: who is named when logs are short, damaged, or not known to be safe."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_data import a_batch, ten_batches, write_replica

from insync.pipeline.audit import compared_ranges as audit_marks
from insync.pipeline.audit import log_matching as audit_matching
from insync.pipeline.audit import logs as audit_logs
from insync.pipeline.audit import segments as audit_segments
from insync.pipeline.audit.findings import Finding
from insync.spark.log_options import read_log_options
from insync.storage import checkpoints

Batches = list[bytearray]


def audited(root: Path) -> list[Finding]:
    """What `audit_logs` does on executors, here."""
    options = read_log_options({"path": str(root / "broker-*")})
    replicas = audit_logs.list_all_replicas(options)
    tasks = audit_logs.plan_tasks(options, replicas, [])
    facts = [audit_segments.check_segment(task) for task in tasks]
    found = audit_marks.find_damaged_checkpoints(replicas) + [each for one in facts for each in one.findings]
    found += audit_logs.check_segment_order(tasks, facts)
    cells = audit_logs.sum_digests(tasks, facts)
    for stretch in audit_logs.find_differing_stretches(tasks, replicas, cells, found):
        found += audit_matching.compare_stretch(stretch)
    return found


def of_kind(found: list[Finding], kind: str) -> list[tuple[int | None, int]]:
    return sorted((each.broker or -1, each.offset) for each in found if each.kind == kind)


def garble(root: Path, broker: int, name: str = checkpoints.HIGH_WATERMARKS) -> Path:
    path = root / f"broker-{broker}" / name
    path.write_bytes(b"\xff\x00 garbage")
    return path


def half(batches: Batches) -> Batches:
    """Cut in the middle of its sixth batch."""
    return [*batches[:5], batches[5][:40]]


def test_a_checkpoint_that_cannot_be_read_is_a_finding_and_its_replica_is_compared(tmp_path: Path) -> None:
    """S2: the others know what is committed, and up to there it holds the same or not."""
    changed = ten_batches()
    changed[4] = a_batch(12, word="other")
    write_replica(tmp_path, 1, [changed])
    for broker in (2, 3):
        write_replica(tmp_path, broker, [ten_batches()])
    path = garble(tmp_path, 1)
    found = audited(tmp_path)
    [unreadable] = [each for each in found if each.kind == "checkpoint"]
    assert (unreadable.broker, unreadable.file) == (1, str(path))
    assert str(unreadable).startswith("checkpoint: broker 1: cannot be read: its replicas are compared")
    assert of_kind(found, "diverged") == [(1, 12)]
    assert len(found) == 2


def test_a_short_and_damaged_replica_is_what_is_wrong_not_the_intact_one(tmp_path: Path) -> None:
    """S2 and S9: below a high watermark there are no holes, so that holding nothing is no opinion."""
    write_replica(tmp_path, 1, [ten_batches()])
    damaged = ten_batches()
    damaged[2][70] ^= 1
    log = write_replica(tmp_path, 2, [damaged]) / f"{0:020d}.log"
    log.write_bytes(b"".join(half(damaged)))
    write_replica(tmp_path, 3, [ten_batches()])
    garble(tmp_path, 1)
    found = audited(tmp_path)
    assert of_kind(found, "crc") == [(2, 6)]
    assert of_kind(found, "short") == [(2, 15)]
    [diverged] = [each for each in found if each.kind == "diverged"]
    assert (diverged.broker, diverged.offset) == (2, 15)
    assert "holds nothing, broker 3 holds [15..17" in diverged.detail
    assert "and more, up to 29" in diverged.detail
    assert {each.broker for each in found if each.kind != "checkpoint"} == {2}


@pytest.mark.parametrize("short", [1, 2])
def test_of_two_replicas_the_one_that_ends_early_is_named(tmp_path: Path, short: int) -> None:
    batches = ten_batches()
    for broker in (1, 2):
        write_replica(tmp_path, broker, [batches[:5] if broker == short else batches])
    found = audited(tmp_path)
    assert of_kind(found, "diverged") == [(short, 15)]
    assert of_kind(found, "short") == [(short, 15)]


@pytest.mark.parametrize("damaged", [1, 2])
def test_of_two_replicas_that_differ_the_one_that_is_damaged_is_named(tmp_path: Path, damaged: int) -> None:
    """Its checksum says so."""
    for broker in (1, 2):
        batches = ten_batches()
        if broker == damaged:
            batches[4][19] ^= 1  # of the checksum itself
        write_replica(tmp_path, broker, [batches])
    found = audited(tmp_path)
    assert of_kind(found, "crc") == [(damaged, 12)]
    assert of_kind(found, "diverged") == [(damaged, 12)]


def test_two_that_lost_the_same_do_not_outvote_the_one_that_has_it(tmp_path: Path) -> None:
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:8]])
    write_replica(tmp_path, 2, [batches[:8]])
    write_replica(tmp_path, 3, [batches])
    assert of_kind(audited(tmp_path), "diverged") == [(1, 24), (2, 24)]


def test_a_batch_that_most_hold_otherwise_is_named_also_after_a_hole(tmp_path: Path) -> None:
    batches = ten_batches()
    holed = [*batches[:2], *batches[4:7], a_batch(21, epoch=1, word="other"), *batches[8:]]
    for broker, held in ((1, holed), (2, batches), (3, batches)):
        write_replica(tmp_path, broker, [held])
    found = audited(tmp_path)
    assert of_kind(found, "diverged") == [(1, 6), (1, 21)]
    assert of_kind(found, "gap") == [(1, 6)]


def test_who_has_lost_its_high_watermark_may_be_behind_but_not_otherwise(tmp_path: Path) -> None:
    """What it does not hold it may not have fetched yet; the checkpoint that is gone would have told."""
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:6]])
    write_replica(tmp_path, 2, [batches])
    write_replica(tmp_path, 3, [batches], hwm=27)
    garble(tmp_path, 1)
    assert [each.kind for each in audited(tmp_path)] == ["checkpoint"]


def test_a_log_begins_with_its_first_segment_if_no_checkpoint_says_otherwise(tmp_path: Path) -> None:
    """Retention deletes segments on each replica in its own time, and is no difference."""
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:5], batches[5:]])
    write_replica(tmp_path, 2, [batches[5:]])
    assert audited(tmp_path) == []
    path = garble(tmp_path, 2, checkpoints.LOG_STARTS)
    [found] = audited(tmp_path)
    assert (found.kind, found.broker, found.file) == ("checkpoint", 2, str(path))


def test_who_has_written_no_high_watermark_down_is_compared_to_nothing_and_that_is_told(tmp_path: Path) -> None:
    for broker in (1, 2):
        write_replica(tmp_path, broker, [ten_batches()])
    (tmp_path / "broker-1" / checkpoints.HIGH_WATERMARKS).unlink()
    assert audited(tmp_path) == []
    options = read_log_options({"path": str(tmp_path / "broker-*")})
    replicas = audit_logs.list_all_replicas(options)
    assert audit_logs.count_uncompared(audit_logs.plan_tasks(options, replicas, []), replicas) == 1
