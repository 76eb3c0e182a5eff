"""The following replica: it takes what its leader answers, and cuts its log where the two have parted (F5, F7, D3, D4).

Notes: truncated(partition, leader, leader_epoch, from_offset, to_offset, hwm, cause, case).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.replication import divergence, high_watermark
from insync.replication.divergence import EpochEnd
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch

if TYPE_CHECKING:
    from insync.replication.core import Core
    from insync.replication.replica import Replica

_NONE = ErrorCode.none

TRUNCATED_BELOW_HWM = "truncated_below_hwm"
"""Finding: a leader made this replica give up committed records. It stays for this uptime, as they stay lost."""


class Follower:
    """Whom this replica follows, and in which epoch."""

    __slots__ = ("epoch", "leader")

    def __init__(self, leader: int, epoch: int) -> None:
        self.leader = leader
        self.epoch = epoch


def receive(core: Core, replica: Replica, answer: fetch.PartitionData) -> ErrorCode:
    """F5: one partition of a fetch answer, for a replica that still stands where it asked. Error: wait a little."""
    if answer.error_code is ErrorCode.offset_out_of_range:
        return restart(core, replica, answer.log_start_offset)
    if answer.error_code is not _NONE:
        return ErrorCode(answer.error_code)
    if answer.diverging_epoch.epoch >= 0:
        end = EpochEnd(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
        return truncate_to_divergence(core, replica, end)
    if answer.records:
        error = _append(replica.log, answer.records)
        if error is not _NONE:
            return error
        core.changed[replica] = None
    _follow_watermarks(core, replica, answer)
    return _NONE


def truncate_to_divergence(core: Core, replica: Replica, leader_end: EpochEnd) -> ErrorCode:
    """D3, D4: cut by epochs, whatever the high watermark says, and ask again. Error: nothing could be cut."""
    log = replica.log
    before, last_epoch = log.leo, log.last_epoch
    offset = divergence.truncation_offset(log, leader_end)
    case = divergence.case_of(log, last_epoch, leader_end)
    _truncated(core, replica, offset, "divergence", case)
    if offset < log.log_start:
        log.truncate_fully(offset)
    elif (damaged := log.truncate_to(offset)) is not None:
        core.suspects[replica] = (damaged, "a truncation met it")
    keep_hwm_within(log)
    stuck = log.leo == before and log.last_epoch == last_epoch
    return ErrorCode.offset_out_of_range if stuck else _NONE


def restart(core: Core, replica: Replica, leader_log_start: int) -> ErrorCode:
    """F7: the leader no longer has what comes next here, so begin again where its log starts.

    A log that ends above the leader's is cut by epochs (D3) and never gets here, unless it holds no record at all:
    then it has no epoch to compare and nothing to lose.
    """
    log = replica.log
    empty = log.leo == log.log_start
    if leader_log_start < 0 or leader_log_start == log.leo or not (empty or leader_log_start > log.leo):
        return ErrorCode.offset_out_of_range
    _truncated(core, replica, leader_log_start, "log_start", "")
    log.truncate_fully(leader_log_start)
    keep_hwm_within(log)
    return _NONE


def keep_hwm_within(log: Log) -> None:
    """F5: after a cut, the high watermark lies within the log."""
    log.set_hwm(high_watermark.follower_hwm(log.hwm, log.leo))


def _append(log: Log, records: batch.Bytes) -> ErrorCode:
    """F5: exactly at the LEO, with the leader's offsets and epochs."""
    header = batch.read_header(records)
    if header.base_offset < log.leo == log.log_start:
        # The leader's log starts inside a batch, which comes whole.
        log.truncate_fully(header.base_offset)
    return log.append_as_follower(records) if continues_log(log, header) else ErrorCode.invalid_record


def continues_log(log: Log, header: batch.BatchHeader) -> bool:
    """F5, D1: an answer below the end of the log, or of an older epoch than its last, is refused; it ends no node."""
    in_order = header.leader_epoch >= log.last_epoch or log.epochs.last_start >= log.leo
    return header.base_offset >= log.leo and in_order


def _follow_watermarks(core: Core, replica: Replica, answer: fetch.PartitionData) -> None:
    log = replica.log
    hwm = high_watermark.follower_hwm(answer.high_watermark, log.leo)
    if hwm != log.hwm:
        log.set_hwm(hwm)
        core.changed[replica] = None
    if answer.log_start_offset > log.log_start:
        log.delete_records(min(answer.log_start_offset, log.hwm))


def _truncated(core: Core, replica: Replica, to_offset: int, cause: str, case: str) -> None:
    log = replica.log
    core.changed[replica] = None
    if max(to_offset, log.log_start) < log.hwm:
        name, leader = replica.partition.name, replica.partition.leader
        lost = f"offsets {max(to_offset, log.log_start)} to {log.hwm - 1} were committed here"
        text = f"{lost} and truncated, because leader {leader} in epoch {replica.partition.leader_epoch} does not have"
        core.findings.report(TRUNCATED_BELOW_HWM, name, f"{text} them: records were lost in an unclean election.")
    core.out.note(
        "truncated",
        partition=replica.partition.name,
        leader=replica.partition.leader,
        leader_epoch=replica.partition.leader_epoch,
        from_offset=log.leo,
        to_offset=to_offset,
        hwm=log.hwm,
        cause=cause,
        case=case,
    )
