"""Comparing replicas, without Spark: which one is named if logs are short, damaged, or have no high watermark."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.pipeline.audit import logs as audit_logs
from insync.pipeline.audit.findings import Finding
from insync.spark.log_options import read_log_options
from insync.storage import checkpoints
from tests.pipeline.audit_data import make_batch, ten_batches, write_replica

Batches = list[bytearray]


def audit(root: Path) -> list[Finding]:
    return audit_logs.audit_logs(read_log_options({"path": str(root / "broker-*")})).findings


def list_kind(findings: list[Finding], kind: str) -> list[tuple[int | None, int]]:
    return sorted((finding.broker or -1, finding.offset) for finding in findings if finding.kind == kind)


def damage_checkpoint(root: Path, broker: int, name: str = checkpoints.HIGH_WATERMARKS) -> Path:
    path = root / f"broker-{broker}" / name
    path.write_bytes(b"\xff\x00 garbage")
    return path


def cut(batches: Batches) -> Batches:
    """Cut off in the middle of the sixth batch."""
    return [*batches[:5], batches[5][:40]]


def test_a_replica_without_a_readable_checkpoint_is_still_compared(tmp_path: Path) -> None:
    """S2: the others' high watermarks tell what is committed."""
    changed = ten_batches()
    changed[4] = make_batch(12, word="other")
    write_replica(tmp_path, 1, [changed])
    for broker in (2, 3):
        write_replica(tmp_path, broker, [ten_batches()])
    path = damage_checkpoint(tmp_path, 1)
    findings = audit(tmp_path)
    [unreadable] = [finding for finding in findings if finding.kind == "checkpoint"]
    assert (unreadable.broker, unreadable.file) == (1, str(path))
    assert str(unreadable).startswith("checkpoint: broker 1: cannot be read: its replicas are compared")
    assert list_kind(findings, "diverged") == [(1, 12)]
    assert len(findings) == 2


def test_the_short_and_damaged_replica_is_named_and_not_the_intact_one(tmp_path: Path) -> None:
    """S2 and S9: below a high watermark there are no holes, so a replica without a batch has no vote."""
    write_replica(tmp_path, 1, [ten_batches()])
    damaged = ten_batches()
    damaged[2][70] ^= 1
    log = write_replica(tmp_path, 2, [damaged]) / f"{0:020d}.log"
    log.write_bytes(b"".join(cut(damaged)))
    write_replica(tmp_path, 3, [ten_batches()])
    damage_checkpoint(tmp_path, 1)
    findings = audit(tmp_path)
    assert list_kind(findings, "crc") == [(2, 6)]
    assert list_kind(findings, "short") == [(2, 15)]
    assert "the file ends within a batch" in next(finding.detail for finding in findings if finding.kind == "short")
    assert sorted(finding.kind for finding in findings) == ["checkpoint", "crc", "short"]


@pytest.mark.parametrize("short", [1, 2])
def test_of_two_replicas_the_one_that_ends_early_is_named(tmp_path: Path, short: int) -> None:
    batches = ten_batches()
    for broker in (1, 2):
        write_replica(tmp_path, broker, [batches[:5] if broker == short else batches])
    [finding] = audit(tmp_path)
    assert (finding.kind, finding.broker, finding.offset) == ("short", short, 15)


@pytest.mark.parametrize("damaged", [1, 2])
def test_of_two_replicas_the_damaged_one_is_named(tmp_path: Path, damaged: int) -> None:
    """Its checksum is wrong; that the others have another one is not a second finding."""
    for broker in (1, 2):
        batches = ten_batches()
        if broker == damaged:
            batches[4][19] ^= 1  # the checksum itself
        write_replica(tmp_path, broker, [batches])
    [finding] = audit(tmp_path)
    assert (finding.kind, finding.broker, finding.offset) == ("crc", damaged, 12)


def test_two_replicas_that_lost_a_batch_do_not_outvote_the_one_that_has_it(tmp_path: Path) -> None:
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:8]])
    write_replica(tmp_path, 2, [batches[:8]])
    write_replica(tmp_path, 3, [batches])
    findings = audit(tmp_path)
    assert list_kind(findings, "short") == [(1, 24), (2, 24)]
    assert len(findings) == 2


def test_a_batch_that_differs_from_most_is_named_even_after_a_hole(tmp_path: Path) -> None:
    batches = ten_batches()
    holed = [*batches[:2], *batches[4:7], make_batch(21, epoch=1, word="other"), *batches[8:]]
    for broker, held in ((1, holed), (2, batches), (3, batches)):
        write_replica(tmp_path, broker, [held])
    findings = audit(tmp_path)
    assert list_kind(findings, "diverged") == [(1, 21)]
    assert list_kind(findings, "gap") == [(1, 6)]


def test_a_replica_that_lost_its_high_watermark_may_be_behind(tmp_path: Path) -> None:
    """It may not have fetched the rest yet; only its lost checkpoint could tell."""
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:6]])
    write_replica(tmp_path, 2, [batches])
    write_replica(tmp_path, 3, [batches], hwm=27)
    damage_checkpoint(tmp_path, 1)
    assert [finding.kind for finding in audit(tmp_path)] == ["checkpoint"]


def test_without_a_checkpoint_a_log_begins_with_its_first_segment(tmp_path: Path) -> None:
    """Retention deletes segments at different times on different replicas; that is not a difference."""
    batches = ten_batches()
    write_replica(tmp_path, 1, [batches[:5], batches[5:]])
    write_replica(tmp_path, 2, [batches[5:]], epochs=[(1, 15)])
    assert audit(tmp_path) == []
    path = damage_checkpoint(tmp_path, 2, checkpoints.LOG_STARTS)
    [finding] = audit(tmp_path)
    assert (finding.kind, finding.broker, finding.file) == ("checkpoint", 2, str(path))


def test_a_replica_without_a_high_watermark_is_counted_as_not_compared(tmp_path: Path) -> None:
    for broker in (1, 2):
        write_replica(tmp_path, broker, [ten_batches()])
    (tmp_path / "broker-1" / checkpoints.HIGH_WATERMARKS).unlink()
    assert audit(tmp_path) == []
    options = read_log_options({"path": str(tmp_path / "broker-*")})
    replicas = audit_logs.list_all_replicas(options)
    assert audit_logs.count_uncompared(audit_logs.plan_tasks(options, replicas, []), replicas) == 1
