"""Whether a replica still holds all that it once held, and which other voters do not (Q8).

A damaged voter follows a leader like any other, but it neither votes nor stands for election until that leader has
committed an entry of its own epoch and the voter holds everything up to there, and no less than it once acknowledged.
A new voter, which has never held anything, votes for an empty log only: it may be new because its disk was replaced.
Observers do not vote; what they lost they fetch again.

The vote is on disk twice, in quorum-state and in quorum-offset-checkpoint: if one is damaged, the other counts.

Findings: `metadata_damaged`, `quorum_no_intact_majority`. Notes: quorum_state_rebuilt(path, error),
quorum_loss_accepted(condition, damage), quorum_voter_restored(epoch, offset), quorum_no_intact_majority(damaged, text).
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.findings import CRITICAL, WARNING, Findings
from insync.quorum.durable_outbox import DurableOutbox
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import DAMAGED, INTACT, NEW, QuorumCheckpoint
from insync.quorum.state_file import ElectionState

ACCEPT_LOSS = "quorum-accept-loss"
"""An operator creates this file in the data directory of a damaged voter whose lost metadata cannot be restored."""

METADATA_DAMAGED = "metadata_damaged"
NO_INTACT_MAJORITY = "quorum_no_intact_majority"
SUBJECT = "__cluster_metadata"
REPEAT_MS = 30_000


def is_shorter(end: OffsetAndEpoch, acknowledged: OffsetAndEpoch) -> bool:
    """Q8: a log of a later epoch may be shorter, because its leader had it truncated."""
    return (end.epoch, end.offset) < (acknowledged.epoch, acknowledged.offset)


def max_end(first: OffsetAndEpoch, second: OffsetAndEpoch) -> OffsetAndEpoch:
    return second if is_shorter(first, second) else first


def newest_election(
    logged_epoch: int, stored: ElectionState | None, checkpoint: QuorumCheckpoint | None
) -> ElectionState:
    """Q4: the newest epoch in any file of this replica, and the vote in it if one is known."""
    known = [ElectionState(epoch=logged_epoch)]
    if stored is not None:
        known.append(stored)
    if checkpoint is not None:
        known.append(ElectionState(epoch=checkpoint.epoch, voted_id=checkpoint.voted_id))
    return max(known, key=lambda state: (state.epoch, state.voted_id >= 0, state.leader_id >= 0))


class Damage:
    """The condition of one replica, why it counts as damaged, and the voters known to be damaged."""

    __slots__ = ("_findings", "_no_majority_noted_ms", "_node_id", "_out", "_voters", "condition", "peers", "reasons")

    def __init__(self, node_id: int, voters: Sequence[int], findings: Findings, out: DurableOutbox) -> None:
        self._node_id = node_id
        self._voters = voters
        self._findings = findings
        self._out = out
        self.condition = INTACT
        self.reasons: list[str] = []
        """Why this replica counts as damaged, for people."""
        self.peers: dict[int, None] = {}
        """Other voters that answered that they cannot vote."""
        self._no_majority_noted_ms: int | None = None

    @property
    def may_vote(self) -> bool:
        """Q8: for any candidate. A new voter votes for an empty log only."""
        return self.condition == INTACT

    @property
    def may_campaign(self) -> bool:
        """Q8: a replica that lost synced entries or its vote could help to elect a log without committed entries. A
        new one may campaign: no voter that holds entries votes for an empty log."""
        return self.condition in (INTACT, NEW)

    # --- this replica ------------------------------------------------------------------------------------------------

    def assess(
        self,
        *,
        log_end: OffsetAndEpoch,
        holds_entries: bool,
        checkpoint: QuorumCheckpoint | None,
        unreadable_checkpoint: str,
        stored: ElectionState | None,
        state_path: str,
        state_error: str,
    ) -> None:
        """Compare the log with what the other files say it held. `unreadable_checkpoint` is the path of a checkpoint
        without a good line, else empty; `state_error` is what is wrong with quorum-state, empty if it is missing."""
        if unreadable_checkpoint:
            self.reasons.append(
                f"{unreadable_checkpoint} is unreadable, so it is not known how much of the log was acknowledged"
            )
        if checkpoint is not None and is_shorter(log_end, checkpoint.log_end):
            self.reasons.append(
                f"the log ends at offset {log_end.offset} (epoch {log_end.epoch}), but offset "
                f"{checkpoint.log_end.offset} (epoch {checkpoint.log_end.epoch}) was acknowledged"
            )
        if stored is None and (state_error or holds_entries or (checkpoint is not None and checkpoint.epoch > 0)):
            error = state_error or "the file is missing"
            if checkpoint is None and len(self._voters) > 1:
                self.reasons.append(f"{state_path}: {error}, so a vote may be forgotten")
            else:
                self._out.note("quorum_state_rebuilt", path=state_path, error=error)
        if checkpoint is not None and checkpoint.condition == DAMAGED and not self.reasons:
            self.reasons.append("it was found damaged at an earlier start and is not restored yet")
        if self.reasons:
            self.condition = DAMAGED
        elif checkpoint is not None:
            self.condition = checkpoint.condition
        elif stored is None and not holds_entries:
            self.condition = NEW

    def add(self, reason: str) -> None:
        self.reasons.append(reason)
        self.condition = DAMAGED

    def accept_loss(self) -> None:
        """An operator decided that what this replica lacks is lost."""
        if self.condition != INTACT:
            self._out.note("quorum_loss_accepted", condition=self.condition, damage="; ".join(self.reasons))
        self.condition = INTACT
        self.reasons.clear()

    def report(self) -> None:
        """Tell operators if this replica is damaged."""
        if self.condition != DAMAGED:
            return
        is_voter = self._node_id in self._voters
        consequence = (
            "This voter does not vote until a leader has restored its log."
            if is_voter
            else "It is fetched again from the controllers."
        )
        text = f"The metadata log of node {self._node_id} is damaged: {'; '.join(self.reasons)}. {consequence}"
        self._findings.report(METADATA_DAMAGED, SUBJECT, text, CRITICAL if is_voter else WARNING)

    def mark_restored(self, epoch: int, offset: int) -> None:
        """Q8: a leader has given back all that this replica may ever have acknowledged."""
        was_damaged = self.condition == DAMAGED
        self.condition = INTACT
        self.reasons.clear()
        self._findings.clear(METADATA_DAMAGED, SUBJECT)
        if was_damaged:
            self._out.note("quorum_voter_restored", epoch=epoch, offset=offset)

    # --- the other voters --------------------------------------------------------------------------------------------

    @property
    def has_lost_majority(self) -> bool:
        """Whether the finding says so; it may be that a majority is merely not heard from yet."""
        return self._no_majority_noted_ms is not None

    def record_peer(self, voter: int, *, damaged: bool, now: int) -> None:
        """A voter answered whether it can vote."""
        if damaged:
            self.peers[voter] = None
        else:
            self.peers.pop(voter, None)
        self.report_lost_majority(now)

    def report_lost_majority(self, now: int) -> None:
        """Q8: without an intact majority it is not known what was committed, and the quorum stops."""
        damaged = sorted([*self.peers, *(() if self.may_vote else (self._node_id,))])
        if len(self._voters) - len(damaged) >= len(self._voters) // 2 + 1:
            self._clear_lost_majority()
            return
        names = ", ".join(map(str, damaged))
        text = (
            f"The controller quorum has no intact majority: voters {names} of {', '.join(map(str, self._voters))} "
            "lost metadata or were replaced, and wait for a leader. Start the other voters, or restore the data "
            f"directory of a damaged voter from a copy. If that is impossible, create the file {ACCEPT_LOSS} in the "
            "data directory of the voter with the longest metadata log and restart it: what it lacks is lost."
        )
        self._findings.report(NO_INTACT_MAJORITY, SUBJECT, text, CRITICAL)
        if self._no_majority_noted_ms is None or now - self._no_majority_noted_ms >= REPEAT_MS:
            self._no_majority_noted_ms = now
            self._out.note("quorum_no_intact_majority", damaged=damaged, text=text)

    def on_leader_heard(self) -> None:
        """There is a leader, so a majority is intact."""
        self.peers.clear()
        self._clear_lost_majority()

    def _clear_lost_majority(self) -> None:
        self._no_majority_noted_ms = None
        self._findings.clear(NO_INTACT_MAJORITY, SUBJECT)
