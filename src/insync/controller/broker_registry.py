"""Brokers come, go, and are fenced: what that does to the partitions they hold (B1, B2, B4-B7, E1, E5).

Each function walks only the partitions of the broker in question, and changes at most a slice of them. What takes
something away from a broker comes before the record that says so, in whatever many slices: at no prefix of the log is a
fenced broker in an ISR (B4), or a broker that restarted uncleanly registered and in an ELR (B6). What gives it
something comes after. A controller that takes over in between finds the rest when the session expires again, or when
the request is repeated.

Notes: broker_registered(broker, broker_epoch, clean), broker_fenced(broker, broker_epoch, cause),
broker_unfenced(broker, broker_epoch), broker_unregistered(broker), controlled_shutdown(broker, partitions).
"""

from __future__ import annotations

from typing import Any

from insync.controller.context import Contact, Context
from insync.controller.decision import Decision, Slices
from insync.controller.partition_change import without
from insync.metadata.broker import Broker
from insync.metadata.partition import Partition
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_registration, unregister_broker
from insync.wire.types import NO_DURATION

Records = list[records.MetadataRecord]


def register(ctx: Context, request: Any, now: int) -> Decision | Slices:
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
    clean = stopped_cleanly(existing, request)
    expelled = [] if clean else expel_unclean(ctx, request.broker_id)
    if len(expelled) >= ctx.slice_records:
        return _register_in_slices(ctx, request, now, expelled)
    # B1: the registration record comes first in its batch, so its offset is the log's end.
    epoch = ctx.next_offset
    made: Records = [_registration_record(request, epoch), *expelled]
    ctx.contacts[request.broker_id] = Contact(now)
    ctx.out.note("broker_registered", broker=request.broker_id, broker_epoch=epoch, clean=clean)
    return _registered(ErrorCode.none, epoch, made)


def _register_in_slices(ctx: Context, request: Any, now: int, expelled: Records) -> Slices:
    """B6: the broker is registered with the last slice; until then its earlier registration stays, fenced."""
    while len(expelled) >= ctx.slice_records:
        yield Decision(records=tuple(expelled))
        ctx.cause = "a broker registers"
        expelled = expel_unclean(ctx, request.broker_id)
    rest = register(ctx, request, now)
    if isinstance(rest, Decision):
        yield rest
    else:
        yield from rest


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
    """B6, E5: a replica that may have lost records leaves every ISR and ELR. One slice at most."""
    made: Records = []
    for partition in ctx.image.partitions_of(broker_id):
        if len(made) >= ctx.slice_records:
            break
        if broker_id not in partition.isr and broker_id not in partition.elr:
            continue
        builder = ctx.builder(partition, lambda replica: replica != broker_id and ctx.may_lead(replica))
        builder.isr = without(partition.isr, (broker_id,))
        builder.unclean_replicas = (broker_id,)
        record = ctx.build(builder)
        if record is not None:
            made.append(record)
    return made


def unregister(ctx: Context, request: Any, now: int) -> Slices:
    """A broker is gone for good: nothing it holds counts any more (I5)."""
    broker_id = request.broker_id
    if broker_id not in ctx.image.brokers:
        yield _unregistered(ErrorCode.broker_id_not_registered, f"Broker {broker_id} is not registered.")
        return
    ctx.leaving[broker_id] = None
    while len(made := expel_unclean(ctx, broker_id)) >= ctx.slice_records:
        yield Decision(records=tuple(made))
        ctx.cause = "a broker is unregistered"
    ctx.leaving.pop(broker_id, None)
    broker = ctx.image.brokers.get(broker_id)
    if broker is not None:
        made.append(records.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
        ctx.contacts.pop(broker_id, None)
        ctx.out.note("broker_unregistered", broker=broker_id)
    yield _unregistered(ErrorCode.none, None, made)


def fence(ctx: Context, broker: Broker, cause: str) -> Slices:
    """B4: out of every ISR and leadership; the last slice, often the only one, has the fencing itself."""
    ctx.leaving[broker.id] = None
    while True:
        ctx.cause = f"broker {broker.id} is fenced"
        made = remove_from_isrs(ctx, broker.id)
        if len(made) < ctx.slice_records:
            break
        yield Decision(records=tuple(made))
        if not _is_unfenced_in(ctx, broker):
            ctx.leaving.pop(broker.id, None)
            return
    made.append(
        records.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=records.FENCED)
    )
    ctx.leaving.pop(broker.id, None)
    ctx.out.note("broker_fenced", broker=broker.id, broker_epoch=broker.epoch, cause=cause)
    yield Decision(records=tuple(made))


def _is_unfenced_in(ctx: Context, broker: Broker) -> bool:
    """Whether this incarnation is still registered and not fenced: that may have changed since the last slice."""
    known = ctx.image.brokers.get(broker.id)
    return known is not None and known.epoch == broker.epoch and not known.fenced


def unfence(ctx: Context, broker: Broker) -> Records:
    """B3, E1: a candidate appears for the partitions that have no leader. Those beyond one slice are elected in later
    steps, because a partition without a leader has a candidate (`elections.elect_leaderless`)."""
    ctx.cause = f"broker {broker.id} is unfenced"
    made: Records = [
        records.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=records.UNFENCED)
    ]
    if not broker.in_controlled_shutdown:
        made += _elect_where_leaderless(ctx, broker.id)
    ctx.out.note("broker_unfenced", broker=broker.id, broker_epoch=broker.epoch)
    return made


def begin_controlled_shutdown(ctx: Context, broker: Broker) -> Slices:
    """B7: leadership and ISR memberships move away while the broker still serves. The first slice says that it is
    shutting down, so that it is given nothing new."""
    made: Records = []
    if not broker.in_controlled_shutdown:
        made.append(
            records.BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
        )
    ctx.draining[broker.id] = None
    moved = 0
    while True:
        ctx.cause = f"broker {broker.id} shuts down"
        removed = remove_from_isrs(ctx, broker.id)
        moved += len(removed)
        if len(removed) < ctx.slice_records:
            break
        yield Decision(records=(*made, *removed))
        made = []
        if not _is_unfenced_in(ctx, broker):
            ctx.draining.pop(broker.id, None)
            return
    made += removed
    ctx.draining.pop(broker.id, None)
    contact = ctx.contacts.get(broker.id)
    if contact is not None:
        contact.shutdown_offset = ctx.next_offset + len(made) - 1
    ctx.out.note("controlled_shutdown", broker=broker.id, partitions=moved)
    yield Decision(records=tuple(made))


def remove_from_isrs(ctx: Context, broker_id: int) -> Records:
    """I5: the controller only ever takes members out. One slice at most."""
    made: Records = []
    for partition in ctx.image.partitions_of(broker_id):
        if len(made) >= ctx.slice_records:
            break
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
        after = builder.after
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
        if len(made) >= ctx.slice_records:
            break
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
