"""AlterPartition: a leader proposes an ISR; the controller checks that it is based on the present state (I4-I6).

The checks run in the protocol's order, one function each. One partition's refusal does not touch the others.

Notes: alter_partition_refused(broker, topic, partition, error).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.controller import eligibility
from insync.controller.context import Context
from insync.controller.decision import Decision
from insync.metadata.configs import Resource
from insync.metadata.image import CLUSTER_DEFAULTS
from insync.metadata.partition import Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition
from insync.wire.types import NO_DURATION, uuid_of

Proposal = Any
"""One partition of the request."""


def alter(ctx: Context, request: Any, now: int) -> Decision:
    if not eligibility.epoch_is_current(ctx.image, request.broker_id, request.broker_epoch):
        return _decision(ErrorCode.stale_broker_epoch, [], ())
    made: list[records.MetadataRecord] = []
    seen: dict[PartitionKey, None] = {}
    topics = []
    for topic in request.topics:
        topic_id = uuid_of(topic.topic_id)
        answers = []
        for proposal in topic.partitions:
            key = (topic_id, proposal.partition_index)
            repeated = key in seen
            seen[key] = None
            answers.append(_one(ctx, request.broker_id, key, proposal, repeated, made))
        topics.append(alter_partition.ResponseTopic(topic_id=topic.topic_id, partitions=tuple(answers)))
    return _decision(ErrorCode.none, made, tuple(topics))


def _one(
    ctx: Context,
    sender: int,
    key: PartitionKey,
    proposal: Proposal,
    repeated: bool,
    made: list[records.MetadataRecord],
) -> alter_partition.ResponsePartition:
    partition = ctx.image.partition(key)
    error = _unknown(ctx, key) if partition is None else ErrorCode.invalid_request if repeated else ErrorCode.none
    if partition is not None and error is ErrorCode.none:
        error = _check(ctx, sender, partition, proposal)
    if partition is None or error is not ErrorCode.none:
        topic = ctx.image.topics.get(key[0], "")
        ctx.out.note("alter_partition_refused", broker=sender, topic=topic, partition=key[1], error=error.name)
        return _refused(key[1], error)
    return _accept(ctx, sender, partition, proposal, made)


def _accept(
    ctx: Context, sender: int, partition: Partition, proposal: Proposal, made: list[records.MetadataRecord]
) -> alter_partition.ResponsePartition:
    builder = ctx.builder(partition)
    builder.isr = _proposed(proposal)
    builder.recovering = proposal.leader_recovery_state == records.RECOVERING
    record = ctx.build(builder)
    if record is None:
        record = withdrawn(partition)
        builder.after = partition.changed_by(record)
    made.append(record)
    partition = builder.after
    if partition.leader != sender:  # the ISR was accepted, and with it a reassignment that ends this leader's term
        return _refused(partition.index, ErrorCode.new_leader_elected)
    return alter_partition.ResponsePartition(
        partition_index=partition.index,
        error_code=ErrorCode.none,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=int(partition.recovering),
        partition_epoch=partition.partition_epoch,
    )


def withdrawn(partition: Partition) -> records.PartitionChangeRecord:
    """I3, I6: the ISR as it is, proposed anew: a leader takes back what it proposed before, wherever copies of it are.

    The new partition epoch alone does that.
    """
    return records.PartitionChangeRecord(partition_id=partition.index, topic_id=partition.topic_id, isr=partition.isr)


# --- the checks, in order (I4) ---------------------------------------------------------------------------------------


def _check(ctx: Context, sender: int, partition: Partition, proposal: Proposal) -> ErrorCode:
    checks: tuple[tuple[Callable[[], bool], ErrorCode], ...] = (
        (lambda: epochs_are_known(partition, proposal), ErrorCode.not_controller),
        (lambda: leader_epoch_is_current(partition, proposal), ErrorCode.fenced_leader_epoch),
        (lambda: sender_leads(partition, sender), ErrorCode.invalid_request),
        (lambda: partition_epoch_is_current(partition, proposal), ErrorCode.invalid_update_version),
        (lambda: isr_is_well_formed(partition, proposal), ErrorCode.invalid_request),
        (lambda: recovery_state_is_possible(partition, proposal), ErrorCode.invalid_request),
        (lambda: members_are_eligible(ctx, proposal), ErrorCode.ineligible_replica),
        (lambda: member_epochs_are_current(ctx, partition, proposal), ErrorCode.ineligible_replica),
        (lambda: leader_knows_min_isr(ctx, partition, proposal), ErrorCode.operation_not_attempted),
    )
    return next((error for passes, error in checks if not passes()), ErrorCode.none)


def epochs_are_known(partition: Partition, proposal: Proposal) -> bool:
    """A leader that knows more than this controller: there must be a newer controller."""
    return bool(
        proposal.leader_epoch <= partition.leader_epoch and proposal.partition_epoch <= partition.partition_epoch
    )


def leader_epoch_is_current(partition: Partition, proposal: Proposal) -> bool:
    return bool(proposal.leader_epoch >= partition.leader_epoch)


def sender_leads(partition: Partition, sender: int) -> bool:
    return partition.leader == sender


def partition_epoch_is_current(partition: Partition, proposal: Proposal) -> bool:
    """I6: nobody's change is based on a state that it has not seen."""
    return bool(proposal.partition_epoch >= partition.partition_epoch)


