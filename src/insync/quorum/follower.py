"""A follower, voter or observer: it fetches the log from the leader and truncates its own where the two diverge (D3).

One request is under way at a time. The next one leaves only when all that was appended is synced, because its offset
acknowledges everything below it (Q4). A voter that gets no good answer within the fetch timeout stands for election; an
observer, which cannot, asks all voters in turn for the leader. An observer that knows no leader follows `NO_NODE`.

Q8: an answer that asks for committed entries back, or that no leader can give, changes nothing here.

Findings: `metadata_contradiction`.
Notes: quorum_leader(epoch, leader), quorum_truncated(epoch, offset, was), quorum_bad_records(peer, error).
"""

from __future__ import annotations

from functools import partial

from insync.findings import CRITICAL
from insync.quorum import damage, messages, snapshot
from insync.quorum.config import FETCH_CHANNEL, NO_NODE
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.snapshot import Download
from insync.quorum.state import RaftState, Role, Transitions
from insync.storage.checkpoints import MAX_OFFSET
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, fetch_snapshot

CONTRADICTION = "metadata_contradiction"


def continues_log(log: Log, records: bytes | bytearray | memoryview, epoch: int) -> bool:
    """Q8: the metadata log has no gaps, and its leader has no entries of a later epoch than its own."""
    expected = log.leo
    newest = log.epochs.last_epoch if log.epochs.last_start < log.leo else -1
    for _, header in batch.iter_headers(records):
        if header.base_offset != expected or not newest <= header.leader_epoch <= epoch:
            return False
        if header.last_offset_delta != header.count - 1 or header.count < 1:
            return False
        expected, newest = header.next_offset, header.leader_epoch
    return True


