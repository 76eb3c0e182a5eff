"""One partition as an omniscient observer sees it: what is committed, which replicas hold it, what was forgiven.

A leader's high watermark is a claim: everything below it is committed, and clients may see it. The claim of any leader
counts, also of one that was replaced and does not know it yet: the members of its maximal ISR held the records, and the
next leader was one of them. The exception is an *unclean* election in epoch u, from outside ISR and ELR. It makes the
log of its winner the truth, from the moment in which the winner becomes leader. Until then candidates are not checked,
and claims of leaders before u are kept only to forgive the clients that relied on them.

A replica is *lost* from a crash that lost bytes of its log until it is in the ISR again and complete. It is *excused*
from matching after an unclean election, until it knows of it and has truncated what the winner does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from insync.metadata.partition import Partition
from insync.properties import hwm_monotonicity, idempotence, linearizable, log_matching, no_loss
from insync.properties.committed_log import (
    CommittedLog,
    Forgiven,
    LogView,
    RememberedLog,
    fingerprint_of,
    fingerprints,
)
from insync.properties.history import Fingerprint

Finding = tuple[str, str]
"""(property id, what is wrong)"""


class LeaderView(Protocol):
    """What the checks need of a leader (`replication.leader.Leader`)."""

    @property
    def epoch(self) -> int: ...
    @property
    def min_isr(self) -> int: ...


@dataclass(slots=True, eq=False)
class Tracked:
    """What is known of one broker's replica; it outlives the process, to compare it with the next one."""

    node: Any = None
    log: LogView | None = None
    truncation_count: int = 0
    leo: int = 0
    hwm: int = 0
    verified: int = 0
    leader_epoch: int = -1
    """The epoch in which it acts as leader, else -1."""
    state: object = None
    lossy: bool = False
    """A crash since it was last open may have lost bytes."""
    lost: bool = False
    excused: bool = False


@dataclass(slots=True)
class Unclean:
    """An election from outside ISR and ELR whose winner does not lead yet."""

    epoch: int
    permitted: bool
    best: int


