"""Reassignment: grow, catch up, shrink (R1-R6).

Starting one makes the replicas "target, then removing"; followers then catch up and their leader adds them to the ISR;
the change that brings the last of them in also completes it (`PartitionChangeBuilder.reassignment_is_done`).

Notes: reassignment_started(topic, partition, target), reassignment_replaced(topic, partition, target),
reassignment_cancelled(topic, partition, replicas).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from insync.controller.context import Context
from insync.controller.decision import Decision
from insync.controller.partition_change import PartitionChangeBuilder, without
from insync.metadata.image import Image
from insync.metadata.partition import Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition_reassignments as alter_messages
from insync.wire.messages import list_partition_reassignments as list_messages
from insync.wire.types import NO_DURATION

Outcome = tuple[ErrorCode, str | None]
OK: Outcome = (ErrorCode.none, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """R6: how far one reassignment has come."""

    topic: str
    index: int
    target: tuple[int, ...]
    caught_up: tuple[int, ...]
    waiting_for: tuple[int, ...]
    removing: tuple[int, ...]


def alter(ctx: Context, request: Any, now: int) -> Decision:
    made: list[records.MetadataRecord] = []
    seen: dict[PartitionKey, None] = {}
    responses = []
    for topic in request.topics:
        results = []
        for entry in topic.partitions:
            partition = ctx.image.find(topic.name, entry.partition_index)
            outcome = _one(ctx, request, partition, entry.replicas, seen, made)
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


def _one(
    ctx: Context,
    request: Any,
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
        return _cancel(ctx, partition, made)
    outcome = _check_target(ctx, request, partition, tuple(target))
    return outcome if outcome != OK else _start(ctx, partition, tuple(target), made)


def _check_target(ctx: Context, request: Any, partition: Partition, target: tuple[int, ...]) -> Outcome:
    problem = assignment_problem(ctx.image, target)
    if problem is not None:
        return ErrorCode.invalid_replica_assignment, problem
    if not request.allow_replication_factor_change and len(target) != len(current_target(partition)):
        now = len(current_target(partition))
        return ErrorCode.invalid_replication_factor, f"The replication factor is changed from {now} to {len(target)}"
    return OK


def assignment_problem(image: Image, replicas: tuple[int, ...]) -> str | None:
    """Why these brokers cannot hold a partition; None when they can. Fenced ones can."""
    if not replicas:
        return "The replica list is empty."
    if len(dict.fromkeys(replicas)) != len(replicas):
        return "The replica list names a broker more than once."
    missing = tuple(replica for replica in replicas if replica not in image.brokers)
    return f"Not registered: {missing}." if missing else None


def original(partition: Partition) -> tuple[int, ...]:
    """The replicas that a cancelled reassignment goes back to.

    Replicas that only a replaced target wanted are among them once they are removing: the metadata does not say which
    of the removing replicas were there first, and Kafka's does not either.
    """
    return without(partition.replicas, partition.adding)


def current_target(partition: Partition) -> tuple[int, ...]:
    """What the reassignment under way leads to; without one, the replicas."""
    return without(partition.replicas, partition.removing)


def _start(ctx: Context, partition: Partition, target: tuple[int, ...], made: list[records.MetadataRecord]) -> Outcome:
    """R5: a replica that only the replaced target wanted is removing from now on and leaves at completion (R2), as
    every other does. Until then it stays in the ISR if it is in it, so that MinISR never depends on the new plan.
    """
    builder = ctx.builder(partition)
    builder.adding = without(target, original(partition))
    builder.removing = without(partition.replicas, target)
    builder.replicas = (*target, *builder.removing)  # R1: grow first. Another order alone raises no leader epoch (M2).
    record = ctx.build(builder)
    if record is None:
        return OK
    made.append(record)
    kind = "reassignment_replaced" if partition.reassigning else "reassignment_started"
    ctx.out.note(kind, topic=partition.topic, partition=partition.index, target=target)
    return OK


def _cancel(ctx: Context, partition: Partition, made: list[records.MetadataRecord]) -> Outcome:
    if not partition.reassigning:
        return ErrorCode.no_reassignment_in_progress, None
    builder = ctx.builder(partition)
    builder.replicas = original(partition)
    builder.isr = without(partition.isr, partition.adding)
    builder.adding = builder.removing = ()
    if not revert_keeps_min_isr(builder) and not ctx.unclean_election(partition.topic):
        return ErrorCode.invalid_replica_assignment, "Too few of the original replicas are in sync."
    builder.new_leader_epoch = bool(partition.adding)  # M2: replicas that were being added are out of the set
    record = ctx.build(builder)
    if record is not None:
        made.append(record)
    ctx.out.note("reassignment_cancelled", topic=partition.topic, partition=partition.index, replicas=builder.replicas)
    return OK


def revert_keeps_min_isr(builder: PartitionChangeBuilder) -> bool:
    """R5: going back must not cost the redundancy that MinISR promises."""
    return bool(builder.isr) and len(builder.isr) >= min(builder.min_isr, len(builder.replicas))


# --- listing (R6) ----------------------------------------------------------------------------------------------------


def progress(image: Image) -> tuple[Progress, ...]:
    return tuple(
        Progress(
            topic=partition.topic,
            index=partition.index,
            target=without(partition.replicas, partition.removing),
            caught_up=tuple(replica for replica in partition.adding if replica in partition.isr),
            waiting_for=without(partition.adding, partition.isr),
            removing=partition.removing,
        )
        for partition in image.reassigning()
    )


def listing(ctx: Context, request: Any, now: int) -> Decision:
    topics: dict[str, list[Any]] = {}
    for partition in _asked_for(ctx.image, request):
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


def _asked_for(image: Image, request: Any) -> Iterable[Partition]:
    if request.topics is None:
        return image.reassigning()
    found = (image.find(topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    return [partition for partition in found if partition is not None and partition.reassigning]
