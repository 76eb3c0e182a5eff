"""Reassignment: grow, catch up, shrink (R1-R6).

Starting one makes the replicas "target, then removing"; the new followers catch up, and their leader adds them to the
ISR; the change that adds the last of them also completes it (`PartitionChangeBuilder.is_reassignment_done`).

Notes: reassignment_started(topic, partition, target), reassignment_replaced(topic, partition, target),
reassignment_cancelled(topic, partition, replicas).
"""

from __future__ import annotations

from collections.abc import Iterable

from insync.controller.decision import Decision
from insync.controller.partition_change import PartitionChangeBuilder, without
from insync.controller.state import ControllerState
from insync.metadata.image import Image
from insync.metadata.partition import Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition_reassignments as alter_messages
from insync.wire.messages import list_partition_reassignments as list_messages
from insync.wire.types import NO_DURATION

Outcome = tuple[ErrorCode, str | None]
OK: Outcome = (ErrorCode.none, None)
CAUSE = "reassignment"


def alter_reassignments(
    state: ControllerState, request: alter_messages.AlterPartitionReassignmentsRequest, now: int
) -> Decision:
    made: list[records.MetadataRecord] = []
    seen: dict[PartitionKey, None] = {}
    responses = []
    for topic in request.topics:
        results = []
        for entry in topic.partitions:
            partition = state.image.find(topic.name, entry.partition_index)
            outcome = _alter_partition(state, request, partition, entry.replicas, seen, made)
            results.append(
                alter_messages.ReassignablePartitionResponse(
                    partition_index=entry.partition_index, error_code=outcome[0], error_message=outcome[1]
                )
            )
        responses.append(alter_messages.ReassignableTopicResponse(name=topic.name, partitions=tuple(results)))
    response = alter_messages.AlterPartitionReassignmentsResponse(
        throttle_time=NO_DURATION,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(responses),
    )
    return Decision(records=tuple(made), response=response)


def _alter_partition(
    state: ControllerState,
    request: alter_messages.AlterPartitionReassignmentsRequest,
    partition: Partition | None,
    target: tuple[int, ...] | None,
    seen: dict[PartitionKey, None],
    made: list[records.MetadataRecord],
) -> Outcome:
    if partition is None:
        return ErrorCode.unknown_topic_or_partition, "No such partition."
    if partition.key in seen:
        return ErrorCode.invalid_request, "The partition is named more than once."
    seen[partition.key] = None
    if target is None:
        return _cancel(state, partition, made)
    outcome = _check_target(state, request, partition, tuple(target))
    return outcome if outcome != OK else _start(state, partition, tuple(target), made)


def _check_target(
    state: ControllerState,
    request: alter_messages.AlterPartitionReassignmentsRequest,
    partition: Partition,
    target: tuple[int, ...],
) -> Outcome:
    problem = find_assignment_problem(state.image, target)
    if problem is not None:
        return ErrorCode.invalid_replica_assignment, problem
    current = len(current_target(partition))
    if not request.allow_replication_factor_change and len(target) != current:
        message = f"The replication factor is changed from {current} to {len(target)}"
        return ErrorCode.invalid_replication_factor, message
    return OK


def find_assignment_problem(image: Image, replicas: tuple[int, ...]) -> str | None:
    """Why these brokers cannot hold a partition; None if they can. Fenced ones can."""
    if not replicas:
        return "The replica list is empty."
    if len(dict.fromkeys(replicas)) != len(replicas):
        return "The replica list names a broker more than once."
    missing = tuple(replica for replica in replicas if replica not in image.brokers)
    return f"Not registered: {missing}." if missing else None


def original_replicas(partition: Partition) -> tuple[int, ...]:
    """The replicas that a cancelled reassignment goes back to.

    They include replicas of a replaced target that are being removed: as in Kafka, the metadata does not say which of
    the removing replicas were there first.
    """
    return without(partition.replicas, partition.adding)


def current_target(partition: Partition) -> tuple[int, ...]:
    """The target of the reassignment in progress; without one, the replicas."""
    return without(partition.replicas, partition.removing)


def _start(
    state: ControllerState, partition: Partition, target: tuple[int, ...], made: list[records.MetadataRecord]
) -> Outcome:
    """R5: a replica that only the replaced target had is removed like every other, at completion (R2). Until then it
    stays in the ISR if it is in it, so that MinISR never depends on the new target.
    """
    builder = state.change(partition)
    builder.adding = without(target, original_replicas(partition))
    builder.removing = without(partition.replicas, target)
    builder.replicas = (*target, *builder.removing)  # R1: grow first. Another order alone raises no leader epoch (M2).
    record = state.build(builder, CAUSE)
    if record is None:
        return OK
    made.append(record)
    kind = "reassignment_replaced" if partition.reassigning else "reassignment_started"
    state.out.note(kind, topic=partition.topic, partition=partition.index, target=target)
    return OK


def _cancel(state: ControllerState, partition: Partition, made: list[records.MetadataRecord]) -> Outcome:
    if not partition.reassigning:
        return ErrorCode.no_reassignment_in_progress, None
    builder = state.change(partition)
    builder.replicas = original_replicas(partition)
    builder.isr = without(partition.isr, partition.adding)
    builder.adding = builder.removing = ()
    if not keeps_min_isr_after_cancel(builder) and not state.allows_unclean_election(partition.topic):
        return ErrorCode.invalid_replica_assignment, "Too few of the original replicas are in sync."
    builder.new_leader_epoch = bool(partition.adding)  # M2: replicas that were being added are out of the set
    record = state.build(builder, CAUSE)
    if record is not None:
        made.append(record)
    state.out.note(
        "reassignment_cancelled", topic=partition.topic, partition=partition.index, replicas=builder.replicas
    )
    return OK


def keeps_min_isr_after_cancel(builder: PartitionChangeBuilder) -> bool:
    """R5: a cancelled reassignment keeps the redundancy that MinISR promises."""
    return bool(builder.isr) and len(builder.isr) >= min(builder.min_isr, len(builder.replicas))


# --- listing (R6) ----------------------------------------------------------------------------------------------------


def list_reassignments(
    state: ControllerState, request: list_messages.ListPartitionReassignmentsRequest, now: int
) -> Decision:
    topics: dict[str, list[list_messages.OngoingPartitionReassignment]] = {}
    for partition in _requested_partitions(state.image, request):
        topics.setdefault(partition.topic, []).append(
            list_messages.OngoingPartitionReassignment(
                partition_index=partition.index,
                replicas=partition.replicas,
                adding_replicas=partition.adding,
                removing_replicas=partition.removing,
            )
        )
    response = list_messages.ListPartitionReassignmentsResponse(
        throttle_time=NO_DURATION,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(
            list_messages.OngoingTopicReassignment(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
    return Decision(response=response)


def _requested_partitions(
    image: Image, request: list_messages.ListPartitionReassignmentsRequest
) -> Iterable[Partition]:
    if request.topics is None:
        return image.reassigning()
    partitions = (image.find(topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    return [partition for partition in partitions if partition is not None and partition.reassigning]
