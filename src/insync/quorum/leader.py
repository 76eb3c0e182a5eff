"""The leader of the metadata log: it appends, serves fetches, and commits what a majority of voters holds on disk (Q5).

A voter fetches from where its synced log ends, so a fetch offset acknowledges everything below it. The leader counts
its own log only as far as it is synced too. Entries of earlier epochs are committed only together with one of its own;
each epoch begins with a leader-change record, so that there is one at once.

A fetch that finds nothing new is parked until there are records, until the high watermark is above the one last sent to
that replica, or until its time is up.

Findings: `voter_lost_entries`. Notes: quorum_leader(epoch, leader).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from insync.quorum import messages
from insync.quorum.config import QUORUM_CHANNEL
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.state import RaftState, Role, Transitions
from insync.wire import batch, control
from insync.wire.errors import ErrorCode
from insync.wire.messages import begin_quorum_epoch
from insync.wire.messages import fetch as fetch_messages
from insync.wire.types import millis

NO_DEADLINE = 1 << 62
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


class ParkedFetch:
    __slots__ = ("deadline", "partition", "replica_id", "token")

    def __init__(self, token: int, replica_id: int, partition: fetch_messages.FetchPartition, deadline: int) -> None:
        self.token = token
        self.replica_id = replica_id
        self.partition = partition
        self.deadline = deadline


def majority_offset(offsets: Sequence[int], majority: int) -> int:
    """Q5: the highest offset that at least `majority` of these have reached."""
    return sorted(offsets, reverse=True)[majority - 1]


def covers_own_epoch(offset: int, epoch_start: int) -> bool:
    """Q5: an entry of an earlier epoch may be on a majority and yet be overwritten; one of the leader's own may not."""
    return offset > epoch_start


class Leader(Role):
    __slots__ = (
        "begin_at",
        "elected_ms",
        "epoch_start",
        "granted_by",
        "is_established",
        "observers",
        "parked",
        "voters",
    )

    name = "leader"
    is_leader = True

    def __init__(self, state: RaftState, transitions: Transitions, granted_by: Sequence[int]) -> None:
        super().__init__(state, transitions)
        self.granted_by = tuple(granted_by)
        self.epoch_start = state.log.leo
        self.is_established = False
        """Whether an entry of this epoch, and so everything before it, is committed."""
        self.elected_ms = 0
        self.begin_at = 0
        self.voters = {voter: Progress() for voter in state.other_voters}
        self.observers: dict[int, Progress] = {}
        self.parked: dict[int, ParkedFetch] = {}

    def enter(self, now: int) -> None:
        state = self.state
        state.out.note("quorum_leader", epoch=state.epoch, leader=state.node_id)
        self.elected_ms = now
        state.log.epochs.assign(state.epoch, self.epoch_start)
        leader_change = control.leader_change_batch(
            leader_id=state.node_id,
            voters=state.voters,
            granting_voters=self.granted_by,
            base_offset=self.epoch_start,
            leader_epoch=state.epoch,
            timestamp_ms=now + state.config.wall_offset_ms,
        )
        self._append(leader_change, now)
        self._begin_epoch(now)

    def leave(self, now: int) -> None:
        answer = messages.fetch_response(self.state.leader_info(ErrorCode.not_leader_or_follower))
        for token in self.parked:
            self.state.out.reply(token, answer)
        self.parked.clear()
        for voter in self.voters:
            self.state.findings.clear(VOTER_LOST_ENTRIES, f"voter {voter}")

    def refuses_pre_votes(self) -> bool:
        return True

    def postpone(self, by_ms: int, now: int) -> None:
        self.elected_ms = now  # no voter heard of this leader before its election was on disk

    # --- appending and committing ------------------------------------------------------------------------------------

    def propose(self, payloads: Sequence[bytes], now: int) -> int:
        """Append one batch and return the offset of its last record, which is committed once the high watermark is
        above it."""
        entries = [batch.NewRecord(None, payload) for payload in payloads]
        data = batch.build(entries, timestamp_ms=now + self.state.config.wall_offset_ms)
        return self._append(data, now) + len(entries) - 1

    def _append(self, data: bytearray, now: int) -> int:
        state = self.state
        base = state.log.append_as_leader(data, batch.read_header(data), state.epoch, now)
        state.request_sync(now)
        self._serve_parked(now)
        return base

    def on_durable(self, took_ms: int, now: int) -> None:
        self._advance_hwm(now)

    @property
    def has_committed_own_epoch(self) -> bool:
        """Q5: until then the high watermark may be lower than an earlier leader's."""
        return covers_own_epoch(self.state.hwm, self.epoch_start)

    def _advance_hwm(self, now: int) -> None:
        """Commit as far as a majority allows, and answer the fetches that wait for it."""
        state = self.state
        offsets = [state.acknowledged(), *(progress.leo for progress in self.voters.values())]
        offset = majority_offset(offsets, state.majority)
        if offset <= state.hwm or not covers_own_epoch(offset, self.epoch_start):
            return
        state.advance_hwm(offset)
        if not self.is_established:
            self.is_established = True
            state.damage.on_leader_heard()
        self._serve_parked(now)

    # --- fetches -----------------------------------------------------------------------------------------------------

    def fetch(
        self, request: fetch_messages.FetchRequest, partition: fetch_messages.FetchPartition, token: int, now: int
    ) -> None:
        """Serve one fetch of this epoch: record what the replica holds, then answer or park."""
        replica_id = request.replica_state.replica_id
        redirect = self._check_position(partition.fetch_offset, partition.last_fetched_epoch)
        if redirect is not None:
            self.record_fetch(replica_id, now)
            answer = self._response(replica_id, diverging=redirect.diverging, snapshot=redirect.snapshot)
            self.state.out.reply(token, answer)
            return
        self._acknowledge(replica_id, partition.fetch_offset, now)
        self._answer_earlier_fetch(replica_id)
        wait_ms = min(millis(request.max_wait), self.state.config.fetch_timeout_ms)
        fetch = ParkedFetch(token, replica_id, partition, now + wait_ms)
        if fetch.deadline > now and not self._has_news(fetch):
            self.parked[token] = fetch
        else:
            self._answer(fetch)

    def _check_position(self, offset: int, epoch: int) -> FetchRedirect | None:
        """None if a log that ends at (offset, epoch) is a prefix of this one, else what its owner must do (D2, Q6)."""
        log, snapshots = self.state.log, self.state.snapshots
        first, latest = snapshots.earliest, snapshots.latest
        if first is not None and latest is not None:
            if offset == 0 or offset < log.log_start or epoch < first.epoch:
                return FetchRedirect(snapshot=latest)
            if (offset, epoch) == first:
                return None
            if offset == log.log_start == first.offset:
                return FetchRedirect(snapshot=latest)
        elif offset == 0:
            return None
        return self._check_divergence(offset, epoch)

    def _check_divergence(self, offset: int, epoch: int) -> FetchRedirect | None:
        epoch_end = self.state.log.epochs.end_offset_for(epoch, self.state.log.leo)
        if epoch_end is None:
            return FetchRedirect(diverging=OffsetAndEpoch(self.state.log.log_start, epoch))
        known, end = epoch_end
        if known == epoch and offset <= end:
            return None
        return FetchRedirect(diverging=OffsetAndEpoch(end, known))

    def record_fetch(self, replica_id: int, now: int) -> Progress:
        """Q5: any fetch, of records or of a snapshot, shows that the replica follows this leader."""
        progress = self._progress(replica_id)
        progress.fetch_ms = now
        return progress

    def _acknowledge(self, replica_id: int, offset: int, now: int) -> None:
        progress = self.record_fetch(replica_id, now)
        progress.leo = offset
        if offset >= self.state.log.leo:
            progress.caught_up_ms = now
        if replica_id in self.voters:
            self._report_lost_entries(replica_id, progress)
            self._advance_hwm(now)

    def _report_lost_entries(self, voter: int, progress: Progress) -> None:
        """Q8: a voter that fetches from below what it acknowledged has lost entries, whether it knows or not."""
        subject = f"voter {voter}"
        if progress.leo < progress.acknowledged:
            text = (
                f"Voter {voter} acknowledged the metadata log up to offset {progress.acknowledged} and now ends at "
                f"{progress.leo}: until it has caught up, committed metadata is on one disk less."
            )
            self.state.findings.report(VOTER_LOST_ENTRIES, subject, text)
        else:
            progress.acknowledged = progress.leo
            self.state.findings.clear(VOTER_LOST_ENTRIES, subject)

    def _answer_earlier_fetch(self, replica_id: int) -> None:
        """A replica that asks again has given up its earlier request."""
        if replica_id < 0:
            return  # readers without an id are not told apart
        for fetch in [fetch for fetch in self.parked.values() if fetch.replica_id == replica_id]:
            self._answer(fetch)

    def abandon(self, token: int) -> None:
        if self.parked.pop(token, None) is not None:
            self.state.out.reply(token, None)

    def _has_news(self, fetch: ParkedFetch) -> bool:
        if self.state.log.leo > fetch.partition.fetch_offset:
            return True
        return self.state.hwm > self._progress(fetch.replica_id).sent_hwm

    def _serve_parked(self, now: int) -> None:
        for fetch in [fetch for fetch in self.parked.values() if self._has_news(fetch)]:
            self._answer(fetch)

    def _answer(self, fetch: ParkedFetch) -> None:
        self.parked.pop(fetch.token, None)
        log, offset = self.state.log, fetch.partition.fetch_offset
        limit = max(0, min(fetch.partition.partition_max_bytes, self.state.config.fetch_max_bytes))
        records = self.state.read_log(offset, limit, log.leo) if offset < log.leo else b""
        self.state.out.reply(fetch.token, self._response(fetch.replica_id, records=bytes(records)))

    def _response(self, replica_id: int, **content: Any) -> fetch_messages.FetchResponse:
        state = self.state
        self._progress(replica_id).sent_hwm = state.hwm
        return messages.fetch_response(state.leader_info(), hwm=state.hwm, log_start=state.log.log_start, **content)

    def _progress(self, replica_id: int) -> Progress:
        progress = self.voters.get(replica_id) or self.observers.get(replica_id)
        if progress is None:
            if len(self.observers) >= MAX_OBSERVERS:
                self._forget_an_observer()
            progress = self.observers[replica_id] = Progress()
        return progress

    def _forget_an_observer(self) -> None:
        """Any client may claim to be an observer, so their number is limited. Forgetting one has no other effect."""
        del self.observers[min(self.observers, key=lambda observer: self.observers[observer].fetch_ms)]

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if now >= self.resign_deadline():
            self.resign("no_majority", now)
            return
        for fetch in [fetch for fetch in self.parked.values() if now >= fetch.deadline]:
            self._answer(fetch)
        if now >= self.begin_at:
            self._begin_epoch(now)

    def next_deadline(self) -> int | None:
        parked = min((fetch.deadline for fetch in self.parked.values()), default=NO_DEADLINE)
        soonest = min(parked, self.begin_at, self.resign_deadline())
        return soonest if soonest < NO_DEADLINE else None

    def resign_deadline(self) -> int:
        """Q5: a leader must not keep leading once a majority may have left it; this is when it resigns. Before its
        election is on disk no voter has heard of it, so none can have left."""
        if self.state.majority == 1 or self.state.is_waiting_for_disk:
            return NO_DEADLINE
        fetched_ms = sorted(
            (max(progress.fetch_ms, self.elected_ms) for progress in self.voters.values()), reverse=True
        )
        return fetched_ms[self.state.majority - 2] + self.state.config.check_quorum_ms

    def resign(self, reason: str, now: int) -> None:
        """Give up leadership. The voters with the longest logs are asked to stand for election first."""
        successors = sorted(self.voters, key=lambda voter: (-self.voters[voter].leo, voter))
        self.transitions.become_resigned(successors, reason, now)

    def _begin_epoch(self, now: int) -> None:
        """Name the leader to voters that have not fetched lately; they may not know it."""
        state = self.state
        interval = state.config.begin_epoch_interval_ms
        self.begin_at = now + interval if self.voters else NO_DEADLINE
        for voter, progress in self.voters.items():
            if progress.fetch_ms < 0 or progress.fetch_ms <= now - interval:
                request = messages.begin_request(state.cluster_id, voter, state.node_id, state.epoch)
                timeout_ms = state.timeouts.request_timeout_ms()
                state.out.send(voter, QUORUM_CHANNEL, request, self._on_begin_response, timeout_ms)

    def _on_begin_response(self, response: begin_quorum_epoch.BeginQuorumEpochResponse | None, now: int) -> None:
        answer = None if response is None else messages.metadata_partition(response.topics)
        if self.is_current and answer is not None:
            info = messages.read_leader_info(answer)
            self.transitions.learn(info.epoch, info.leader_id, now)


class FetchRedirect:
    """The fetch position is not in this log: truncate to `diverging`, or load `snapshot`."""

    __slots__ = ("diverging", "snapshot")

    def __init__(
        self, *, diverging: OffsetAndEpoch = messages.NO_POSITION, snapshot: OffsetAndEpoch = messages.NO_POSITION
    ) -> None:
        self.diverging = diverging
        self.snapshot = snapshot