def isr_is_well_formed(partition: Partition, proposal: Proposal) -> bool:
    isr = _proposed(proposal)
    distinct = len(dict.fromkeys(isr)) == len(isr)
    return distinct and partition.leader in isr and all(member in partition.replicas for member in isr)


def recovery_state_is_possible(partition: Partition, proposal: Proposal) -> bool:
    """E7: a recovering leader is alone in the ISR, and only an unclean election starts a recovery."""
    if proposal.leader_recovery_state != records.RECOVERING:
        return True
    return partition.recovering and len(proposal.new_isr_with_epochs) == 1


def members_are_eligible(ctx: Context, proposal: Proposal) -> bool:
    return all(ctx.may_join_isr(member.broker_id) for member in proposal.new_isr_with_epochs)


def member_epochs_are_current(ctx: Context, partition: Partition, proposal: Proposal) -> bool:
    return all(
        eligibility.member_epoch_is_current(
            ctx.image, member.broker_id, member.broker_epoch, member.broker_id in partition.isr
        )
        for member in proposal.new_isr_with_epochs
    )


def leader_knows_min_isr(ctx: Context, partition: Partition, proposal: Proposal) -> bool:
    """E8: whether the HWM stands still with this ISR must not be a matter of who has read the log how far.

    1. MinISR goes from 2 to 3 with ISR {1, 2, 3}. 2. The leader, not knowing yet, proposes {1, 2}. 3. The controller
    accepts and, below 3, puts replica 3 in the ELR. 4. The leader takes the answer, still goes by 2, and commits
    without replica 3: the ELR has an incomplete member. So the proposal waits until a heartbeat of the leader shows
    that it has read the new value; or, where a snapshot hides what was raised before it, that it has read so far.
    """
    size = len(proposal.new_isr_with_epochs)
    replicas = len(partition.replicas)
    if size >= min(ctx.image.min_isr(partition.topic), replicas):
        return True
    known = _metadata_offset(ctx, partition.leader)
    if known < ctx.image.summed_up_to:
        return False
    for resource in ((int(Resource.TOPIC), partition.topic), CLUSTER_DEFAULTS):
        raised = ctx.image.raised_min_isr.get(resource)
        if raised is not None and raised.offset > known and size >= min(raised.before, replicas):
            return False
    return True


def _metadata_offset(ctx: Context, broker_id: int) -> int:
    """How far a broker is known to have read: as far as its heartbeats say, at least to its registration (B3)."""
    contact = ctx.contacts.get(broker_id)
    broker = ctx.image.brokers.get(broker_id)
    return max(-1 if contact is None else contact.metadata_offset, -1 if broker is None else broker.epoch)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _proposed(proposal: Proposal) -> tuple[int, ...]:
    return tuple(member.broker_id for member in proposal.new_isr_with_epochs)


def _unknown(ctx: Context, key: PartitionKey) -> ErrorCode:
    return ErrorCode.unknown_topic_or_partition if key[0] in ctx.image.topics else ErrorCode.unknown_topic_id


def _refused(index: int, error: ErrorCode) -> alter_partition.ResponsePartition:
    return alter_partition.ResponsePartition(
        partition_index=index, error_code=error, leader_id=-1, leader_epoch=-1, isr=(), partition_epoch=-1
    )


def _decision(error: ErrorCode, made: list[records.MetadataRecord], topics: tuple[Any, ...]) -> Decision:
    response = alter_partition.AlterPartitionResponse(throttle_time=NO_DURATION, error_code=error, topics=topics)
    return Decision(records=tuple(made), response=response)
