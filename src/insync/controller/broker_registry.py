"""Brokers come, go, and are fenced: what that does to the partitions they hold (B1, B2, B4-B7, E1, E5).

Each function walks only the partitions of the broker in question.

Notes: broker_registered(broker, broker_epoch, clean), broker_fenced(broker, broker_epoch, cause),
broker_unfenced(broker, broker_epoch), broker_unregistered(broker), controlled_shutdown(broker, partitions).
"""

from __future__ import annotations

from typing import Any

from insync.controller.context import Contact, Context
from insync.controller.decision import Decision
from insync.controller.partition_change import without
from insync.metadata.broker import Broker
from insync.metadata.partition import Partition
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_registration, unregister_broker
from insync.wire.types import NO_DURATION

Records = list[records.MetadataRecord]


def register(ctx: Context, request: Any, now: int) -> Decision:
    existing = ctx.image.brokers.get(request.broker_id)
    if request.cluster_id != ctx.config.cluster_id:
        return _registered(ErrorCode.inconsistent_cluster_id)
    if request.incarnation_id is None:
        return _registered(ErrorCode.invalid_registration)
    if existing is not None and is_retry(existing, request):
        ctx.contact(request.broker_id, now).heard_at = now
        return _registered(ErrorCode.none, existing.epoch)
    if existing is not None and not earlier_uptime_is_over(existing):
        return _registered(ErrorCode.duplicate_broker_registration)
    if directory_belongs_to_another(ctx, request):
        return _registered(ErrorCode.invalid_registration)
    # B1: the registration record comes first in its batch, so its offset is the log's end.
    epoch = ctx.next_offset
    made: Records = [_registration_record(request, epoch)]
    clean = stopped_cleanly(existing, request)
    if not clean:
        made += expel_unclean(ctx, request.broker_id)
    ctx.contacts[request.broker_id] = Contact(now)
    ctx.out.note("broker_registered", broker=request.broker_id, broker_epoch=epoch, clean=clean)
    return _registered(ErrorCode.none, epoch, made)


def is_retry(existing: Broker, request: Any) -> bool:
    """B2: the same process asks again because it missed the answer."""
    return bool(existing.incarnation_id == request.incarnation_id)


def earlier_uptime_is_over(existing: Broker) -> bool:
    """B2: fencing took the earlier uptime out of every ISR and leadership; only then may a new one begin."""
    return existing.fenced


def directory_belongs_to_another(ctx: Context, request: Any) -> bool:
    """B9: two brokers with one directory id are two copies of one directory, and one of them is not what it claims."""
    others = (broker for broker in ctx.image.brokers.values() if broker.id != request.broker_id)
    return any(directory in broker.log_dirs for broker in others for directory in request.log_dirs)


def stopped_cleanly(existing: Broker | None, request: Any) -> bool:
    """B6: only the epoch of the last uptime proves that its logs were flushed whole."""
    return existing is not None and bool(request.previous_broker_epoch == existing.epoch)


def expel_unclean(ctx: Context, broker_id: int) -> Records:
    """B6, E5: a replica that may have lost records leaves every ISR and ELR."""
    made: Records = []
    for partition in ctx.image.partitions_of(broker_id):
        if broker_id not in partition.isr and broker_id not in partition.elr:
            continue
        builder = ctx.builder(partition, lambda replica: replica != broker_id and ctx.may_lead(replica))
        builder.isr = without(partition.isr, (broker_id,))
        builder.unclean_replicas = (broker_id,)
        record = ctx.build(builder)
        if record is not None:
            made.append(record)
    return made


def unregister(ctx: Context, request: Any, now: int) -> Decision:
    """A broker is gone for good: nothing it holds counts any more (I5)."""
    broker = ctx.image.brokers.get(request.broker_id)
    if broker is None:
        return _unregistered(ErrorCode.broker_id_not_registered, f"Broker {request.broker_id} is not registered.")
    made = expel_unclean(ctx, broker.id)
    made.append(records.UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    ctx.contacts.pop(broker.id, None)
    ctx.out.note("broker_unregistered", broker=broker.id)
    return _unregistered(ErrorCode.none, None, made)


def fence(ctx: Context, broker: Broker, cause: str) -> Records:
    """B4: out of every ISR and leadership, in one batch with the fencing itself."""
    ctx.cause = f"broker {broker.id} is fenced"
    made = remove_from_isrs(ctx, broker.id)
    made.append(
        records.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=records.FENCED)
    )
    ctx.out.note("broker_fenced", broker=broker.id, broker_epoch=broker.epoch, cause=cause)
    return made


def unfence(ctx: Context, broker: Broker) -> Records:
    """B3, E1: a candidate appears for the partitions that have no leader."""
    ctx.cause = f"broker {broker.id} is unfenced"
    made: Records = [
        records.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=records.UNFENCED)
    ]
    if not broker.in_controlled_shutdown:
        made += _elect_where_leaderless(ctx, broker.id)
    ctx.out.note("broker_unfenced", broker=broker.id, broker_epoch=broker.epoch)
    return made


def begin_controlled_shutdown(ctx: Context, broker: Broker) -> Records:
    """B7: leadership and ISR memberships move away while the broker still serves."""
    made: Records = []
    if not broker.in_controlled_shutdown:
        made.append(
            records.BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
        )
    moved = remove_from_isrs(ctx, broker.id)
    ctx.out.note("controlled_shutdown", broker=broker.id, partitions=len(moved))
    return made + moved


def remove_from_isrs(ctx: Context, broker_id: int) -> Records:
    """I5: the controller only ever takes members out."""
    made: Records = []
    for partition in ctx.image.partitions_of(broker_id):
        if broker_id not in partition.isr and broker_id != partition.leader:
            continue
        record = _remove_from_isr(ctx, partition, broker_id)
        if record is not None:
            made.append(record)
    return made


def _remove_from_isr(ctx: Context, partition: Partition, broker_id: int) -> records.PartitionChangeRecord | None:
    builder = ctx.builder(partition, lambda replica: replica != broker_id and ctx.may_lead(replica))
    builder.isr = without(partition.isr, (broker_id,))
    record = ctx.build(builder)
    if record is not None and record.isr is not None:
        after = partition.changed_by(record)
        ctx.out.note(
            "isr_shrunk_by_controller",
            topic=partition.topic,
            partition=partition.index,
            isr=record.isr,
            before=partition.isr,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            cause=ctx.cause,
        )
    return record


def _elect_where_leaderless(ctx: Context, broker_id: int) -> Records:
    made: Records = []
    for partition in ctx.image.leaderless():
        if broker_id not in partition.replicas:
            continue
        record = ctx.build(ctx.builder(partition, lambda replica: replica == broker_id or ctx.may_lead(replica)))
        if record is not None:
            made.append(record)
    return made


def _registration_record(request: Any, epoch: int) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            records.BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in request.listeners
        ),
        features=tuple(
            records.BrokerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ),
        rack=request.rack,
        fenced=True,  # B3: a broker starts fenced
        log_dirs=tuple(request.log_dirs),
    )


def _registered(error: ErrorCode, epoch: int = -1, made: Records | None = None) -> Decision:
    response = broker_registration.BrokerRegistrationResponse(
        throttle_time=NO_DURATION, error_code=error, broker_epoch=epoch
    )
    return Decision(records=tuple(made or ()), response=response)


def _unregistered(error: ErrorCode, message: str | None, made: Records | None = None) -> Decision:
    response = unregister_broker.UnregisterBrokerResponse(
        throttle_time=NO_DURATION, error_code=error, error_message=message
    )
    return Decision(records=tuple(made or ()), response=response)