class PartitionGhost:
    __slots__ = (
        "committed",
        "forgive_epoch",
        "forgiven",
        "listed",
        "min_isr",
        "partition",
        "rewound_to",
        "sequences",
        "suspects",
        "tracked",
        "unclean",
        "weakest",
        "writes",
    )

    def __init__(self, partition: Partition, min_isr: int) -> None:
        self.partition = partition
        self.min_isr = min_isr
        self.weakest = min_isr
        """How many replicas have to lose data before committed records may be lost."""
        self.committed = CommittedLog()
        self.sequences = idempotence.Sequences()
        self.listed = hwm_monotonicity.ListedOffsets()
        self.writes = linearizable.PartitionHistory()
        self.tracked: dict[int, Tracked] = {}
        self.suspects: dict[int, int] = {}
        """Brokers that registered unclean, with the broker epoch of that registration."""
        self.unclean: Unclean | None = None
        self.forgive_epoch = -1
        self.forgiven = Forgiven()
        self.rewound_to = -1

    # --- the controller's side -----------------------------------------------------------------------------------

    def changed(self, partition: Partition, min_isr: int) -> None:
        """The committed metadata of the partition is now `partition`."""
        self.partition = partition
        self.min_isr = min_isr
        self.weaken(min_isr)
        for broker in [b for b in self.tracked if b not in partition.replicas]:
            del self.tracked[broker]

    def weaken(self, min_isr: int) -> None:
        """MinISR was as low as this for a moment."""
        self.weakest = min(self.weakest, min_isr)

    def elected_uncleanly(self, epoch: int, *, permitted: bool, best: int) -> None:
        """An earlier unclean election whose winner never led still excuses what it was permitted to lose."""
        if self.unclean is not None:
            permitted, best = permitted or self.unclean.permitted, min(best, self.unclean.best)
        self.unclean = Unclean(epoch, permitted, best)
        self.forgive_epoch = epoch
        self.weakest = 1

    def lost_count(self) -> int:
        return sum(tracked.lost for tracked in self.tracked.values())

    # --- a replica's side ----------------------------------------------------------------------------------------

    def observe(self, broker: int, node: Any, log: LogView) -> Tracked:
        """The replica as it is after a step; a new process is compared with what the last one left."""
        tracked = self.tracked.get(broker)
        if tracked is None:
            tracked = self.tracked[broker] = Tracked()
            tracked.node, tracked.log, tracked.truncation_count = node, log, log.truncation_count
            tracked.excused = self.rewound_to >= 0
        elif tracked.node is not node or tracked.log is not log:
            self._reopened(tracked, node, log)
        if log.truncation_count != tracked.truncation_count:
            # Truncated records may have been written again in the same step.
            tracked.truncation_count = log.truncation_count
            tracked.verified = self.committed.verified(log, 0)
        elif log.leo < tracked.verified:
            tracked.verified = log.leo
        return tracked

    def _reopened(self, tracked: Tracked, node: Any, log: LogView) -> None:
        before = tracked.verified
        tracked.verified = self.committed.verified(log, 0)
        if tracked.lossy and (tracked.verified < before or log.leo < tracked.leo):
            tracked.lost = True
        if tracked.lossy and self.rewound_to >= 0:
            tracked.excused = True  # the crash may have undone its truncation to the winner's log
        tracked.lossy = False
        tracked.node, tracked.log, tracked.truncation_count = node, log, log.truncation_count
        tracked.leader_epoch, tracked.state = -1, None

    def process_ends(self, broker: int, log: LogView) -> None:
        """Remember its log: a fetch of it that is in flight may still commit what it holds now."""
        tracked = self.tracked.get(broker)
        if tracked is not None and tracked.log is log:
            tracked.log = RememberedLog(log, self.verify(tracked))

    def process_ended(self, broker: int, *, lossy: bool) -> None:
        """Its files may change from now on; what it was known to hold counts until it is seen again."""
        tracked = self.tracked.get(broker)
        if tracked is not None:
            tracked.log = tracked.log if isinstance(tracked.log, RememberedLog) else None
            tracked.lossy = tracked.lossy or lossy

    def verify(self, tracked: Tracked) -> int:
        """How far the replica agrees with what is committed, looking only at what was not compared before."""
        if tracked.verified < self.committed.end and tracked.log is not None:
            tracked.verified = self.committed.verified(tracked.log, tracked.verified)
        return tracked.verified

    def end_exemptions(self, broker: int, tracked: Tracked, epoch: int) -> None:
        """End `lost` once the replica is in the ISR and complete, and `excused` once it follows the winner's log."""
        if tracked.lost and broker in self.partition.isr and self.verify(tracked) >= self.committed.end:
            tracked.lost = False
        if tracked.excused and epoch >= self.forgive_epoch:
            tracked.excused = not self._follows_winner(tracked)

    def _follows_winner(self, tracked: Tracked) -> bool:
        """It has nothing that the winner lacks, or shares a record that was written since the election.

        Sharing more than was kept is not enough: both may have it from before an earlier unclean election. Offsets that
        retention deleted do not count either: the log may be the old one, of a leader that did not know that it was
        replaced, and that went on above everything that was kept.
        """
        log = tracked.log
        if log is None or log.log_start > self.committed.end:
            return False
        verified = self.verify(tracked)
        return verified >= log.leo or verified > max(log.log_start, self.committed.start_of(self.forgive_epoch))

    def check_matching(self, broker: int, tracked: Tracked, hwm: int) -> str | None:
        """S2, for one replica."""
        if tracked.excused or min(hwm, self.committed.end) <= tracked.verified:
            return None
        return log_matching.check(broker, self.verify(tracked), hwm, self.committed.end)

    # --- the leader's side ---------------------------------------------------------------------------------------

    def leader_claims(self, broker: int, tracked: Tracked, log: Any, leader: LeaderView) -> list[Finding]:
        """The leader considers everything below its high watermark committed."""
        epoch = leader.epoch
        findings: list[Finding] = []
        if self.unclean is not None and epoch >= self.unclean.epoch:
            findings += self._winner_leads(broker, tracked)
        if epoch < self.forgive_epoch:
            if log.hwm > tracked.hwm:
                self.forgiven.add(fingerprints(log.iter_headers(tracked.hwm, log.hwm)))
        elif log.hwm > self.committed.end:
            findings += self._extend(broker, tracked, log, epoch)
            if log.hwm > tracked.hwm:  # else the winner of an unclean election brings it from before
                self.weakest = min(leader.min_isr, self.min_isr)
        return findings

    def _extend(self, broker: int, tracked: Tracked, log: Any, epoch: int) -> list[Finding]:
        committed = self.committed
        if self.verify(tracked) < committed.end:
            held = f"it agrees with the committed log only to {tracked.verified} of {committed.end}"
            return [("S1", f"leader {broker} of epoch {epoch} commits up to {log.hwm}, but {held}")]
        findings: list[Finding] = []
        for header in log.iter_headers(max(committed.end, log.log_start), log.hwm):
            repeated = self.sequences.committed(header)
            if repeated:
                findings.append(("S13", repeated))
            committed.extend(Fingerprint(*fingerprint_of(header)), epoch)
        tracked.verified = committed.end
        for other in self.tracked.values():
            if isinstance(other.log, RememberedLog):
                self.verify(other)
        return findings

    def _winner_leads(self, winner: int, tracked: Tracked) -> list[Finding]:
        """The winner of an unclean election leads now, and its log is the truth."""
        unclean, self.unclean = self.unclean, None
        if unclean is None:
            return []
        kept = self.verify(tracked)
        wrong = no_loss.check_recovery(winner, kept, unclean.best, self.committed.end, unclean.permitted)
        self.forgiven.add(self.committed.rewind(kept))
        if tracked.log is not None and tracked.log.log_start > self.committed.end:
            self.committed.restart(tracked.log.log_start)
        self.sequences.rewind(kept)
        self.listed.forgive(self.forgive_epoch)
        self.writes.forgive(kept, self.forgive_epoch)
        self.rewound_to = kept
        for broker, other in self.tracked.items():
            other.verified = min(other.verified, kept)
            other.excused = broker != winner
        tracked.lost = False
        return [("S9", wrong)] if wrong else []
