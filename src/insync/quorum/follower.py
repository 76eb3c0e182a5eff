"""A follower, voter or observer: it pulls the log from the leader and cuts its own back where the two part (Q4, D3).

One request is under way at a time. The next one leaves only when all that was appended is synced, because its offset
acknowledges everything below it. A voter that gets no good answer within the fetch timeout stands for election; an
observer, which cannot, asks all voters in turn who leads. An observer that knows no leader yet is a follower of nobody.

Q8: an answer that asks for committed entries back, or that no leader can give, changes nothing here.

Findings: `metadata_contradiction`.
Notes: quorum_leader(epoch, leader), quorum_truncated(epoch, offset, was), quorum_bad_records(peer, error).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from insync.findings import CRITICAL
from insync.quorum import damage, messages, snapshot
from insync.quorum.config import FETCH_CHANNEL, NOBODY
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.role import Role
from insync.quorum.snapshot import Download
from insync.sansio import Message
from insync.storage.checkpoints import MAX_OFFSET
from insync.wire import batch
from insync.wire.errors import ErrorCode

if TYPE_CHECKING:
    from insync.quorum.core import Core
    from insync.storage.log import Log

CONTRADICTION = "metadata_contradiction"


def continues_log(log: Log, records: bytes, epoch: int) -> bool:
    """Q8: the metadata log has no gaps, and its leader has no entries of a later epoch than its own."""
    expected = log.leo
    newest = log.last_epoch if log.epochs.last_start < log.leo else -1
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
        "ended",
        "failures",
        "heard",
        "in_flight",
        "leader_hwm",
        "leader_id",
        "retry_at",
    )

    name = "follower"

    def __init__(self, core: Core, leader_id: int) -> None:
        super().__init__(core)
        self.leader_id = leader_id
        self.deadline = 0
        self.heard = False
        """Whether this leader has answered us; while we go on hearing from it, the fetch timeout does not strike."""
        self.ended = False
        self.in_flight = False
        self.retry_at: int | None = None
        self.failures = 0
        self.leader_hwm = -1
        self.download: Download | None = None

    def enter(self, now: int) -> None:
        core = self.core
        if self.leader_id != NOBODY and core.noted_leader != (core.epoch, self.leader_id):
            core.noted_leader = (core.epoch, self.leader_id)
            core.out.note("quorum_leader", epoch=core.epoch, leader=self.leader_id)
        self.deadline = now + core.config.fetch_timeout_ms
        self._proceed(now)

    def refuses_pre_votes(self) -> bool:
        return self.heard and not self.ended

    def has_heard(self) -> bool:
        return self.heard

    def postpone(self, by_ms: int) -> None:
        self.deadline += by_ms

    def tick(self, now: int) -> None:
        if self.core.is_voter and now >= self.deadline:
            self.core.become_prospective(now)
        elif self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            self._proceed(now)

    def next_deadline(self) -> int | None:
        if not self.core.is_voter:
            return self.retry_at
        return self.deadline if self.retry_at is None else min(self.deadline, self.retry_at)

    def leader_ends(self, successors: list[int], now: int) -> None:
        """The leader resigned: stand in the order that it gave, the first at once, each later one after the earlier."""
        core = self.core
        place = successors.index(core.node_id) if core.node_id in successors else len(successors)
        wait = core.config.election_backoff_max_ms * place // max(1, len(successors))
        self.ended = True
        self.deadline = min(self.deadline, now + wait)

    def peer_lost(self, peer: int, now: int) -> None:
        """The leader seems to have died: stand sooner, one voter after the other, unless it is heard from meanwhile.

        Only a hint, so nothing is taken for granted: pre-votes find out whether a majority has lost the leader too.
        """
        core = self.core
        if peer != self.leader_id or not core.is_voter:
            return
        others = [voter for voter in core.voters if voter != peer]
        wait = core.config.election_backoff_max_ms * (others.index(core.node_id) + 1) // (2 * len(others) + 1)
        self.heard = False
        self.deadline = min(self.deadline, now + wait)

    # --- asking ------------------------------------------------------------------------------------------------------

    def on_durable(self, now: int) -> None:
        self._proceed(now)

    def _proceed(self, now: int) -> None:
        """Ask for more, as soon as all that we hold is safe to acknowledge."""
        core = self.core
        if core.acknowledged() < core.log.leo:
            core.request_sync(now)
            return
        core.advance_hwm(min(self.leader_hwm, core.log.leo), now)
        if self.heard:
            damage.restore_if_caught_up(core, now)
            core.sync_checkpoint(now)
        if self.current and not self.in_flight and self.retry_at is None:
            self.in_flight = True
            self._ask(self._whom_to_ask())

    def _whom_to_ask(self) -> int:
        if self.leader_id != NOBODY and (self.core.is_voter or self.failures == 0):
            return self.leader_id
        return self.core.voters[self.failures % len(self.core.voters)]

    def _ask(self, peer: int) -> None:
        core = self.core
        if self.download is not None:
            request = self.download.next_request(core)
            on_response = partial(self._downloaded, self.download)
        else:
            request = messages.fetch_request(
                core.cluster_id, core.node_id, core.epoch, core.log_end(), core.log.log_start, core.config
            )
            on_response = partial(self._fetched, peer)
        core.out.send(peer, FETCH_CHANNEL, request, on_response, core.config.request_timeout_ms)

    def _retry(self, now: int) -> None:
        """Wait a little, longer each time, and ask again; an observer asks another voter."""
        config = self.core.config
        wait = min(config.fetch_max_wait_ms, config.retry_backoff_ms << min(self.failures, 10))
        self.failures += 1
        self.retry_at = now + wait

    # --- answers -----------------------------------------------------------------------------------------------------

    def _accepted(self, answer: Any | None, now: int) -> bool:
        """Whether the leader we follow answered; if not, learn what there is to learn and go on from there."""
        self.in_flight = False
        if answer is None:
            self._retry(now)
            return False
        standing = messages.standing_in(answer)
        if self.core.learn(standing.epoch, standing.leader_id, now):
            return False
        if standing.epoch != self.core.epoch or standing.error is not ErrorCode.none:
            self.download = None
            self._retry(now)
            return False
        if not self.heard:
            self.core.damaged_peers.clear()
            damage.clear_lost_majority(self.core)
        self.heard = True
        self.failures = 0
        if not self.ended:
            self.deadline = now + self.core.config.fetch_timeout_ms
        return True

    def _fetched(self, peer: int, response: Message | None, now: int) -> None:
        self.core.check_cluster(peer, response)
        if not self.current:
            return
        answer = None if response is None else messages.only(response.responses)
        if self._accepted(answer, now) and answer is not None and self._apply(peer, answer, now):
            self._proceed(now)

    def _apply(self, peer: int, answer: Any, now: int) -> bool:
        core = self.core
        if answer.diverging_epoch.epoch >= 0:
            theirs = OffsetAndEpoch(answer.diverging_epoch.end_offset, answer.diverging_epoch.epoch)
            return self._truncate(theirs, now)
        if answer.snapshot_id.epoch >= 0:
            offered = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
            if not 0 <= offered.offset <= MAX_OFFSET or offered.epoch > core.epoch:
                return self._refuse_records(peer, ErrorCode.invalid_request, now)
            if not core.keeps_committed(offered.offset):
                return self._refuse_to_forget(offered.offset, now)
            self.download = Download(offered)
            return True
        return self._append(peer, answer, now)

    def _append(self, peer: int, answer: Any, now: int) -> bool:
        core = self.core
        if answer.records:
            if not continues_log(core.log, answer.records, core.epoch):
                return self._refuse_records(peer, ErrorCode.invalid_record, now)
            error = core.log.append_as_follower(answer.records)
            if error is not ErrorCode.none:
                return self._refuse_records(peer, error, now)
        self.leader_hwm = max(self.leader_hwm, answer.high_watermark)
        core.findings.clear(CONTRADICTION, damage.SUBJECT)
        return True

    def _refuse_records(self, peer: int, error: ErrorCode, now: int) -> bool:
        self.core.out.note("quorum_bad_records", peer=peer, error=error.name)
        self._retry(now)
        return False

    def _truncate(self, theirs: OffsetAndEpoch, now: int) -> bool:
        """D3: to the end of the newest epoch that both may share, and never past what the leader has of it."""
        core = self.core
        ours = core.log.end_offset_for(theirs.epoch)
        offset = min(theirs.offset, core.log.log_start if ours is None else ours[1])
        if not core.keeps_committed(offset):
            return self._refuse_to_forget(offset, now)
        was = core.log.leo
        core.cut_to(offset)
        core.out.note("quorum_truncated", epoch=core.epoch, offset=offset, was=was)
        return True

    def _refuse_to_forget(self, offset: int, now: int) -> bool:
        """S7, Q8: the leader lacks what was committed, so a majority has lost it; here it is kept."""
        core = self.core
        text = (
            f"Leader {self.leader_id} of epoch {core.epoch} asks this node to remove committed metadata from offset "
            f"{offset} on. This node keeps its log, which ends at offset {core.log.leo}, and does not follow: voters "
            "have lost metadata, or an old copy of their files was restored."
        )
        core.findings.report(CONTRADICTION, damage.SUBJECT, text, CRITICAL)
        self.failures = max(self.failures, 10)
        self._retry(now)
        return False

    def _downloaded(self, download: Download, response: Message | None, now: int) -> None:
        if not self.current or self.download is not download:
            return
        answer = None if response is None else messages.only(response.topics)
        if not self._accepted(answer, now) or answer is None:
            return
        sound = download.take(answer, self.core.config.snapshot_max_bytes)
        if download.complete or not sound:
            self.download = None
        if not sound or (download.complete and not snapshot.install(self.core, download, now)):
            self._retry(now)
        elif self.current:
            self._proceed(now)
