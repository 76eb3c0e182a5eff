"""A following replica: it appends what its leader sends, and truncates its log where the two diverge (F5, F7, D3, D4).

Notes: truncated(partition, leader, leader_epoch, from_offset, to_offset, hwm, cause, case).
"""

from __future__ import annotations

from insync.replication import divergence
from insync.replication.divergence import EpochEnd
from insync.replication.replica import Replica, Role
from insync.replication.state import ReplicationState
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch

_NONE = ErrorCode.none

TRUNCATED_BELOW_HWM = "truncated_below_hwm"
"""Finding: a leader made this replica truncate committed records. It stays while the broker runs: they stay lost."""


class Follower(Role):
    """The leader that this replica follows, and in which epoch."""

    __slots__ = ("epoch", "leader")

    def __init__(self, leader: int, epoch: int) -> None:
        self.leader = leader
        self.epoch = epoch


def apply_fetched(state: ReplicationState, replica: Replica, fetched: fetch.PartitionData) -> ErrorCode:
    """F5: apply one partition of a fetch response to a replica that is still where it was when it asked. After an error
    it has to back off."""
    if fetched.error_code is ErrorCode.offset_out_of_range:
        return restart_at_log_start(state, replica, fetched.log_start_offset)
    if fetched.error_code is not _NONE:
        return ErrorCode(fetched.error_code)
    if fetched.diverging_epoch.epoch >= 0:
        end = EpochEnd(fetched.diverging_epoch.epoch, fetched.diverging_epoch.end_offset)
        return truncate_to_divergence(state, replica, end)
    log = replica.log
    if fetched.records:
        error = _append(log, fetched.records)
        if error is not _NONE:
            return error
        state.changed[replica] = None
    hwm = follower_hwm(fetched.high_watermark, log.leo)
    if hwm != log.hwm:
        log.set_hwm(hwm)
        state.changed[replica] = None
    if fetched.log_start_offset > log.log_start:
        log.delete_records(min(fetched.log_start_offset, log.hwm))
    return _NONE


def truncate_to_divergence(state: ReplicationState, replica: Replica, leader_end: EpochEnd) -> ErrorCode:
    """D3, D4: truncate by epochs, whatever the high watermark is. Error: there was nothing to truncate."""
    log = replica.log
    leo_before, last_epoch = log.leo, log.epochs.last_epoch
    offset = divergence.truncation_offset(log, leader_end)
    case = divergence.divergence_case(log, last_epoch, leader_end)
    _note_truncation(state, replica, offset, "divergence", case)
    if offset < log.log_start:
        log.truncate_fully(offset)
    elif (damaged := log.truncate_to(offset)) is not None:
        state.suspects[replica] = (damaged, "a truncation met it")
    _clamp_hwm(log)
    is_stuck = log.leo == leo_before and log.epochs.last_epoch == last_epoch
    return ErrorCode.offset_out_of_range if is_stuck else _NONE


def restart_at_log_start(state: ReplicationState, replica: Replica, leader_log_start: int) -> ErrorCode:
    """F7: the leader no longer has what comes next here, so start again where its log starts.

    A log that ends above the leader's is truncated by epochs (D3) and never gets here, unless it holds no record at
    all: then it has no epoch to compare and nothing to lose.
    """
    log = replica.log
    is_empty = log.leo == log.log_start
    if leader_log_start < 0 or leader_log_start == log.leo or not (is_empty or leader_log_start > log.leo):
        return ErrorCode.offset_out_of_range
    _note_truncation(state, replica, leader_log_start, "log_start", "")
    log.truncate_fully(leader_log_start)
    _clamp_hwm(log)
    return _NONE


def follower_hwm(leader_hwm: int, own_leo: int) -> int:
    """F5: the leader's high watermark, but never more than this log holds. It may go down after an election."""
    return leader_hwm if leader_hwm < own_leo else own_leo


def _clamp_hwm(log: Log) -> None:
    """F5: after a truncation, the high watermark lies within the log."""
    log.set_hwm(follower_hwm(log.hwm, log.leo))


def _append(log: Log, records: batch.Bytes) -> ErrorCode:
    """F5: exactly at the LEO, with the leader's offsets and epochs."""
    if len(records) < batch.HEADER_SIZE:
        return ErrorCode.corrupt_message
    header = batch.read_header(records)
    if header.base_offset < log.leo == log.log_start:
        # The leader's log starts inside a batch, which is sent whole.
        log.truncate_fully(header.base_offset)
    return log.append_as_follower(records) if continues_log(log, header) else ErrorCode.invalid_record


def continues_log(log: Log, header: batch.BatchHeader) -> bool:
    """F5, D1: records below the end of the log, or of an older epoch than its last, are refused; the node goes on."""
    is_in_order = header.leader_epoch >= log.epochs.last_epoch or log.epochs.last_start >= log.leo
    return header.base_offset >= log.leo and is_in_order


def _note_truncation(state: ReplicationState, replica: Replica, to_offset: int, cause: str, case: str) -> None:
    log, partition = replica.log, replica.partition
    state.changed[replica] = None
    first_lost = max(to_offset, log.log_start)
    if first_lost < log.hwm:
        state.findings.report(
            TRUNCATED_BELOW_HWM,
            partition.name,
            f"offsets {first_lost} to {log.hwm - 1} were committed here and truncated, because leader "
            f"{partition.leader} in epoch {partition.leader_epoch} does not have them: records were lost in an unclean "
            "election.",
        )
    state.out.note(
        "truncated",
        partition=partition.name,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        from_offset=log.leo,
        to_offset=to_offset,
        hwm=log.hwm,
        cause=cause,
        case=case,
    )
