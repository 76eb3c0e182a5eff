"""Unclean recovery: with no candidate left, compare the logs themselves (E6, E7).

`balanced` begins when ISR and ELR are empty, and asks every replica. It decides only when all members of the last-known
ELR have answered, because any one of them may be the only complete one. The others count too if they are alive: if
every member was damaged, one of them may have more. `proactive` begins as soon as no candidate is alive, asks every
live replica, and after a short window takes the best of the answers. `manual` waits for an operator. The winner has the
greatest (last epoch, log end); the order of the assignment breaks ties.

An answer counts for the incarnation of the broker that gave it, and only if that broker knew the leaderless epoch:
before that it may still have been fetching from an old leader. Brokers are asked until all answers have arrived.

Notes: unclean_recovery_started(topic, partition, strategy, waiting_for), unclean_recovery_finished(topic, partition,
leader, strategy, possible_loss=True).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from insync.controller.decision import Decision
from insync.controller.state import ControllerState
from insync.metadata import configs
from insync.metadata.partition import Partition, PartitionKey
from insync.wire.errors import ErrorCode
from insync.wire.get_replica_log_info import MAX_PARTITIONS
from insync.wire.messages import get_replica_log_info as messages
from insync.wire.types import ZERO_UUID

CHANNEL = "recovery"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The answer of one replica."""

    broker_epoch: int
    last_epoch: int
    leo: int


class Recovery:
    """The recovery of one partition, as of one partition epoch."""

    __slots__ = ("answers", "complete_at", "key", "partition_epoch", "started_at", "strategy")

    def __init__(self, partition: Partition, strategy: str, now: int) -> None:
        self.key = partition.key
        self.partition_epoch = partition.partition_epoch
        self.strategy = strategy
        self.started_at = now
        self.answers: dict[int, LogEnd] = {}
        self.complete_at: int | None = None
        """When all required answers had arrived."""


