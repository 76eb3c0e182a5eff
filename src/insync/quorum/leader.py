"""The leader of the metadata log: it appends, serves fetches, and commits what a majority of voters holds on disk (Q5).

A voter fetches from where its synced log ends, so a fetch offset acknowledges everything below it. The leader counts
its own log only as far as it is synced too. Entries of earlier epochs are committed only together with one of its own;
the leader-change record, which opens each epoch, sees to it that there is one at once.

A fetch that finds nothing new is parked until there are records, until the high watermark is above the one last sent to
that replica, or until its time is up.

Findings: `voter_lost_entries`. Notes: quorum_leader(epoch, leader).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from insync.quorum import damage, messages
from insync.quorum.config import QUORUM_CHANNEL
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.role import Role
from insync.sansio import Message
from insync.wire import batch, control
from insync.wire.errors import ErrorCode
from insync.wire.types import millis

if TYPE_CHECKING:
    from insync.quorum.core import Core

FOREVER = 1 << 62
MAX_OBSERVERS = 1_000
VOTER_LOST_ENTRIES = "voter_lost_entries"


class Progress:
    """What the leader knows of one replica that fetches from it."""

    __slots__ = ("acknowledged", "caught_up_ms", "fetch_ms", "leo", "sent_hwm")

    def __init__(self) -> None:
        self.leo = -1
        self.acknowledged = -1
        """The highest offset from which it ever fetched in this epoch."""
        self.fetch_ms = -1
        self.caught_up_ms = -1
        self.sent_hwm = -1


class Parked:
    """A fetch that waits."""

    __slots__ = ("asked", "deadline", "replica_id", "token")

    def __init__(self, token: int, replica_id: int, asked: Any, deadline: int) -> None:
        self.token = token
        self.replica_id = replica_id
        self.asked = asked
        self.deadline = deadline


def majority_offset(offsets: Sequence[int], majority: int) -> int:
    """Q5: the highest offset that at least `majority` of these have reached."""
    return sorted(offsets, reverse=True)[majority - 1]


def covers_own_epoch(offset: int, epoch_start: int) -> bool:
    """Q5: an entry of an earlier epoch may be on a majority and yet be overwritten; one of our own may not."""
    return offset > epoch_start


class Leader(Role):
    __slots__ = ("begin_at", "elected_ms", "epoch_start", "established", "granted_by", "observers", "parked", "voters")

    name = "leader"
    is_leader = True

    def __init__(self, core: Core, granted_by: Sequence[int]) -> None:
        super().__init__(core)
        self.granted_by = tuple(granted_by)
        self.epoch_start = core.log.leo
        self.established = False
        """Whether something of this epoch, and so everything before it, is committed."""
        self.elected_ms = 0
        self.begin_at = 0
        self.voters = {voter: Progress() for voter in core.other_voters}
        self.observers: dict[int, Progress] = {}
        self.parked: dict[int, Parked] = {}

    def enter(self, now: int) -> None:
        core = self.core
        core.out.note("quorum_leader", epoch=core.epoch, leader=core.node_id)
        self.elected_ms = now
        core.log.assign_epoch(core.epoch, self.epoch_start)
        opening = control.leader_change_batch(
            leader_id=core.node_id,
            voters=core.voters,
            granting_voters=self.granted_by,
            base_offset=self.epoch_start,
            leader_epoch=core.epoch,
            timestamp_ms=core.wall(now),
        )
        self._append(opening, now)
        self._begin_epoch(now)

    def leave(self, now: int) -> None:
        answer = messages.fetch_response(self.core.standing(ErrorCode.not_leader_or_follower))
        for token in self.parked:
            self.core.out.reply(token, answer)
        self.parked.clear()
        for voter in self.voters:
            self.core.findings.clear(VOTER_LOST_ENTRIES, f"voter {voter}")

    def refuses_pre_votes(self) -> bool:
        return True

    def postpone(self, by_ms: int) -> None:
        self.elected_ms += by_ms  # no follower heard of this leader before its election was on disk

    # --- appending and committing ------------------------------------------------------------------------------------

    def propose(self, payloads: Sequence[bytes], now: int) -> int:
        """Append one batch; the offset of its last record. It is committed when the high watermark passes that."""
        entries = [batch.NewRecord(None, payload) for payload in payloads]
        return self._append(batch.build(entries, timestamp_ms=self.core.wall(now)), now) + len(entries) - 1

    def _append(self, data: bytearray, now: int) -> int:
        core = self.core
        base = core.log.append_as_leader(data, batch.read_header(data), core.epoch, now)
        core.request_sync(now)
        self._serve_parked(now)
        return base

    def on_durable(self, now: int) -> None:
        self.advance(now)

    def advance(self, now: int) -> None:
        """Move the high watermark as far as a majority allows, and tell those who wait for it."""
        core = self.core
        offset = self.committable()
        if offset <= core.hwm or not covers_own_epoch(offset, self.epoch_start):
            return
        core.advance_hwm(offset, now)
        if self.current and not self.established:
            self.established = True
            core.damaged_peers.clear()
            damage.clear_lost_majority(core)
            core.announce(now)
        if self.current:
            self._serve_parked(now)

    def committable(self) -> int:
        offsets = [self.core.acknowledged(), *(progress.leo for progress in self.voters.values())]
        return majority_offset(offsets, self.core.majority)

    # --- fetches -----------------------------------------------------------------------------------------------------

    def fetch(self, request: Any, asked: Any, token: int, now: int) -> None:
        """Serve one fetch of this epoch: note what the replica holds, then answer or park."""
        replica_id = request.replica_state.replica_id
        place = self.placed(asked.fetch_offset, asked.last_fetched_epoch)
        if isinstance(place, Refusal):
            self.heard_from(replica_id, now)
            self.core.out.reply(token, self._response(replica_id, diverging=place.diverging, snapshot=place.snapshot))
            return
        self._acknowledge(replica_id, asked.fetch_offset, now)
        if not self.current:
            self.core.out.reply(token, messages.fetch_response(self.core.standing(ErrorCode.not_leader_or_follower)))
            return
        self._release(replica_id)
        patience = min(millis(request.max_wait), self.core.config.fetch_timeout_ms)
        waiting = Parked(token, replica_id, asked, now + patience)
        if waiting.deadline > now and not self._has_news(waiting):
            self.parked[token] = waiting
        else:
            self._answer(waiting)

    def placed(self, offset: int, epoch: int) -> Refusal | None:
        """None if a log that ends at (offset, epoch) is a prefix of this one, else what its owner must do (D2, Q6)."""
        log, snapshots = self.core.log, self.core.snapshots
        first, latest = snapshots.earliest, snapshots.latest
        if first is not None and latest is not None:
            if offset == 0 or offset < log.log_start or epoch < first.epoch:
                return Refusal(snapshot=latest)
            if (offset, epoch) == first:
                return None
            if offset == log.log_start == first.offset:
                return Refusal(snapshot=latest)
        elif offset == 0:
            return None
        return self._diverges(offset, epoch)

    def _diverges(self, offset: int, epoch: int) -> Refusal | None:
        found = self.core.log.end_offset_for(epoch)
        if found is None:
            return Refusal(diverging=OffsetAndEpoch(self.core.log.log_start, epoch))
        known, end = found
        if known == epoch and offset <= end:
            return None
        return Refusal(diverging=OffsetAndEpoch(end, known))

    def heard_from(self, replica_id: int, now: int) -> Progress:
        """Q5: any fetch, of records or of a snapshot, shows that the replica follows this leader."""
        progress = self._progress(replica_id)
        progress.fetch_ms = now
        return progress

    def _acknowledge(self, replica_id: int, offset: int, now: int) -> None:
        progress = self.heard_from(replica_id, now)
        progress.leo = offset
        if offset >= self.core.log.leo:
            progress.caught_up_ms = now
        if replica_id in self.voters:
            self._compare_with_earlier(replica_id, progress)
            self.advance(now)

    def _compare_with_earlier(self, voter: int, progress: Progress) -> None:
        """Q8: a voter that comes back with less than it acknowledged has lost it, whether it knows or not."""
        subject = f"voter {voter}"
        if progress.leo < progress.acknowledged:
            text = (
                f"Voter {voter} acknowledged the metadata log up to offset {progress.acknowledged} and now ends at "
                f"{progress.leo}: until it has caught up, committed metadata is on one disk less."
            )
            self.core.findings.report(VOTER_LOST_ENTRIES, subject, text)
        else:
            progress.acknowledged = progress.leo
            self.core.findings.clear(VOTER_LOST_ENTRIES, subject)

    def _release(self, replica_id: int) -> None:
        """A replica that asks again has given up its earlier request."""
        if replica_id < 0:
            return  # a reader without a name
        for parked in [each for each in self.parked.values() if each.replica_id == replica_id]:
            self._answer(parked)

    def abandon(self, token: int) -> None:
        if self.parked.pop(token, None) is not None:
            self.core.out.reply(token, None)

    def _has_news(self, parked: Parked) -> bool:
        if self.core.log.leo > parked.asked.fetch_offset:
            return True
        return self.core.hwm > self._progress(parked.replica_id).sent_hwm

    def _serve_parked(self, now: int) -> None:
        for parked in [each for each in self.parked.values() if self._has_news(each)]:
            self._answer(parked)

    def _answer(self, parked: Parked) -> None:
        self.parked.pop(parked.token, None)
        log, offset = self.core.log, parked.asked.fetch_offset
        limit = max(0, min(parked.asked.partition_max_bytes, self.core.config.fetch_max_bytes))
        records = self.core.read_log(offset, limit, log.leo) if offset < log.leo else b""
        self.core.out.reply(parked.token, self._response(parked.replica_id, records=bytes(records)))

    def _response(self, replica_id: int, **content: Any) -> Message:
        core = self.core
        self._progress(replica_id).sent_hwm = core.hwm
        return messages.fetch_response(core.standing(), hwm=core.hwm, log_start=core.log.log_start, **content)

    def _progress(self, replica_id: int) -> Progress:
        known = self.voters.get(replica_id) or self.observers.get(replica_id)
        if known is None:
            if len(self.observers) >= MAX_OBSERVERS:
                self._forget_an_observer()
            known = self.observers[replica_id] = Progress()
        return known

    def _forget_an_observer(self) -> None:
        """Anybody may say that it observes; it costs a leader nothing to forget one."""
        del self.observers[min(self.observers, key=lambda each: self.observers[each].fetch_ms)]

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if now >= self.majority_heard_until():
            self.resign("no_majority", now)
            return
        for parked in [each for each in self.parked.values() if now >= each.deadline]:
            self._answer(parked)
        if now >= self.begin_at:
            self._begin_epoch(now)

    def next_deadline(self) -> int | None:
        parked = min((each.deadline for each in self.parked.values()), default=FOREVER)
        soonest = min(parked, self.begin_at, self.majority_heard_until())
        return soonest if soonest < FOREVER else None

    def majority_heard_until(self) -> int:
        """Q5: a leader that a majority may have left must not go on for ever as if it led; this is when it resigns."""
        if self.core.majority == 1:
            return FOREVER
        heard = sorted((max(each.fetch_ms, self.elected_ms) for each in self.voters.values()), reverse=True)
        return heard[self.core.majority - 2] + self.core.config.check_quorum_ms

    def resign(self, reason: str, now: int) -> None:
        """Make way; the voters that hold most of the log are to stand first."""
        successors = sorted(self.voters, key=lambda voter: (-self.voters[voter].leo, voter))
        self.core.become_resigned(successors, reason, now)

    def _begin_epoch(self, now: int) -> None:
        """Tell voters that have not fetched lately who leads; they may not know."""
        core = self.core
        interval = core.config.begin_epoch_interval_ms
        self.begin_at = now + interval if self.voters else FOREVER
        for voter, progress in self.voters.items():
            if progress.fetch_ms < 0 or progress.fetch_ms <= now - interval:
                request = messages.begin_request(core.cluster_id, voter, core.node_id, core.epoch)
                core.out.send(voter, QUORUM_CHANNEL, request, self._begun, core.request_timeout_ms())

    def _begun(self, response: Message | None, now: int) -> None:
        answer = None if response is None else messages.only(response.topics)
        if self.current and answer is not None:
            standing = messages.standing_in(answer)
            self.core.learn(standing.epoch, standing.leader_id, now)


class Refusal:
    """The fetch position is not in this log: cut back to `diverging`, or load `snapshot`."""

    __slots__ = ("diverging", "snapshot")

    def __init__(
        self, *, diverging: OffsetAndEpoch = messages.NOWHERE, snapshot: OffsetAndEpoch = messages.NOWHERE
    ) -> None:
        self.diverging = diverging
        self.snapshot = snapshot
