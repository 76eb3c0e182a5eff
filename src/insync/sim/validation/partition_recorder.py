"""Records the trace of one partition: what its brokers do, and what the controller commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from insync.metadata.broker import Broker
from insync.metadata.image import Image
from insync.metadata.partition import NO_LEADER, Partition
from insync.replication.isr import Proposal
from insync.sim.validation.steps import NONE, Message, PartitionTrace, Step, observe_controller, observe_replica
from insync.storage.log import Log
from insync.wire.messages import fetch


class FetchRound:
    """A fetch request that has the partition in its session, from sending to the response."""

    __slots__ = ("end", "request", "send", "was_applied")

    def __init__(self, send: Step) -> None:
        self.send = send
        self.request = send.send()
        self.end: Step | None = None
        """When the fetcher sends its next request."""
        self.was_applied = False


class PartitionRecorder:
    def __init__(self, trace: PartitionTrace, cluster: Any) -> None:
        self.trace = trace
        self._cluster = cluster
        self._observed: dict[int, dict[str, Any]] = {}
        """By broker: the state after its last step, once it applies its assignments."""
        self._broker_epochs: dict[int, int | None] = {}
        """None: registered when the trace began, without a response yet."""
        self._crashes: dict[int, Step] = {}
        """The last crash of brokers that have not started again: what was lost shows at the next start."""
        self._proposals: dict[Proposal, Message] = {}
        self._outcomes: dict[Proposal, Message] = {}
        """The response to each proposal that was accepted or refused last."""
        self._registrations: dict[UUID, Message] = {}
        self._registered: dict[int, Message] = {}
        """The response to each registration, by broker epoch."""
        self._unfenced: set[int] = set()
        """As the specification has it: fencing and what it does to the partition are one step there."""
        self._electing: set[int] = set()
        """Brokers that were unfenced, and whose election has not been recorded."""
        self._rounds: list[FetchRound] = []
        self._replies: dict[int, tuple[fetch.PartitionData, FetchRound, Message]] = {}

    def begin(self, image: Image) -> tuple[dict[str, Any], ...]:
        """The initial state of each broker."""
        states = []
        for broker in self.trace.brokers:
            node, registration = self._cluster.node(broker), image.brokers.get(broker)
            state = {"status": "offline", "file_epoch": NONE, "epoch": NONE, "unfenced": False}
            if registration is not None:
                state.update(epoch=registration.epoch, unfenced=registration.is_active)
                if registration.is_active:
                    self._unfenced.add(broker)
            if node is None:
                self._broker_epochs[broker] = NONE
            elif registration is not None and registration.incarnation_id == node.lifecycle.incarnation_id:
                state["status"] = "running"
                self._broker_epochs[broker] = node.broker_epoch if node.broker_epoch >= 0 else None
            else:
                state.update(status="starting", file_epoch=max(node.lifecycle._previous_broker_epoch, NONE))
                self._broker_epochs[broker] = NONE
                message = self._registrations[node.lifecycle.incarnation_id] = Message()
                message.number = broker
            states.append(state)
        return tuple(states)

    def set_min_isr(self, min_isr: int) -> None:
        """A topic's configs are committed with its creation; a later change is not part of the specification."""
        if not self.trace.steps:
            self.trace.min_isr = min_isr
        elif min_isr != self.trace.min_isr:
            self.end("MinISR changed")

    # --- steps -------------------------------------------------------------------------------------------------------

    def add(self, action: str, broker: int, **fields: Any) -> Step:
        step = Step(action, broker, self._cluster.engine.now, **fields)
        if not self.trace.ended:
            self.trace.steps.append(step)
        return step

    def end(self, cause: str) -> None:
        self.trace.ended = self.trace.ended or cause

    def catch_up(self, broker: int) -> None:
        """Record what changed at a broker outside of any recorded action."""
        node = self._cluster.node(broker)
        if node is None or node.broker_role is None:
            return
        epoch = max(node.broker_epoch, NONE)
        known = self._broker_epochs.get(broker, NONE)
        if known is None and epoch != NONE:
            self._broker_epochs[broker] = epoch
        elif known is not None and epoch != known:
            self._broker_epochs[broker] = epoch
            if epoch == NONE:
                self.end(f"broker {broker} registers again")
            else:
                step = self.add("RegistrationResponse", broker, epoch=epoch)
                step.receive(self._registered.get(epoch) or Message())
        if not node.broker_role.applies_assignments:
            return
        after = observe_replica(self.trace, node)
        before = self._observed.get(broker)
        if before is None or after == before:
            self._observed[broker] = after
            return
        action = "DeleteLog" if before["role"] == after["role"] == "none" else "ReleaseHwm"
        self.add(action, broker).after = self._observed[broker] = after

    @contextmanager
    def step(
        self, action: str, broker: int, on_kept: Callable[[Step], None] | None = None, **fields: Any
    ) -> Iterator[None]:
        """An action of a broker. What it brings about is recorded inside the block; the state after all of it belongs
        to the last step. An action without effect is not kept. A disk may fail after the effect."""
        self.catch_up(broker)
        start = len(self.trace.steps)
        step = self.add(action, broker, **fields)
        try:
            yield
        finally:
            after = observe_replica(self.trace, self._cluster.node(broker))
            step.is_kept = after != self._observed.get(broker)
            if step.is_kept:
                self._observed[broker] = after
                for recorded in self.trace.steps[start:]:
                    recorded.fields.setdefault("hwm", after.get("hwm", NONE))
                    recorded.after = after if recorded is self.trace.steps[-1] else recorded.after
                if on_kept is not None:
                    on_kept(step)

    # --- processes ---------------------------------------------------------------------------------------------------

    def started(self, broker: int) -> None:
        node = self._cluster.node(broker)
        log: Log | None = node.broker_role.log_store.get(*self.trace.key)
        crash = self._crashes.pop(broker, None)
        if crash is not None and log is not None:
            crash.fields.update(leo=log.leo + 1, hwm=log.hwm + 1)
            crash.fields["tail"] = self.trace.tail(log)
        elif crash is not None:
            crash.fields.update(leo=1, hwm=1, tail=())
        previous_epoch = max(node.lifecycle._previous_broker_epoch, NONE)
        step = self.add("BrokerStart", broker, epoch=previous_epoch)
        self._registrations[node.lifecycle.incarnation_id] = step.send()
        self._broker_epochs[broker] = NONE

    def ended(self, broker: int, *, is_clean: bool) -> None:
        """What it lost is known when it starts again; until then everything counts as kept. A machine that is down may
        lose power, too."""
        if broker in self._crashes:
            return
        self._observed.pop(broker, None)
        self._crashes[broker] = self.add("Crash", broker, clean=is_clean, leo=NONE, hwm=NONE, tail=())

    # --- leaders -----------------------------------------------------------------------------------------------------

    def proposed(self, broker: int, proposal: Proposal, action: str) -> None:
        step = self.add(action, broker, isr=frozenset(proposal.proposed))
        self._proposals[proposal] = step.send()

    def proposal_accepted(self, proposal: Proposal, step: Step) -> None:
        step.receive(self._outcomes.get(proposal) or Message())

    def proposal_refused(self, proposal: Proposal, step: Step) -> None:
        response = self._outcomes.get(proposal) or Message()
        step.receive(response)
        refusal = response.sender
        if refusal is not None:
            refusal.is_kept = True

    # --- fetches -----------------------------------------------------------------------------------------------------

    def fetch_ended(self, broker: int, leader: int, round_: FetchRound) -> None:
        """Kept if the round is, and its response did not change the follower, or never came."""
        round_.end = self.add("FetchEnds", broker, leader=leader)

    def fetch_sent(self, broker: int, leader: int) -> FetchRound:
        """Kept if the leader or the follower changes because of it."""
        step = self.add("SendFetch", broker, leader=leader)
        step.is_kept = False
        round_ = FetchRound(step)
        self._rounds.append(round_)
        return round_

    def fetch_arrived(self, round_: FetchRound | None, step: Step) -> None:
        """A step that the leader took because of a fetch; kept if it changed what the leader knows."""
        step.receive(Message() if round_ is None else round_.request)
        if round_ is not None:
            round_.send.is_kept = True

    def fetch_answered(self, broker: int, round_: FetchRound, data: fetch.PartitionData, records: int) -> None:
        """Kept if the follower applies it."""
        step = self.add("FetchRequest", broker, records=records, hwm=self._observed.get(broker, {}).get("hwm", NONE))
        step.is_kept = False
        self._replies[id(data)] = (data, round_, step.send())
        step.receives = round_.request

    def fetch_applied(self, data: fetch.PartitionData, step: Step) -> None:
        known = self._replies.get(id(data))
        if known is None:
            step.receive(Message())
            return
        _, round_, response = known
        step.receive(response)
        reply = response.sender
        if reply is not None:
            reply.is_kept = round_.send.is_kept = round_.was_applied = True

    # --- the controller ----------------------------------------------------------------------------------------------

    def registered(self, broker: Broker, partition: Partition) -> None:
        """`offset`: of the partition's changes, the last one that comes before the registration in the log."""
        self._unfenced.discard(broker.id)
        last = self.trace.steps[-1] if self.trace.steps else None
        was_moved = last is not None and (last.action, last.broker) == ("ExpelBroker", broker.id)
        offset = partition.partition_epoch + (0 if was_moved else 1)
        step = self.add("RegisterBroker", broker.id, epoch=broker.epoch, offset=offset)
        step.receive(self._registrations.get(broker.incarnation_id) or Message())
        self._registered[broker.epoch] = step.send()

    def fenced(self, broker: int, partition: Partition) -> None:
        """Also in controlled shutdown: the broker may neither lead nor join the ISR. If it is in the ISR, the change
        that removes it is the step."""
        self._electing.discard(broker)
        if broker not in partition.isr:
            self._fence(broker)

    def unfenced(self, broker: int, partition: Partition) -> None:
        """If it will be elected, the election is the step."""
        candidates = partition.isr or partition.elr
        if partition.leader == NO_LEADER and broker in candidates:
            self._electing.add(broker)
        else:
            self._unfence(broker)

    def _fence(self, broker: int) -> None:
        if broker in self._unfenced:
            self._unfenced.discard(broker)
            self.add("FenceBroker", broker)

    def _unfence(self, broker: int) -> None:
        self._electing.discard(broker)
        if broker not in self._unfenced:
            self._unfenced.add(broker)
            self.add("UnfenceBroker", broker)

    def refused(self, proposal: Proposal) -> None:
        """Kept if the leader goes back to its committed ISR because of it."""
        step = self.add("RefuseProposal", NONE)
        step.is_kept = False
        step.receives = self._proposals.get(proposal)
        self._outcomes[proposal] = step.send()

    def partition_changed(
        self, before: Partition, after: Partition, proposal: Proposal | None, sender: int, image: Image
    ) -> None:
        """One committed change, as the action of the specification that explains it."""
        if after.recovering or before.recovering:
            self.end("unclean election")
            return
        first = len(self.trace.steps)
        if proposal is not None:
            self._proposal_accepted(after, proposal, sender, image)
        else:
            self._controller_changed(before, after)
        if len(self.trace.steps) > first:
            self.trace.steps[-1].fields["controller"] = [observe_controller(after)]
        if after.leader != NO_LEADER:
            for broker in sorted(self._electing):
                self._unfence(broker)  # another candidate was elected first

    def _proposal_accepted(self, after: Partition, proposal: Proposal, sender: int, image: Image) -> None:
        for member in after.isr:
            broker = image.brokers.get(member)
            if broker is not None and broker.is_active:
                self._unfence(member)
        step = self.add("AlterPartition", sender)
        step.receive(self._proposals.get(proposal) or Message())
        self._outcomes[proposal] = step.send()

    def _controller_changed(self, before: Partition, after: Partition) -> None:
        if (before.adding, before.removing) != (after.adding, after.removing) or before.replicas != after.replicas:
            self._reassigned(before, after)
            return
        left = [broker for broker in before.isr if broker not in after.isr]
        unclean = [broker for broker in before.elr if broker not in (*after.elr, *after.isr)]
        if len(left) == 1:
            self._unfenced.discard(left[0])
            lost_leader = before.leader != NO_LEADER == after.leader and bool(after.isr)
            self.add("FenceOneOfTwo" if lost_leader else "FenceBroker", left[0])
        elif before.leader == NO_LEADER != after.leader:
            broker = after.leader if after.leader in self._electing else next(iter(self._electing), after.leader)
            self._electing.discard(broker)
            self._unfenced.add(broker)
            self.add("UnfenceBroker", broker)
        elif len(unclean) == 1:
            self.add("ExpelBroker", unclean[0])
        elif after.leader != before.leader:
            self.add("ElectPreferred", after.leader)
        else:
            self.add("UnknownChange", NONE)

    def _reassigned(self, before: Partition, after: Partition) -> None:
        if not before.reassigning and (after.reassigning or set(before.replicas) != set(after.replicas)):
            self.add("StartReassignment", NONE, target=frozenset(_target(after)))
        elif before.adding and not after.reassigning and set(after.replicas) == _original(before):
            self.add("CancelReassignment", NONE)
        else:
            self.add("ReplaceReassignment", NONE, target=frozenset(_target(after)))

    # --- the end -----------------------------------------------------------------------------------------------------

    def compare_logs(self) -> None:
        for broker in self.trace.brokers:
            node = self._cluster.node(broker)
            if node is None or broker not in self._observed or self._observed[broker]["role"] == "none":
                continue
            log = node.replicas.replicas[self.trace.key].log
            self.add("CompareLog", broker, log=self.trace.records(log, log.log_start, log.leo))

    def finish(self) -> None:
        """Decide which steps are kept."""
        for round_ in self._rounds:
            if round_.end is not None:
                round_.end.is_kept = round_.send.is_kept and not round_.was_applied


def _original(partition: Partition) -> set[int]:
    return set(partition.replicas) - set(partition.adding)


def _target(partition: Partition) -> Sequence[int]:
    return [broker for broker in partition.replicas if broker not in partition.removing]
