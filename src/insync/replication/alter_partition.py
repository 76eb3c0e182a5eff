"""Bringing ISR proposals to the controller (I3): many partitions in one request, one request in flight.

What an answer, or none, means for a proposal:
- success: committed, unless the answer tells of a new leader epoch, which only the metadata log explains;
- a refusal that proves it was not applied: back to the committed state. If a copy that was sent earlier may still
  arrive, it is first withdrawn (`isr_changes`);
- no answer, or an answer that decides nothing (another controller leads): the same proposal again, after a while;
- an answer which says that the partition has moved on: the metadata log will tell. If it does not for long, because
  the controller that said so was deposed with its change, the proposal is sent once more; the partition epoch in it
  makes that harmless.
After a lost answer a refusal may stem from the proposal's own success: an older epoch proves nothing then.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from insync.replication import isr_changes
from insync.replication.core import Core
from insync.replication.isr import Proposal, Withdrawal
from insync.replication.leader import Leader
from insync.replication.replica import Replica
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition

CHANNEL = "controller"
MAX_PROPOSALS = 500
"""In one request, which has a limit; the others follow when it is answered."""
RECOVERED = 0

NOT_APPLIED = (ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted)
"""The controller compared the partition epoch first and found it current: no attempt was applied so far."""
REFUSED = (ErrorCode.fenced_leader_epoch, ErrorCode.invalid_request)
"""Refused, which proves as much only for the first attempt."""
MOVED_ON = (
    ErrorCode.invalid_update_version,
    ErrorCode.new_leader_elected,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
)


class Attempt:
    """A proposal on its way. `uncertain`: an earlier sending of it was lost, and may have been applied."""

    __slots__ = ("due", "proposal", "replica", "uncertain")

    def __init__(self, replica: Replica, proposal: Proposal, due: int) -> None:
        self.replica = replica
        self.proposal = proposal
        self.due = due
        self.uncertain = False


class AlterPartitionSender:
    __slots__ = ("_attempts", "_core", "_finish", "_in_flight")

    def __init__(self, core: Core, finish: Callable[[int], None]) -> None:
        self._core = core
        self._finish = finish
        self._attempts: dict[Replica, Attempt] = {}
        self._in_flight = False

    def send_ready(self, now: int) -> None:
        """Everything that is due goes out in one request, unless one is under way."""
        self._take_up(now)
        if self._in_flight or not self._attempts:
            return
        ready = [attempt for attempt in self._current() if attempt.due <= now][:MAX_PROPOSALS]
        if not ready:
            return
        controller = self._core.cluster.controller_id
        if controller < 0:
            self._postpone(ready, now + self._core.config.alter_partition_backoff_ms)
            return
        self._in_flight = True
        self._core.out.send(
            controller,
            CHANNEL,
            self._request(ready),
            lambda response, at: self._on_response(ready, response, at),
            self._core.config.alter_partition_timeout_ms,
        )

    def next_deadline(self) -> int | None:
        if self._in_flight or not self._attempts:
            return None
        return min(attempt.due for attempt in self._attempts.values())

    def _take_up(self, now: int) -> None:
        if self._core.proposed:
            for replica, proposal in self._core.proposed.items():
                self._attempts[replica] = Attempt(replica, proposal, now)
            self._core.proposed.clear()

    def _current(self) -> list[Attempt]:
        """I3: metadata may have replaced a pending state; its proposal is void."""
        void = [replica for replica, attempt in self._attempts.items() if _leader_awaiting(attempt) is None]
        for replica in void:
            del self._attempts[replica]
        return list(self._attempts.values())

    def _postpone(self, attempts: list[Attempt], due: int, *, uncertain: bool = False) -> None:
        for attempt in attempts:
            attempt.due = due
            attempt.uncertain = attempt.uncertain or uncertain

    def _request(self, ready: list[Attempt]) -> alter_partition.AlterPartitionRequest:
        topics: dict[UUID, list[alter_partition.RequestPartition]] = {}
        for attempt in ready:
            topics.setdefault(attempt.replica.key[0], []).append(_line(attempt))
        return alter_partition.AlterPartitionRequest(
            broker_id=self._core.broker_id,
            broker_epoch=self._core.cluster.broker_epoch,
            topics=tuple(
                alter_partition.RequestTopic(topic_id=topic_id, partitions=tuple(lines))
                for topic_id, lines in topics.items()
            ),
        )

    # --- answers ---

    def _on_response(
        self, sent: list[Attempt], response: alter_partition.AlterPartitionResponse | None, now: int
    ) -> None:
        self._in_flight = False
        retry_at = now + self._core.config.alter_partition_backoff_ms
        if response is None:
            self._postpone(sent, retry_at, uncertain=True)
        elif response.error_code is not ErrorCode.none:
            self._core.counters["failed_isr_updates"] += len(sent)
            self._postpone(sent, retry_at)
        else:
            lines = {(t.topic_id, line.partition_index): line for t in response.topics for line in t.partitions}
            for attempt in sent:
                self._decide(attempt, lines.get(attempt.replica.key), now)
        self._finish(now)

    def _decide(self, attempt: Attempt, line: alter_partition.ResponsePartition | None, now: int) -> None:
        leader = _leader_awaiting(attempt)
        if leader is None:
            self._overtaken(attempt)
        elif line is None:
            self._postpone([attempt], now + self._core.config.alter_partition_backoff_ms, uncertain=True)
        elif line.error_code is ErrorCode.none:
            if isr_changes.accepted(leader, attempt.proposal, line, now):
                self._settle(attempt)
            else:
                self._wait_for_metadata(attempt, now)
        else:
            self._on_error(leader, attempt, line.error_code, now)

    def _on_error(self, leader: Leader, attempt: Attempt, error: ErrorCode, now: int) -> None:
        if proves_not_applied(error, uncertain=attempt.uncertain):
            self._refused(leader, attempt, error, now)
            return
        self._core.counters["failed_isr_updates"] += 1
        if error in MOVED_ON or error in REFUSED:
            self._wait_for_metadata(attempt, now)
        else:
            self._postpone([attempt], now + self._core.config.alter_partition_backoff_ms)

    def _refused(self, leader: Leader, attempt: Attempt, error: ErrorCode, now: int) -> None:
        retry_at = now + self._core.config.alter_partition_backoff_ms
        if isinstance(attempt.proposal, Withdrawal):
            self._postpone([attempt], retry_at)
        elif may_yet_be_applied(attempt.proposal, uncertain=attempt.uncertain):
            withdrawal = Attempt(attempt.replica, isr_changes.withdraw(leader, attempt.proposal), retry_at)
            withdrawal.uncertain = True
            self._attempts[attempt.replica] = withdrawal
        else:
            self._settle(attempt)
            isr_changes.refused(leader, attempt.proposal, error, now)

    def _wait_for_metadata(self, attempt: Attempt, now: int) -> None:
        # The change that the answer spoke of may be this proposal's own.
        self._postpone([attempt], now + self._core.config.alter_partition_patience_ms, uncertain=True)

    def _settle(self, attempt: Attempt) -> None:
        """The outcome is known; `accepted` and `refused` may propose the next change at once."""
        if self._attempts.get(attempt.replica) is attempt:
            del self._attempts[attempt.replica]

    def _overtaken(self, attempt: Attempt) -> None:
        self._settle(attempt)
        self._core.out.note("alter_partition_overtaken", partition=attempt.replica.partition.name)


def proves_not_applied(error: ErrorCode, *, uncertain: bool) -> bool:
    """I3: only then is the maximal ISR given up."""
    return error in NOT_APPLIED or (error in REFUSED and not uncertain)


def may_yet_be_applied(proposal: Proposal, *, uncertain: bool) -> bool:
    """I3: an earlier sending that was not answered may arrive after this refusal. Who only leaves does no harm so."""
    return uncertain and any(broker not in proposal.isr for broker in proposal.proposed)


def _leader_awaiting(attempt: Attempt) -> Leader | None:
    leader = attempt.replica.leader
    return leader if leader is not None and leader.state is attempt.proposal else None


def _line(attempt: Attempt) -> alter_partition.RequestPartition:
    proposal = attempt.proposal
    return alter_partition.RequestPartition(
        partition_index=attempt.replica.key[1],
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=tuple(
            alter_partition.BrokerState(broker_id=broker, broker_epoch=epoch) for broker, epoch in proposal.members
        ),
        leader_recovery_state=RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )
