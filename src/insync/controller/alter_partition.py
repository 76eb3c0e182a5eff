"""AlterPartition: a leader proposes an ISR; the controller checks that it is based on the current state (I4-I6).

The checks run in the protocol's order. The refusal of one partition does not affect the others.

Notes: alter_partition_refused(broker, topic, partition, error).
"""

from __future__ import annotations

from insync.controller.decision import Decision
from insync.controller.state import ControllerState
from insync.metadata.configs import Resource
from insync.metadata.image import CLUSTER_DEFAULTS, Image
from insync.metadata.partition import Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition
from insync.wire.types import NO_DURATION, ZERO_UUID

CAUSE = "its leader changes the ISR"
_NONE = ErrorCode.none


def alter_partitions(state: ControllerState, request: alter_partition.AlterPartitionRequest, now: int) -> Decision:
    if not state.is_current_epoch(request.broker_id, request.broker_epoch):
        return _make_decision(ErrorCode.stale_broker_epoch, [], ())
    made: list[records.MetadataRecord] = []
    seen: dict[PartitionKey, None] = {}
    topics = []
    for topic in request.topics:
        topic_id = topic.topic_id or ZERO_UUID
        results = []
        for proposal in topic.partitions:
            key = (topic_id, proposal.partition_index)
            results.append(_alter_partition(state, request.broker_id, key, proposal, key in seen, made))
            seen[key] = None
        topics.append(alter_partition.ResponseTopic(topic_id=topic.topic_id, partitions=tuple(results)))
    return _make_decision(_NONE, made, tuple(topics))


def _alter_partition(
    state: ControllerState,
    sender: int,
    key: PartitionKey,
    proposal: alter_partition.RequestPartition,
    is_repeated: bool,
    made: list[records.MetadataRecord],
) -> alter_partition.ResponsePartition:
    partition = state.image.partition(key)
    if partition is None:
        error = ErrorCode.unknown_topic_or_partition if key[0] in state.image.topics else ErrorCode.unknown_topic_id
    else:
        error = ErrorCode.invalid_request if is_repeated else find_error(state, sender, partition, proposal)
    if partition is None or error is not _NONE:
        topic = state.image.topics.get(key[0], "")
        state.out.note("alter_partition_refused", broker=sender, topic=topic, partition=key[1], error=error.name)
        return _refuse(key[1], error)
    builder = state.change(partition)
    builder.isr = tuple(member.broker_id for member in proposal.new_isr_with_epochs)
    builder.recovering = proposal.leader_recovery_state == records.RECOVERING
    record = state.build(builder, CAUSE)
    if record is None:
        # I3, I6: the ISR does not change: a leader withdraws an earlier proposal. The new partition epoch alone voids
        # every copy of it that is still in flight.
        record = records.PartitionChangeRecord(
            partition_id=partition.index, topic_id=partition.topic_id, isr=partition.isr
        )
        builder.after = partition.changed_by(record)
    made.append(record)
    after = builder.after
    if after.leader != sender:  # the ISR was accepted, and completed a reassignment that gives leadership to another
        return _refuse(after.index, ErrorCode.new_leader_elected)
    return alter_partition.ResponsePartition(
        partition_index=after.index,
        error_code=_NONE,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        leader_recovery_state=int(after.recovering),
        partition_epoch=after.partition_epoch,
    )


# --- the checks ------------------------------------------------------------------------------------------------------


def find_error(
    state: ControllerState, sender: int, partition: Partition, proposal: alter_partition.RequestPartition
) -> ErrorCode:
    """I4: the first check, in the protocol's order, that the proposal fails."""
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        return ErrorCode.not_controller  # the leader knows more than this controller, so there must be a newer one
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if sender != partition.leader:
        return ErrorCode.invalid_request
    if not has_current_partition_epoch(partition, proposal):
        return ErrorCode.invalid_update_version
    if not has_valid_isr(partition, proposal) or not has_possible_recovery_state(partition, proposal):
        return ErrorCode.invalid_request
    for member in proposal.new_isr_with_epochs:
        if not state.can_join_isr(member.broker_id):
            return ErrorCode.ineligible_replica
        in_isr = member.broker_id in partition.isr
        if not is_current_member_epoch(state.image, member.broker_id, member.broker_epoch, in_isr):
            return ErrorCode.ineligible_replica
    return _NONE if leader_knows_min_isr(state, partition, proposal) else ErrorCode.operation_not_attempted


def has_current_partition_epoch(partition: Partition, proposal: alter_partition.RequestPartition) -> bool:
    """I6: no change is based on a state that its leader has not seen."""
    return proposal.partition_epoch >= partition.partition_epoch


def has_valid_isr(partition: Partition, proposal: alter_partition.RequestPartition) -> bool:
    isr = [member.broker_id for member in proposal.new_isr_with_epochs]
    is_distinct = len(dict.fromkeys(isr)) == len(isr)
    return is_distinct and partition.leader in isr and all(member in partition.replicas for member in isr)


def has_possible_recovery_state(partition: Partition, proposal: alter_partition.RequestPartition) -> bool:
    """E7: a recovering leader is alone in the ISR, and only an unclean election starts a recovery."""
    if proposal.leader_recovery_state != records.RECOVERING:
        return True
    return partition.recovering and len(proposal.new_isr_with_epochs) == 1


def is_current_member_epoch(image: Image, broker_id: int, broker_epoch: int, in_isr: bool) -> bool:
    """I4: a follower that restarted since it last fetched may have lost what the leader has seen of it.

    A leader sends -1 for a member that has not fetched in its leader epoch. That is safe: had the member restarted, it
    would have been fenced, and the partition epoch that the leader knows would be an old one.
    """
    broker = image.brokers.get(broker_id)
    return (broker_epoch == -1 and in_isr) or (broker is not None and broker.epoch == broker_epoch)


def leader_knows_min_isr(
    state: ControllerState, partition: Partition, proposal: alter_partition.RequestPartition
) -> bool:
    """E8: the leader and the controller have to agree whether the HWM stands still with this ISR.

    1. MinISR goes from 2 to 3 with ISR {1, 2, 3}. 2. The leader, which does not know yet, proposes {1, 2}. 3. The
    controller accepts and, below 3, puts replica 3 in the ELR. 4. The leader takes the response, still goes by 2, and
    commits without replica 3: the ELR has an incomplete member. So the proposal waits until a heartbeat of the leader
    shows that it has read the new value; or, where a snapshot hides what was raised before it, that it has read so far.
    """
    size = len(proposal.new_isr_with_epochs)
    replicas = len(partition.replicas)
    if size >= min(state.image.min_isr(partition.topic), replicas):
        return True
    # A broker has read as far as its heartbeats say, and at least to its registration (B3).
    contact, broker = state.contacts.get(partition.leader), state.image.brokers.get(partition.leader)
    read_offset = max(-1 if contact is None else contact.metadata_offset, -1 if broker is None else broker.epoch)
    if read_offset < state.image.snapshot_end:
        return False
    for resource in ((int(Resource.TOPIC), partition.topic), CLUSTER_DEFAULTS):
        raised = state.image.raised_min_isr.get(resource)
        if raised is not None and raised.offset > read_offset and size >= min(raised.before, replicas):
            return False
    return True


def _refuse(index: int, error: ErrorCode) -> alter_partition.ResponsePartition:
    return alter_partition.ResponsePartition(
        partition_index=index, error_code=error, leader_id=-1, leader_epoch=-1, isr=(), partition_epoch=-1
    )


def _make_decision(
    error: ErrorCode, made: list[records.MetadataRecord], topics: tuple[alter_partition.ResponseTopic, ...]
) -> Decision:
    response = alter_partition.AlterPartitionResponse(throttle_time=NO_DURATION, error_code=error, topics=topics)
    return Decision(records=tuple(made), response=response)
