"""What a clean stop records of every log, and how the next start treats a log that differs (B5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from insync.findings import Findings
from insync.sansio import Outbox
from insync.sim.engine.disk import SimDisk
from insync.storage import checkpoints, clean_shutdown
from insync.storage import disk as disks
from insync.storage.clean_shutdown import CleanShutdown, LogEnd
from insync.storage.config import LogConfig
from insync.storage.log import Log
from insync.storage.log_loader import open_log
from insync.storage.log_store import LogStore
from insync.wire.batch import read_header
from tests.storage.storage_harness import batch

A, B = UUID(int=10), UUID(int=11)
EPOCH = 42
SMALL = LogConfig(segment_bytes=200, index_interval_bytes=64)


def start_store(disk: SimDisk) -> tuple[LogStore, int, dict[tuple[str, str], str]]:
    """A store, the broker epoch that its start returns, and its findings: (kind, subject) -> severity."""
    findings = Findings(Outbox())
    store = LogStore(disk, "data", lambda _: SMALL, findings)
    epoch = store.start()
    return store, epoch, {(finding.kind, finding.subject): finding.severity for finding in findings.current()}


def write(log: Log, batches: int, epoch: int = 1, producer_id: int = -1) -> None:
    for sequence in range(batches):
        idempotent = producer_id >= 0
        data, header = batch(
            2,
            producer_id=producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=2 * sequence if idempotent else -1,
        )
        log.append_as_leader(data, header, epoch, 0)


@pytest.fixture
def disk() -> SimDisk:
    """Two logs of eight segments, stopped cleanly in broker epoch 42; a-0 ends at 16 in leader epoch 2."""
    disk = SimDisk()
    store, _, _ = start_store(disk)
    for name, topic_id in (("a", A), ("b", B)):
        log = store.create(name, 0, topic_id, SMALL)
        write(log, 4)
        write(log, 4, epoch=2, producer_id=7)
        log.set_hwm(16)
    store.close_cleanly(EPOCH)
    return disk


def edit(disk: SimDisk, path: str, change: Callable[[bytes], bytes]) -> None:
    disks.write_plainly(disk, path, change(disks.read_all(disk, path)), sync=True)


def remove_files(disk: SimDisk, suffix: str = "") -> None:
    for name in disk.listdir("data/a-0"):
        if name.endswith(suffix):
            disk.remove(f"data/a-0/{name}")


def last_segment(disk: SimDisk) -> str:
    return "data/a-0/" + max(name for name in disk.listdir("data/a-0") if name.endswith(".log"))


def middle_segment(disk: SimDisk) -> str:
    return "data/a-0/" + sorted(name for name in disk.listdir("data/a-0") if name.endswith(".log"))[1]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_clean_shutdown_file_is_read_once() -> None:
    """B5: start-up reads and removes it, and the removal survives a power loss."""
    disk = SimDisk()
    disk.mkdir("data")
    assert clean_shutdown.take(disk, "data") is None
    clean_shutdown.write(disk, "data", 42, {})
    assert clean_shutdown.take(disk, "data") == CleanShutdown(42, {})
    disk.lossy_crash(Random(1))
    assert clean_shutdown.take(disk, "data") is None


def test_the_file_is_kafkas_with_additional_fields(disk: SimDisk) -> None:
    """B5: Kafka reads version and brokerEpoch, and ignores other fields."""
    fields = json.loads(disks.read_all(disk, "data/.kafka_cleanshutdown"))
    assert list(fields.items())[:2] == [("version", 0), ("brokerEpoch", EPOCH)]
    assert clean_shutdown.decode(b'{"version":0,"brokerEpoch":42}') == CleanShutdown(42, None)


def test_the_record_survives_encoding() -> None:
    end = LogEnd(
        topic_id=A,
        log_start=3,
        hwm=7,
        end_offset=9,
        last_batch=100,
        segments=((0, 120), (5, 161)),
        epochs=77,
        producers=True,
    )
    shutdown = CleanShutdown(-1, {("a-b", 0): end, ("c", 12): end})
    assert clean_shutdown.decode(clean_shutdown.encode(shutdown)) == shutdown


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version":0,"brokerEpoch":null}', b'{"version":1}'])
def test_a_damaged_clean_shutdown_file_decodes_to_none(content: bytes) -> None:
    """B5: a damaged file vouches for nothing."""
    assert clean_shutdown.decode(content) is None


def test_every_damaged_byte_of_the_file_is_noticed(disk: SimDisk) -> None:
    """B5"""
    data = disks.read_all(disk, "data/.kafka_cleanshutdown")
    for at in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 0x01
        shutdown = clean_shutdown.decode(bytes(damaged))
        assert shutdown is None or shutdown.logs is None, bytes(damaged)
    assert all(clean_shutdown.decode(data[:size]) is None for size in range(len(data)))


# --- damage that makes the start unclean ------------------------------------------------------------------------------


DAMAGE: dict[str, Callable[[SimDisk], None]] = {
    "directory removed": lambda disk: disk.rmtree("data/a-0"),
    "last segment emptied": lambda disk: edit(disk, last_segment(disk), lambda _: b""),
    "last segment removed": lambda disk: disk.remove(last_segment(disk)),
    "last segment truncated": lambda disk: edit(disk, last_segment(disk), lambda data: data[:-10]),
    "last segment zeroed": lambda disk: edit(disk, last_segment(disk), lambda data: bytes(len(data))),
    "last segment longer": lambda disk: edit(disk, last_segment(disk), lambda data: data + b"x"),
    "middle segment removed": lambda disk: disk.remove(middle_segment(disk)),
    "middle segment truncated": lambda disk: edit(disk, middle_segment(disk), lambda data: data[:-10]),
    "first segment removed": lambda disk: disk.remove(f"data/a-0/{0:020d}.log"),
    "all segments removed": lambda disk: remove_files(disk, ".log"),
    "directory emptied": remove_files,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_log_that_differs_from_the_record_makes_the_start_unclean(disk: SimDisk, damage: str) -> None:
    """B5, B6: the registration carries -1, so the broker's replicas leave every ISR and ELR."""
    DAMAGE[damage](disk)
    store, epoch, findings = start_store(disk)
    assert epoch == checkpoints.NO_BROKER_EPOCH
    assert not store.clean
    assert findings["log_damaged", "a-0"] == "critical"
    assert not [subject for kind, subject in findings if kind == "log_damaged" and subject != "a-0"]
    log = store.get(A, 0)
    assert log is None or (log.leo <= 16 and _is_readable(log))
    other = store.get(B, 0)
    assert other is not None
    assert (other.leo, other.recovery) == (16, None), "the other log is opened without recovery"


