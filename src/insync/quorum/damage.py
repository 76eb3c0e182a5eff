"""What a replica finds when it opens its files: all that it once held, or less (Q8).

A damaged voter follows a leader like any other, but it neither votes nor stands for election until that leader has
committed an entry of its own epoch and the voter holds everything up to there, and no less than it once acknowledged.
A new voter, which has never held anything, votes for an empty log only: it may be new because its disk was replaced.
Observers do not vote; what they lost they fetch again.

The vote is on disk twice, in quorum-state and in quorum-offset-checkpoint: if one is damaged, the other counts.

Findings: `metadata_damaged`, `quorum_no_intact_majority`. Notes: quorum_state_rebuilt(path, error),
quorum_loss_accepted(condition, damage), quorum_voter_restored(epoch, offset), quorum_no_intact_majority(damaged, text).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.findings import CRITICAL, WARNING
from insync.quorum import offset_checkpoint, state_file
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import DAMAGED, INTACT, NEW, QuorumCheckpoint
from insync.quorum.state_file import ElectionState
from insync.storage.disk import remove_if_exists

if TYPE_CHECKING:
    from insync.quorum.core import Core

CHECKPOINT_PATH = offset_checkpoint.FILE_NAME
ACCEPT_LOSS = "quorum-accept-loss"
"""An operator makes this file in the data directory of a damaged voter whose lost metadata cannot be restored."""

METADATA_DAMAGED = "metadata_damaged"
NO_INTACT_MAJORITY = "quorum_no_intact_majority"
SUBJECT = "__cluster_metadata"
REPEAT_MS = 30_000


def assess(core: Core) -> None:
    """Set the election state, the checkpoint and the reasons for which this replica counts as damaged."""
    file = core.checkpoint_file
    checkpoint = file.load()
    state, state_error = state_file.load_if_sound(core.disk, core.state_path)
    latest = core.snapshots.latest
    holds_entries = core.log.leo > 0 or latest is not None
    if checkpoint is None and file.exists():
        core.damage.append(f"{file.path} is unreadable, so it is not known how much of the log was acknowledged")
    if checkpoint is not None and is_shorter(core.log_end(), checkpoint.log_end):
        core.damage.append(
            f"the log ends at offset {core.log.leo} (epoch {core.log_end().epoch}), but offset "
            f"{checkpoint.log_end.offset} (epoch {checkpoint.log_end.epoch}) was acknowledged"
        )
    if state is None and (state_error or holds_entries or (checkpoint is not None and checkpoint.epoch > 0)):
        _vote_lost(core, checkpoint, state_error or "the file is missing")
    if checkpoint is not None and checkpoint.condition == DAMAGED and not core.damage:
        core.damage.append("it was found damaged at an earlier start and is not restored yet")
    never_ran = checkpoint is None and state is None and not holds_entries and not core.damage
    if core.damage:
        core.condition = DAMAGED
    elif never_ran or (checkpoint is not None and checkpoint.condition == NEW):
        core.condition = NEW
    core.checkpoint = checkpoint or QuorumCheckpoint(condition=core.condition)
    core.election = newest_election(core, state, checkpoint)


def is_shorter(end: OffsetAndEpoch, acknowledged: OffsetAndEpoch) -> bool:
    """Q8: a log of a later epoch may be shorter, because its leader had it truncated."""
    return (end.epoch, end.offset) < (acknowledged.epoch, acknowledged.offset)


def _vote_lost(core: Core, checkpoint: QuorumCheckpoint | None, error: str) -> None:
    if checkpoint is None and len(core.voters) > 1:
        core.damage.append(f"{core.state_path}: {error}, so a vote may be forgotten")
    else:
        core.out.note("quorum_state_rebuilt", path=core.state_path, error=error)


def newest_election(core: Core, state: ElectionState | None, checkpoint: QuorumCheckpoint | None) -> ElectionState:
    """Q4: the newest epoch that anything here tells of, and a vote in it if one is known."""
    latest = core.snapshots.latest
    written = max(core.log.last_epoch, 0 if latest is None else latest.epoch)
    known = [ElectionState(epoch=written)]
    if state is not None:
        known.append(state)
    if checkpoint is not None:
        known.append(ElectionState(epoch=checkpoint.epoch, voted_id=checkpoint.voted_id))
    return max(known, key=lambda each: (each.epoch, each.voted_id >= 0, each.leader_id >= 0))


def record_condition(core: Core) -> None:
    """At the start, once snapshots and log were read: say what is damaged, and remember it until it is restored."""
    if core.disk.exists(ACCEPT_LOSS):
        if core.condition != INTACT:
            core.out.note("quorum_loss_accepted", condition=core.condition, damage="; ".join(core.damage))
        core.condition = INTACT
        core.damage.clear()
        core.store_checkpoint(condition=INTACT, log_end=core.log_end(), hwm=0)
        remove_if_exists(core.disk, ACCEPT_LOSS)
    elif core.condition == INTACT:
        core.store_checkpoint(condition=INTACT, log_end=max_end(core.checkpoint.log_end, core.durable_end()))
    else:
        core.store_checkpoint(condition=core.condition)
    if core.condition == DAMAGED:
        _report_damage(core)


def max_end(first: OffsetAndEpoch, second: OffsetAndEpoch) -> OffsetAndEpoch:
    return second if is_shorter(first, second) else first


def _report_damage(core: Core) -> None:
    consequence = (
        "This voter does not vote until a leader has restored its log."
        if core.is_voter
        else "It is fetched again from the controllers."
    )
    text = f"The metadata log of node {core.node_id} is damaged: {'; '.join(core.damage)}. {consequence}"
    core.findings.report(METADATA_DAMAGED, SUBJECT, text, CRITICAL if core.is_voter else WARNING)


def restore_if_caught_up(core: Core, now: int) -> None:
    """Q8: has the leader that we follow given back all that this replica may ever have acknowledged?"""
    if core.condition == INTACT:
        return
    end, held = core.log_end(), core.checkpoint.log_end
    epoch_start = core.log.epochs.last_start if core.log.last_epoch >= 0 else -1
    if end.epoch != core.epoch or core.hwm <= epoch_start or is_shorter(end, held) or core.durable < end.offset:
        return
    was, core.condition = core.condition, INTACT
    core.damage.clear()
    core.store_checkpoint(condition=INTACT, log_end=end, hwm=max(core.checkpoint.hwm, core.hwm))
    core.findings.clear(METADATA_DAMAGED, SUBJECT)
    if was == DAMAGED:
        core.out.note("quorum_voter_restored", epoch=core.epoch, offset=end.offset)


# --- the others ------------------------------------------------------------------------------------------------------


def peer_answered(core: Core, voter: int, *, damaged: bool, now: int) -> None:
    """A voter said whether it can vote."""
    if damaged:
        core.damaged_peers[voter] = None
    else:
        core.damaged_peers.pop(voter, None)
    report_lost_majority(core, now)


def report_lost_majority(core: Core, now: int) -> None:
    """Q8: without an intact majority it is not known what was committed, and the quorum stops."""
    own = () if core.may_vote else (core.node_id,)
    damaged = sorted([*core.damaged_peers, *own])
    if len(core.voters) - len(damaged) >= core.majority:
        clear_lost_majority(core)
        return
    names = ", ".join(map(str, damaged))
    text = (
        f"The controller quorum has no intact majority: voters {names} of {', '.join(map(str, core.voters))} "
        "lost metadata or were replaced, and wait for a leader. Start the other voters, or restore the data "
        f"directory of a damaged voter from a copy. If that is impossible, create the file {ACCEPT_LOSS} in the data "
        "directory of the voter with the longest metadata log and restart it: what it lacks is lost."
    )
    core.findings.report(NO_INTACT_MAJORITY, SUBJECT, text, CRITICAL)
    if core.no_majority_ms is None or now - core.no_majority_ms >= REPEAT_MS:
        core.no_majority_ms = now
        core.out.note("quorum_no_intact_majority", damaged=damaged, text=text)


def clear_lost_majority(core: Core) -> None:
    core.no_majority_ms = None
    core.findings.clear(NO_INTACT_MAJORITY, SUBJECT)
