"""Sending ISR proposals to the controller (I3): many partitions in one request, one request in flight.

What a response, or its absence, means for a proposal:
- success: it is committed, unless the response has a new leader epoch, which only the metadata log explains;
- a refusal that proves it was not applied: back to the committed state. If a copy that was sent earlier may still
  arrive, the proposal is first withdrawn (see `leader`);
- no response, or one that decides nothing (another controller leads): the same proposal again, after a backoff;
- a response which says that the partition has moved on: wait for the metadata log. If it stays silent, because the
  controller that said so was deposed together with its change, the proposal is sent once more; the partition epoch in
  it makes that harmless.
After a lost response a refusal may come from the proposal's own success: an older epoch proves nothing then.

Notes: alter_partition_overtaken(partition).
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from insync.replication.isr import Proposal, Withdrawal
from insync.replication.leader import Leader, leader_of
from insync.replication.replica import Replica
from insync.replication.state import ReplicationState
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition

CHANNEL = "controller"
MAX_PROPOSALS = 500
"""In one request; the others are sent when it is answered."""
RECOVERED = 0

NOT_APPLIED = (ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted)
"""The controller compared the partition epoch first and found it current, so no attempt has been applied so far."""
REFUSED = (ErrorCode.fenced_leader_epoch, ErrorCode.invalid_request)
"""A refusal that proves the same, but only for a first attempt."""
MOVED_ON = (
    ErrorCode.invalid_update_version,
    ErrorCode.new_leader_elected,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
)


class Attempt:
    """A proposal in flight. `uncertain`: an earlier sending of it got no response, and may have been applied."""

    __slots__ = ("due", "proposal", "replica", "uncertain")

    def __init__(self, replica: Replica, proposal: Proposal, due: int, *, uncertain: bool = False) -> None:
        self.replica = replica
        self.proposal = proposal
        self.due = due
        self.uncertain = uncertain

    def pending_leader(self) -> Leader | None:
        """The leader that waits for the outcome. I3: None once metadata has replaced the pending state."""
        leader = leader_of(self.replica)
        return leader if leader is not None and leader.isr_state is self.proposal else None


class AlterPartitionSender:
    __slots__ = ("_finish_step", "_in_flight", "_state", "attempts")

    def __init__(self, state: ReplicationState, finish_step: Callable[[int], None]) -> None:
        self._state = state
        self._finish_step = finish_step
        self.attempts: dict[Replica, Attempt] = {}
        """Proposals without an outcome."""
        self._in_flight = False

    def send_ready(self, now: int) -> None:
        """Send everything that is due in one request, unless one is in flight."""
        state = self._state
        for replica, proposal in state.proposed.items():
            self.attempts[replica] = Attempt(replica, proposal, now)
        state.proposed.clear()
        if self._in_flight:
            return
        self.attempts = {r: attempt for r, attempt in self.attempts.items() if attempt.pending_leader() is not None}
        ready = [attempt for attempt in self.attempts.values() if attempt.due <= now][:MAX_PROPOSALS]
        if not ready:
            return
        controller = state.cluster.controller_id
        if controller < 0:
            self._postpone(ready, now + state.config.alter_partition_backoff_ms)
            return
        self._in_flight = True
        state.out.send(
            controller,
            CHANNEL,
            self._make_request(ready),
            lambda response, at: self._on_response(ready, response, at),
            state.config.alter_partition_timeout_ms,
        )

    def next_deadline(self) -> int | None:
        if self._in_flight or not self.attempts:
            return None
        return min(attempt.due for attempt in self.attempts.values())

    def _postpone(self, attempts: list[Attempt], due: int, *, uncertain: bool = False) -> None:
        for attempt in attempts:
            attempt.due = due
            attempt.uncertain = attempt.uncertain or uncertain

    def _make_request(self, ready: list[Attempt]) -> alter_partition.AlterPartitionRequest:
        topics: dict[UUID, list[alter_partition.RequestPartition]] = {}
        for attempt in ready:
            proposal, (topic_id, index) = attempt.proposal, attempt.replica.key
            topics.setdefault(topic_id, []).append(
                alter_partition.RequestPartition(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=tuple(
                        alter_partition.BrokerState(broker_id=broker, broker_epoch=epoch)
                        for broker, epoch in proposal.members
                    ),
                    leader_recovery_state=RECOVERED,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return alter_partition.AlterPartitionRequest(
            broker_id=self._state.broker_id,
            broker_epoch=self._state.cluster.broker_epoch,
            topics=tuple(
                alter_partition.RequestTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )

    # --- responses ---

    def _on_response(
        self, sent: list[Attempt], response: alter_partition.AlterPartitionResponse | None, now: int
    ) -> None:
        self._in_flight = False
        retry_at = now + self._state.config.alter_partition_backoff_ms
        if response is None:
            self._postpone(sent, retry_at, uncertain=True)
        elif response.error_code is not ErrorCode.none:
            self._state.counters["failed_isr_updates"] += len(sent)
            self._postpone(sent, retry_at)
        else:
            results = {(t.topic_id, p.partition_index): p for t in response.topics for p in t.partitions}
            for attempt in sent:
                self._on_result(attempt, results.get(attempt.replica.key), now)
        self._finish_step(now)

    def _on_result(self, attempt: Attempt, result: alter_partition.ResponsePartition | None, now: int) -> None:
        leader = attempt.pending_leader()
        if leader is None:
            self._remove(attempt)
            self._state.out.note("alter_partition_overtaken", partition=attempt.replica.partition.name)
        elif result is None:
            self._postpone([attempt], now + self._state.config.alter_partition_backoff_ms, uncertain=True)
        elif result.error_code is not ErrorCode.none:
            self._on_error(leader, attempt, result.error_code, now)
        elif leader.accept_proposal(attempt.proposal, result, now):
            self._remove(attempt)
        else:
            self._wait_for_metadata(attempt, now)

    def _on_error(self, leader: Leader, attempt: Attempt, error: ErrorCode, now: int) -> None:
        retry_at = now + self._state.config.alter_partition_backoff_ms
        if not proves_not_applied(error, uncertain=attempt.uncertain):
            self._state.counters["failed_isr_updates"] += 1
            if error in MOVED_ON or error in REFUSED:
                self._wait_for_metadata(attempt, now)
            else:
                self._postpone([attempt], retry_at)
        elif isinstance(attempt.proposal, Withdrawal):
            self._postpone([attempt], retry_at)
        elif may_yet_be_applied(attempt.proposal, uncertain=attempt.uncertain):
            withdrawal = leader.withdraw_proposal(attempt.proposal)
            self.attempts[attempt.replica] = Attempt(attempt.replica, withdrawal, retry_at, uncertain=True)
        else:
            self._remove(attempt)
            leader.revert_proposal(attempt.proposal, error, now)

    def _wait_for_metadata(self, attempt: Attempt, now: int) -> None:
        # The change that the response spoke of may be this proposal's own, so the outcome is uncertain.
        self._postpone([attempt], now + self._state.config.alter_partition_metadata_timeout_ms, uncertain=True)

    def _remove(self, attempt: Attempt) -> None:
        """The outcome is known. The leader may have proposed the next change already, which stays."""
        if self.attempts.get(attempt.replica) is attempt:
            del self.attempts[attempt.replica]


def proves_not_applied(error: ErrorCode, *, uncertain: bool) -> bool:
    """I3: only with this proof is the maximal ISR given up."""
    return error in NOT_APPLIED or (error in REFUSED and not uncertain)


def may_yet_be_applied(proposal: Proposal, *, uncertain: bool) -> bool:
    """I3: an earlier sending without a response may arrive after this refusal. A mere shrink does no harm then."""
    return uncertain and any(broker not in proposal.isr for broker in proposal.proposed)