def _is_readable(log: Log) -> bool:
    ends = [header.next_offset for header in log.iter_headers(log.log_start, log.leo)]
    return (ends[-1] if ends else log.log_start) == log.leo


def test_segments_after_a_gap_are_kept_for_the_operator(disk: SimDisk) -> None:
    """B9: no log can use them, but they may be the only copy."""
    data = disks.read_all(disk, last_segment(disk))
    disk.remove(middle_segment(disk))
    start_store(disk)
    kept = [name for name in disk.listdir("data/a-0") if name.endswith("-dropped")]
    assert len(kept) > 1
    assert disks.read_all(disk, f"data/a-0/{kept[-1]}") == data
    disk.crash()
    _, _, findings = start_store(disk)
    assert findings["dropped_segments", "a-0"] == "info", "as long as they exist"


def test_a_log_without_its_first_segment_is_set_aside(disk: SimDisk) -> None:
    """B9: otherwise a replica that lacks committed records could join the ISR."""
    disk.remove(f"data/a-0/{0:020d}.log")
    store, _, findings = start_store(disk)
    assert store.get(A, 0) is None
    assert findings["stray_directory", f"data/a-0.{A.hex}-stray"] == "warning"
    assert not disk.exists("data/a-0")


def test_an_old_copy_of_a_directory_makes_the_start_unclean(disk: SimDisk) -> None:
    """B5: it is consistent in itself, but ends before the recorded offset."""
    store, _, _ = start_store(disk)
    log = store.get(A, 0)
    assert log is not None
    store.close_cleanly(43)
    old = {name: disks.read_all(disk, f"data/a-0/{name}") for name in disk.listdir("data/a-0")}
    store, epoch, _ = start_store(disk)
    assert epoch == 43
    log = store.get(A, 0)
    assert log is not None
    write(log, 5, epoch=3)
    store.close_cleanly(44)
    disk.rmtree("data/a-0")
    disk.mkdir("data/a-0")
    for name, data in old.items():
        disks.write_plainly(disk, f"data/a-0/{name}", data)
    store, epoch, findings = start_store(disk)
    assert epoch == -1
    assert findings["log_damaged", "a-0"] == "critical"
    log = store.get(A, 0)
    assert log is not None
    assert log.leo == 16