class Follower(Role):
    __slots__ = (
        "deadline",
        "download",
        "failures",
        "has_leader_resigned",
        "heard",
        "in_flight",
        "leader_hwm",
        "leader_id",
        "retry_at",
    )

    name = "follower"

    def __init__(self, state: RaftState, transitions: Transitions, leader_id: int) -> None:
        super().__init__(state, transitions)
        self.leader_id = leader_id
        self.deadline = 0
        self.heard = False
        """Whether this leader has answered. Every answer postpones the deadline."""
        self.has_leader_resigned = False
        self.in_flight = False
        self.retry_at: int | None = None
        self.failures = 0
        self.leader_hwm = -1
        self.download: Download | None = None

    def enter(self, now: int) -> None:
        state = self.state
        if self.leader_id != NO_NODE and state.noted_leader != (state.epoch, self.leader_id):
            state.noted_leader = (state.epoch, self.leader_id)
            state.out.note("quorum_leader", epoch=state.epoch, leader=self.leader_id)
        self.deadline = now + state.config.fetch_timeout_ms
        self._fetch_more(now)

    def refuses_pre_votes(self) -> bool:
        return self.heard and not self.has_leader_resigned

    def has_heard(self) -> bool:
        return self.heard

    def postpone(self, by_ms: int, now: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if self.state.is_voter and now >= self.deadline:
            self.transitions.become_prospective(now)
        elif self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            self._fetch_more(now)

    def next_deadline(self) -> int | None:
        if not self.state.is_voter:
            return self.retry_at
        return self.deadline if self.retry_at is None else min(self.deadline, self.retry_at)

    def on_leader_resigned(self, successors: list[int], now: int) -> None:
        """Stand for election in the order that the leader gave: the first at once, the others one after the other."""
        state = self.state
        place = successors.index(state.node_id) if state.node_id in successors else len(successors)
        wait = state.config.election_backoff_max_ms * place // max(1, len(successors))
        self.has_leader_resigned = True
        self.deadline = min(self.deadline, now + wait)

    def peer_lost(self, peer: int, now: int) -> None:
        """The leader seems to have died: stand for election sooner, one voter after the other, unless it answers.

        This is only a hint: pre-votes find out whether a majority has lost the leader too.
        """
        state = self.state
        if peer != self.leader_id or not state.is_voter:
            return
        others = [voter for voter in state.voters if voter != peer]
        wait = state.config.election_backoff_max_ms * (others.index(state.node_id) + 1) // (2 * len(others) + 1)
        self.heard = False
        self.deadline = min(self.deadline, now + wait)

    # --- requests ----------------------------------------------------------------------------------------------------

    def on_durable(self, took_ms: int, now: int) -> None:
        self.deadline += took_ms  # no fetch could be sent meanwhile, so the leader was not silent
        self._fetch_more(now)

    def _fetch_more(self, now: int) -> None:
        """Send the next request as soon as everything in the log may be acknowledged."""
        state = self.state
        if state.acknowledged() < state.log.leo:
            state.request_sync(now)
            return
        state.advance_hwm(min(self.leader_hwm, state.log.leo))
        if self.heard:
            state.restore_if_caught_up()
            state.sync_checkpoint(now)
        if not self.in_flight and self.retry_at is None:
            self.in_flight = True
            self._send_request(self._choose_peer())

    def _choose_peer(self) -> int:
        if self.leader_id != NO_NODE and (self.state.is_voter or self.failures == 0):
            return self.leader_id
        return self.state.voters[self.failures % len(self.state.voters)]

    def _send_request(self, peer: int) -> None:
        state, config, download = self.state, self.state.config, self.download
        request: fetch.FetchRequest | fetch_snapshot.FetchSnapshotRequest
        if download is not None:
            request = messages.fetch_snapshot_request(
                state.cluster_id,
                state.node_id,
                state.epoch,
                download.id,
                len(download.data),
                config.snapshot_chunk_bytes,
            )
            on_response = partial(self._on_snapshot_response, download)
        else:
            request = messages.fetch_request(
                state.cluster_id, state.node_id, state.epoch, state.log_end(), state.log.log_start, config
            )
            on_response = partial(self._on_fetch_response, peer)
        state.out.send(peer, FETCH_CHANNEL, request, on_response, config.request_timeout_ms)

    def _retry(self, now: int) -> None:
        """Ask again after a pause that grows with each failure; an observer asks another voter."""
        config = self.state.config
        wait = min(config.fetch_max_wait_ms, config.retry_backoff_ms << min(self.failures, 10))
        self.failures += 1
        self.retry_at = now + wait

    # --- answers -----------------------------------------------------------------------------------------------------

    def _is_from_leader(self, answer: fetch.PartitionData | fetch_snapshot.ResponsePartition | None, now: int) -> bool:
        """Whether the followed leader answered; if not, learn from the answer which leader there is, or retry."""
        self.in_flight = False
        if answer is None:
            self._retry(now)
            return False
        info = messages.read_leader_info(answer)
        if self.transitions.learn(info.epoch, info.leader_id, now):
            return False
        if info.epoch != self.state.epoch or info.error is not ErrorCode.none:
            self.download = None
            self._retry(now)
            return False
        if not self.heard:
            self.state.damage.on_leader_heard()
        self.heard = True
        self.failures = 0
        if not self.has_leader_resigned:
            self.deadline = now + self.state.config.fetch_timeout_ms
        return True

    def _on_fetch_response(self, peer: int, response: fetch.FetchResponse | None, now: int) -> None:
        self.state.check_cluster_id(peer, response)
        if not self.is_current:
            return
        answer = None if response is None else messages.metadata_partition(response.responses)
        if self._is_from_leader(answer, now) and answer is not None and self._apply(peer, answer, now):
            self._fetch_more(now)

    def _apply(self, peer: int, answer: fetch.PartitionData, now: int) -> bool:
        state = self.state
        if answer.diverging_epoch.epoch >= 0:
            theirs = OffsetAndEpoch(answer.diverging_epoch.end_offset, answer.diverging_epoch.epoch)
            return self._truncate(theirs, now)
        if answer.snapshot_id.epoch >= 0:
            offered = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
            if not 0 <= offered.offset <= MAX_OFFSET or offered.epoch > state.epoch:
                return self._refuse_records(peer, ErrorCode.invalid_request, now)
            if not state.keeps_committed(offered.offset):
                return self._refuse_truncation(offered.offset, now)
            self.download = Download(offered)
            return True
        return self._append(peer, answer, now)

    def _append(self, peer: int, answer: fetch.PartitionData, now: int) -> bool:
        state = self.state
        if answer.records:
            if not continues_log(state.log, answer.records, state.epoch):
                return self._refuse_records(peer, ErrorCode.invalid_record, now)
            error = state.log.append_as_follower(answer.records)
            if error is not ErrorCode.none:
                return self._refuse_records(peer, error, now)
        self.leader_hwm = max(self.leader_hwm, answer.high_watermark)
        state.findings.clear(CONTRADICTION, damage.SUBJECT)
        return True

    def _refuse_records(self, peer: int, error: ErrorCode, now: int) -> bool:
        self.state.out.note("quorum_bad_records", peer=peer, error=error.name)
        self._retry(now)
        return False

    def _truncate(self, theirs: OffsetAndEpoch, now: int) -> bool:
        """D3: truncate to the end of the newest epoch that both may share, and not past what the leader has of it."""
        state = self.state
        ours = state.log.epochs.end_offset_for(theirs.epoch, state.log.leo)
        offset = min(theirs.offset, state.log.log_start if ours is None else ours[1])
        if not state.keeps_committed(offset):
            return self._refuse_truncation(offset, now)
        was = state.log.leo
        state.truncate_to(offset)
        state.out.note("quorum_truncated", epoch=state.epoch, offset=offset, was=was)
        return True

    def _refuse_truncation(self, offset: int, now: int) -> bool:
        """S7, Q8: the leader lacks committed entries, so a majority has lost them; this replica keeps them."""
        state = self.state
        text = (
            f"Leader {self.leader_id} of epoch {state.epoch} asks this node to remove committed metadata from offset "
            f"{offset} on. This node keeps its log, which ends at offset {state.log.leo}, and does not follow: voters "
            "have lost metadata, or an old copy of their files was restored."
        )
        state.findings.report(CONTRADICTION, damage.SUBJECT, text, CRITICAL)
        self.failures = max(self.failures, 10)
        self._retry(now)
        return False

    def _on_snapshot_response(
        self, download: Download, response: fetch_snapshot.FetchSnapshotResponse | None, now: int
    ) -> None:
        if not self.is_current or self.download is not download:
            return
        answer = None if response is None else messages.metadata_partition(response.topics)
        if not self._is_from_leader(answer, now) or answer is None:
            return
        sound = download.add(answer, self.state.config.snapshot_max_bytes)
        if download.is_complete or not sound:
            self.download = None
        if not sound or (download.is_complete and not snapshot.install(self.state, download, now)):
            self._retry(now)
        elif self.is_current:
            self._fetch_more(now)