class Recoveries:
    """All recoveries of one active controller."""

    __slots__ = ("_ask_again_at", "_generation", "_running", "_state", "_submit", "next_deadline")

    def __init__(self, state: ControllerState, submit: Callable[[Decision, int], None]) -> None:
        self._state = state
        self._submit = submit
        self._running: dict[PartitionKey, Recovery] = {}
        self._ask_again_at: dict[int, int] = {}
        """Brokers that were asked, and when they may be asked again."""
        self._generation = 0
        self.next_deadline: int | None = None

    def reset(self) -> None:
        """A new controller epoch: answers to requests of an earlier one are void."""
        self._running = {}
        self._ask_again_at = {}
        self._generation += 1
        self.next_deadline = None

    def tick(self, now: int) -> None:
        if not self._state.image.has_leaderless:
            self._running = {}
            self.next_deadline = None
            return
        self._refresh(now)
        self._decide_ready(now)
        self._set_deadline(now, self._ask(now))

    def _set_deadline(self, now: int, unanswered: Iterable[int]) -> None:
        """The next time at which a broker may be asked again or a window closes. Other events change the image."""
        times = [self._ask_again_at[broker] for broker in unanswered if broker in self._ask_again_at]
        times += [self._window_end(recovery) for recovery in self._running.values() if recovery.strategy == "proactive"]
        times += [self._grace_end(recovery) for recovery in self._running.values() if recovery.complete_at is not None]
        self.next_deadline = min((time for time in times if time > now), default=None)

    # --- which partitions ----------------------------------------------------------------------------------------

    def _refresh(self, now: int) -> None:
        """Start recoveries that are due, and drop those whose partition has changed since."""
        running: dict[PartitionKey, Recovery] = {}
        strategies: dict[str, str] = {}  # by topic: thousands of leaderless partitions may have the same topic
        for partition in self._state.image.leaderless():
            strategy = strategies.get(partition.topic)
            if strategy is None:
                strategy = str(self._state.image.config(partition.topic, configs.RECOVERY_STRATEGY))
                strategies[partition.topic] = strategy
            if not is_applicable(strategy, partition):
                continue
            recovery = self._running.get(partition.key)
            if recovery is None or not self.is_current(recovery, partition) or recovery.strategy != strategy:
                recovery = self._start(partition, strategy, now)
            running[partition.key] = recovery
        self._running = running

    def is_current(self, recovery: Recovery, partition: Partition) -> bool:
        """I6: a decision must not be based on a partition that has changed since the request."""
        return recovery.partition_epoch == partition.partition_epoch

    def _start(self, partition: Partition, strategy: str, now: int) -> Recovery:
        recovery = Recovery(partition, strategy, now)
        self._state.out.note(
            "unclean_recovery_started",
            topic=partition.topic,
            partition=partition.index,
            strategy=strategy,
            waiting_for=self._quorum(partition, strategy),
        )
        return recovery

    def _quorum(self, partition: Partition, strategy: str) -> tuple[int, ...]:
        return partition.last_known_elr if strategy == "balanced" else partition.replicas

    # --- asking --------------------------------------------------------------------------------------------------

    def _ask(self, now: int) -> Iterable[int]:
        """Ask the brokers whose answers are missing; returns them."""
        unanswered = self._unanswered()
        for broker, keys in unanswered.items():
            if self._ask_again_at.get(broker, now) > now:
                continue
            self._ask_again_at[broker] = now + self._state.config.recovery_timeout_ms
            self._send(broker, keys[:MAX_PARTITIONS])
        return unanswered

    def _unanswered(self) -> dict[int, list[PartitionKey]]:
        wanted: dict[int, list[PartitionKey]] = {}
        for recovery in self._running.values():
            partition = self._state.image.partition(recovery.key)
            if partition is None:
                continue
            for broker in partition.replicas:
                if self._state.can_lead(broker) and self._valid_answer(recovery, broker) is None:
                    wanted.setdefault(broker, []).append(recovery.key)
        return wanted

    def _send(self, broker: int, keys: list[PartitionKey]) -> None:
        topics: dict[UUID, list[int]] = {}
        for topic_id, index in keys:
            topics.setdefault(topic_id, []).append(index)
        request = messages.GetReplicaLogInfoRequest(
            topic_partitions=tuple(
                messages.TopicPartitions(topic_id=topic_id, partitions=tuple(indexes))
                for topic_id, indexes in topics.items()
            )
        )
        generation = self._generation
        epochs = {key: self._running[key].partition_epoch for key in keys}

        def on_response(response: messages.GetReplicaLogInfoResponse | None, now: int) -> None:
            if generation == self._generation:
                self._on_response(broker, epochs, response, now)

        self._state.out.send(broker, CHANNEL, request, on_response, self._state.config.recovery_timeout_ms)

    def _on_response(
        self,
        broker: int,
        epochs: dict[PartitionKey, int],
        response: messages.GetReplicaLogInfoResponse | None,
        now: int,
    ) -> None:
        self._ask_again_at[broker] = now + self._state.config.recovery_retry_ms
        if response is not None:
            self._record_answers(broker, epochs, response)
        self._refresh(now)
        self._decide_ready(now)
        self._set_deadline(now, self._unanswered())

    def _record_answers(
        self, broker: int, epochs: dict[PartitionKey, int], response: messages.GetReplicaLogInfoResponse
    ) -> None:
        for topic in response.topic_partition_log_info_list:
            for info in topic.partition_log_info:
                key = (topic.topic_id or ZERO_UUID, info.partition)
                recovery = self._running.get(key)
                if recovery is not None and recovery.partition_epoch == epochs.get(key):
                    self._record_answer(recovery, broker, response.broker_epoch, info)

    def _record_answer(
        self, recovery: Recovery, broker: int, broker_epoch: int, info: messages.PartitionLogInfo
    ) -> None:
        partition = self._state.image.partition(recovery.key)
        if partition is None or info.error_code is not ErrorCode.none:
            return
        if self.has_stopped_fetching(partition, info):
            recovery.answers[broker] = LogEnd(
                broker_epoch=broker_epoch, last_epoch=info.last_written_leader_epoch, leo=info.log_end_offset
            )

    def has_stopped_fetching(self, partition: Partition, info: messages.PartitionLogInfo) -> bool:
        """A replica that knows this leader epoch knows that there is no leader: its log end is final."""
        return info.current_leader_epoch >= partition.leader_epoch

    # --- deciding ------------------------------------------------------------------------------------------------

    def _decide_ready(self, now: int) -> None:
        for recovery in list(self._running.values()):
            partition = self._state.image.partition(recovery.key)
            if partition is None or not self.is_current(recovery, partition):
                continue
            if self._is_ready(recovery, partition, now):
                self._decide(recovery, partition, now)

    def _is_ready(self, recovery: Recovery, partition: Partition, now: int) -> bool:
        if recovery.strategy == "balanced":
            if not self.has_required_answers(recovery, partition):
                return False
            recovery.complete_at = now if recovery.complete_at is None else recovery.complete_at
            return self._has_live_answers(recovery, partition) or self._grace_end(recovery) <= now
        in_time = self._window_end(recovery) > now
        return not in_time or self.has_required_answers(recovery, partition)

    def has_required_answers(self, recovery: Recovery, partition: Partition) -> bool:
        """E6: MinISR replicas held every committed record; the one that still has them must not be passed over."""
        quorum = self._quorum(partition, recovery.strategy)
        return all(self._valid_answer(recovery, member) is not None for member in quorum)

    def _has_live_answers(self, recovery: Recovery, partition: Partition) -> bool:
        live = (broker for broker in partition.replicas if self._state.can_lead(broker))
        return all(self._valid_answer(recovery, broker) is not None for broker in live)

    def _valid_answer(self, recovery: Recovery, broker: int) -> LogEnd | None:
        """An answer from an earlier incarnation says nothing about the log after the restart."""
        answer = recovery.answers.get(broker)
        registered = self._state.image.brokers.get(broker)
        if answer is None or registered is None or answer.broker_epoch != registered.epoch:
            return None
        return answer

    def _decide(self, recovery: Recovery, partition: Partition, now: int) -> None:
        best = self._best(recovery, partition)
        if best is None or not self._state.can_lead(best):
            return
        builder = self._state.change(partition)
        builder.chosen = best
        record = self._state.build(builder, "recovery")
        if record is None:
            return
        del self._running[recovery.key]
        self._state.out.note(
            "unclean_recovery_finished",
            topic=partition.topic,
            partition=partition.index,
            leader=best,
            strategy=recovery.strategy,
            possible_loss=True,
        )
        self._submit(Decision(records=(record,)), now)

    def _best(self, recovery: Recovery, partition: Partition) -> int | None:
        required = partition.last_known_elr if recovery.strategy == "balanced" else ()
        answers = {replica: self._valid_answer(recovery, replica) for replica in partition.replicas}
        deleted = self.deleted_before(answers.values())
        best: int | None = None
        best_log = (-2, -1)
        for replica, answer in answers.items():
            if answer is None or (replica not in required and not self._state.can_lead(replica)):
                continue
            if answer.leo >= deleted and (answer.last_epoch, answer.leo) > best_log:
                best, best_log = replica, (answer.last_epoch, answer.leo)
        return best

    def deleted_before(self, answers: Iterable[LogEnd | None]) -> int:
        """E6, H5: a log without records has no last epoch. Those before its end were committed before they were
        deleted, so a log that ends lower is incomplete, whatever its epoch."""
        return max((answer.leo for answer in answers if answer is not None and answer.last_epoch < 0), default=0)

    def _grace_end(self, recovery: Recovery) -> int:
        """E6: until then `balanced` waits for live replicas outside the last-known ELR."""
        return (recovery.complete_at or 0) + self._state.config.recovery_timeout_ms

    def _window_end(self, recovery: Recovery) -> int:
        return recovery.started_at + self._state.config.proactive_window_ms


def is_applicable(strategy: str, partition: Partition) -> bool:
    """E6: `balanced` waits until no candidate is left, `proactive` does not, and `manual` starts nothing."""
    if strategy == "balanced":
        return not partition.isr and not partition.elr and bool(partition.last_known_elr)
    return strategy == "proactive"