def test_a_directory_that_the_clean_stop_did_not_record_makes_the_start_unclean(disk: SimDisk) -> None:
    """B5: nothing vouches for it."""
    disk.mkdir("data/c-0")
    for name in disk.listdir("data/a-0"):
        disks.write_plainly(disk, f"data/c-0/{name}", disks.read_all(disk, f"data/a-0/{name}"))
    disks.write_plainly(
        disk, "data/c-0/partition.metadata", checkpoints.encode_partition_metadata(UUID(int=12), 0), sync=True
    )
    store, epoch, findings = start_store(disk)
    assert epoch == -1
    assert ("log_damaged", "c-0") in findings
    assert store.logs[UUID(int=12), 0].leo == 16


@pytest.mark.parametrize("stopped_cleanly", [True, False])
def test_the_log_of_another_partition_is_set_aside(disk: SimDisk, stopped_cleanly: bool) -> None:
    """B9: with the same topic id, epochs and end offset no leader would notice that it holds other records."""
    store, _, _ = start_store(disk)
    write(store.create("a", 1, A, SMALL), 1, producer_id=99)
    if stopped_cleanly:
        store.close_cleanly(43)
    disk.rename("data/a-0", "data/swapped")
    disk.rename("data/a-1", "data/a-0")
    disk.rename("data/swapped", "data/a-1")
    store, epoch, findings = start_store(disk)
    assert store.get(A, 0) is None
    assert store.get(A, 1) is None
    assert epoch == -1
    assert sorted(subject for kind, subject in findings if kind == "stray_directory") == [
        f"data/a-0.{A.hex}-stray",
        f"data/a-1.{A.hex}-stray",
    ]
    own = disks.read_all(disk, f"data/a-1.{A.hex}-stray/{0:020d}.log")
    assert read_header(own).producer_id == 99, "a stray has the name of the partition that it belongs to"


def test_damage_is_not_forgotten_by_a_stop_before_the_registration(disk: SimDisk) -> None:
    """B5: an incarnation that found damage and never registered leaves -1."""
    edit(disk, last_segment(disk), lambda _: b"")
    store, epoch, _ = start_store(disk)
    store.close_cleanly(epoch)
    _, epoch, findings = start_store(disk)
    assert epoch == -1
    assert findings == {}


# --- Kafka's file, without a record -----------------------------------------------------------------------------------


def without_record(disk: SimDisk) -> None:
    edit(disk, "data/.kafka_cleanshutdown", lambda _: b'{"version":0,"brokerEpoch":42}')


def test_a_clean_stop_of_kafka_is_checked_by_its_recovery_points(disk: SimDisk) -> None:
    """B5: Kafka writes the end of every log as its recovery point when it stops."""
    without_record(disk)
    store, epoch, findings = start_store(disk)
    assert (epoch, findings) == (EPOCH, {})
    assert [log.recovery for log in store.logs.values()] == [None, None]


@pytest.mark.parametrize(
    "damage", ["directory removed", "last segment emptied", "last segment removed", "last segment truncated"]
)
def test_without_a_record_a_log_that_ends_before_its_recovery_point_makes_the_start_unclean(
    disk: SimDisk, damage: str
) -> None:
    """B5"""
    without_record(disk)
    DAMAGE[damage](disk)
    _, epoch, findings = start_store(disk)
    assert epoch == -1
    assert findings["log_damaged", "a-0"] == "critical"


# --- damage to files that can be rebuilt ------------------------------------------------------------------------------


SMALL_FILES = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")


@pytest.mark.parametrize("name", [*SMALL_FILES, "a-0/leader-epoch-checkpoint", "a-0/partition.metadata"])
@pytest.mark.parametrize("damage", ["removed", "emptied", "truncated", "flipped", "old"])
def test_a_damaged_small_file_is_rebuilt_and_reported(disk: SimDisk, name: str, damage: str) -> None:
    """B5: nothing is lost, the start stays clean, and a finding says what was done."""
    store, _, _ = start_store(disk)
    log = store.get(A, 0)
    assert log is not None
    log.delete_records(3)  # so that log-start-offset-checkpoint has an entry
    store.close_cleanly(43)
    path = f"data/{name}"
    old = b"0\n1\na 0 1\n" if name in SMALL_FILES else b"0\n1\n1 0\n" if "epoch" in name else None
    before = (log.log_start, log.hwm, log.leo, log.epochs.entries, log.producers.encode())
    if damage == "removed":
        disk.remove(path)
    elif damage != "old":
        changes = {"emptied": lambda _: b"", "truncated": lambda data: data[: len(data) // 2], "flipped": _flip}
        edit(disk, path, changes[damage])
    else:
        edit(disk, path, lambda _: old or checkpoints.encode_partition_metadata(UUID(int=99), 0))
    store, epoch, findings = start_store(disk)
    log = store.get(A, 0)
    assert log is not None
    assert (log.log_start, log.hwm, log.leo, log.epochs.entries, log.producers.encode()) == before
    assert epoch == 43
    assert [kind for kind, _ in findings] == ["file_rebuilt"]
    assert set(findings.values()) == {"info"}
    store.close_cleanly(44)
    assert start_store(disk)[1:] == (44, {}), "the file is sound again"


def _flip(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 0x01]) + data[-2:]


def test_producers_without_a_snapshot_are_derived_from_the_batches(disk: SimDisk) -> None:
    """P4: otherwise a retried batch of the last incarnation would be appended again."""
    store, _, _ = start_store(disk)
    log = store.get(A, 0)
    assert log is not None
    before = log.producers.encode()
    store.close_cleanly(43)
    for name in disk.listdir("data/a-0"):
        if name.endswith(".snapshot"):
            disk.remove(f"data/a-0/{name}")
    store, epoch, _ = start_store(disk)
    log = store.get(A, 0)
    assert log is not None
    assert (epoch, log.producers.encode()) == (43, before)


def test_a_damaged_timestamp_in_an_index_does_not_expire_a_segment() -> None:
    """Retention takes the age of a segment from its time index: the last entry must be the timestamp of a batch."""
    disk = SimDisk()
    config = LogConfig(segment_bytes=10_000, index_interval_bytes=64, retention_ms=1_000)
    log = open_log(disk, "a-0", topic_id=A, config=config)
    for _ in range(10):
        data, header = batch(2, timestamp=1_700_000_000_000)
        log.append_as_leader(data, header, 1, 0)
    log.roll()
    log.hwm = log.leo
    log.close()
    path = f"a-0/{0:020d}.timeindex"
    edit(disk, path, lambda data: bytes(7) + data[7:])
    log = open_log(disk, "a-0", topic_id=A, config=config, recovery_point=20, clean=True)
    log.hwm = log.leo
    assert log.apply_retention(1_700_000_000_000) == 0


# --- after an unclean stop --------------------------------------------------------------------------------------------


def flushed_log(disk: SimDisk, config: LogConfig = SMALL) -> Log:
    store, _, _ = start_store(disk)
    log = store.create("c", 0, UUID(int=12), config)
    write(log, 8)
    log.set_hwm(16)
    log.flush()
    store.checkpoint_recovery_points()
    return log


def test_a_missing_first_segment_after_an_unclean_stop_is_damage() -> None:
    """B5, B9: a leader without its first segment would make all replicas start where it does."""
    disk = SimDisk()
    flushed_log(disk)
    disk.remove("data/c-0/" + min(name for name in disk.listdir("data/c-0") if name.endswith(".log")))
    store, epoch, findings = start_store(disk)
    assert (store.get(UUID(int=12), 0), epoch) == (None, -1)
    assert [kind for kind, _ in findings] == ["stray_directory"]


@pytest.mark.parametrize("seed", range(20))
def test_segments_deleted_by_retention_before_a_crash_are_not_damage(seed: int) -> None:
    """B5: the epoch table on disk has the new log start before a segment is removed, whatever the crash keeps."""
    disk = SimDisk()
    log = flushed_log(disk, LogConfig(segment_bytes=200, index_interval_bytes=64, retention_bytes=200))
    assert log.apply_retention(0) > 0
    disk.lossy_crash(Random(seed))
    store, _, findings = start_store(disk)
    after = store.get(UUID(int=12), 0)
    assert after is not None
    assert (after.log_start, after.leo) == (log.log_start, 16)
    assert "stray_directory" not in [kind for kind, _ in findings]
