"""Brokers register, leave and are fenced: what that does to the partitions they hold (B1, B2, B4-B7, E1, E5).

Each function visits only the partitions of the broker in question, and changes at most a slice of them. What takes
something away from a broker comes before the record that says so, in however many slices: at no prefix of the log is a
fenced broker in an ISR (B4), or a broker that restarted uncleanly registered and in an ELR (B6). What gives it
something comes after. A controller that takes over in between finds the rest when the session expires again, or when
the request is repeated.

Notes: broker_registered(broker, broker_epoch, clean), broker_fenced(broker, broker_epoch, cause),
broker_unfenced(broker, broker_epoch), broker_unregistered(broker), controlled_shutdown(broker, partitions),
isr_shrunk_by_controller(topic, partition, isr, before, leader_epoch, partition_epoch, cause).
"""

from __future__ import annotations

from uuid import UUID

from insync.controller.decision import Decision, Slices
from insync.controller.partition_change import without
from insync.controller.state import Contact, ControllerState
from insync.metadata.broker import Broker
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_registration, unregister_broker
from insync.wire.types import NO_DURATION

Records = list[records.MetadataRecord]


# --- registration ----------------------------------------------------------------------------------------------------


def register(
    state: ControllerState, request: broker_registration.BrokerRegistrationRequest, now: int
) -> Decision | Slices:
    existing = state.image.brokers.get(request.broker_id)
    if request.cluster_id != state.config.cluster_id:
        return _answer_registration(ErrorCode.inconsistent_cluster_id)
    if request.incarnation_id is None:
        return _answer_registration(ErrorCode.invalid_registration)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        # B2: the same process asks again, because it missed the response.
        state.contact(request.broker_id, now).last_heard_ms = now
        return _answer_registration(ErrorCode.none, existing.epoch)
    if not may_replace(existing):
        return _answer_registration(ErrorCode.duplicate_broker_registration)
    if is_directory_taken(state, request):
        return _answer_registration(ErrorCode.invalid_registration)
    # B6: only the epoch of the last incarnation proves that it flushed its logs.
    is_clean = existing is not None and request.previous_broker_epoch == existing.epoch
    expelled = [] if is_clean else expel_unclean(state, request.broker_id, "a broker registers")
    if len(expelled) >= state.config.max_slice_records:
        return _register_in_slices(state, request, now, expelled)
    # B1: the registration record comes first in its batch, so its offset is the log's end.
    epoch = state.next_offset
    state.contacts[request.broker_id] = Contact(now)
    state.out.note("broker_registered", broker=request.broker_id, broker_epoch=epoch, clean=is_clean)
    return _answer_registration(
        ErrorCode.none, epoch, [_registration_record(request, request.incarnation_id, epoch), *expelled]
    )


def _register_in_slices(
    state: ControllerState, request: broker_registration.BrokerRegistrationRequest, now: int, expelled: Records
) -> Slices:
    """B6: the broker is registered with the last slice; until then its earlier registration stays, fenced."""
    while len(expelled) >= state.config.max_slice_records:
        yield Decision(records=tuple(expelled))
        expelled = expel_unclean(state, request.broker_id, "a broker registers")
    rest = register(state, request, now)
    if isinstance(rest, Decision):
        yield rest
    else:
        yield from rest


def may_replace(existing: Broker | None) -> bool:
    """B2: fencing takes the earlier incarnation out of every ISR and leadership; only then may a new one begin."""
    return existing is None or existing.fenced


def is_directory_taken(state: ControllerState, request: broker_registration.BrokerRegistrationRequest) -> bool:
    """B9: two brokers with one directory id have two copies of one directory, and one of them is not what it claims."""
    others = (broker for broker in state.image.brokers.values() if broker.id != request.broker_id)
    return any(directory in broker.log_dirs for broker in others for directory in request.log_dirs)


def expel_unclean(state: ControllerState, broker_id: int, cause: str) -> Records:
    """B6, E5: a replica that may have lost records leaves every ISR and ELR. One slice at most."""
    made: Records = []
    for partition in state.image.partitions_of(broker_id):
        if len(made) >= state.config.max_slice_records:
            break
        if broker_id not in partition.isr and broker_id not in partition.elr:
            continue
        builder = state.change(partition, lambda replica: replica != broker_id and state.can_lead(replica))
        builder.isr = without(partition.isr, (broker_id,))
        builder.unclean_replicas = (broker_id,)
        record = state.build(builder, cause)
        if record is not None:
            made.append(record)
    return made


def unregister(state: ControllerState, request: unregister_broker.UnregisterBrokerRequest, now: int) -> Slices:
    """A broker is gone for good: nothing that it holds counts any more (I5)."""
    broker_id = request.broker_id
    if broker_id not in state.image.brokers:
        yield _answer_unregistration(ErrorCode.broker_id_not_registered, f"Broker {broker_id} is not registered.")
        return
    state.leaving[broker_id] = None
    cause = "a broker is unregistered"
    while len(made := expel_unclean(state, broker_id, cause)) >= state.config.max_slice_records:
        yield Decision(records=tuple(made))
    state.leaving.pop(broker_id, None)
    broker = state.image.brokers.get(broker_id)
    if broker is not None:
        made.append(records.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
        state.contacts.pop(broker_id, None)
        state.out.note("broker_unregistered", broker=broker_id)
    yield _answer_unregistration(ErrorCode.none, None, made)


# --- fencing ---------------------------------------------------------------------------------------------------------


def fence(state: ControllerState, broker: Broker, cause: str) -> Slices:
    """B4: remove the broker from every ISR and leadership. The last slice, often the only one, fences it."""
    state.leaving[broker.id] = None
    while True:
        made = remove_from_isrs(state, broker.id, f"broker {broker.id} is fenced")
        if len(made) < state.config.max_slice_records:
            break
        yield Decision(records=tuple(made))
        if not _is_still_unfenced(state, broker):
            state.leaving.pop(broker.id, None)
            return
    made.append(
        records.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=records.FENCED)
    )
    state.leaving.pop(broker.id, None)
    state.out.note("broker_fenced", broker=broker.id, broker_epoch=broker.epoch, cause=cause)
    yield Decision(records=tuple(made))


def _is_still_unfenced(state: ControllerState, broker: Broker) -> bool:
    """Whether this incarnation is registered and not fenced; both may have changed since the last slice."""
    current = state.image.brokers.get(broker.id)
    return current is not None and current.epoch == broker.epoch and not current.fenced


def unfence(state: ControllerState, broker: Broker) -> Records:
    """B3, E1: a candidate appears for the partitions that have no leader. Those beyond one slice are elected in later
    steps (`elections.elect_leaderless`)."""
    made: Records = [
        records.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=records.UNFENCED)
    ]
    if not broker.in_controlled_shutdown:
        elected: Records = []
        for partition in state.image.leaderless():
            if len(elected) >= state.config.max_slice_records:
                break
            if broker.id not in partition.replicas:
                continue
            builder = state.change(partition, lambda replica: replica == broker.id or state.can_lead(replica))
            record = state.build(builder, f"broker {broker.id} is unfenced")
            if record is not None:
                elected.append(record)
        made += elected
    state.out.note("broker_unfenced", broker=broker.id, broker_epoch=broker.epoch)
    return made


def begin_controlled_shutdown(state: ControllerState, broker: Broker) -> Slices:
    """B7: move leaderships and ISR memberships away while the broker still serves. The first slice says that it is
    shutting down, so that it is given nothing new."""
    made: Records = []
    if not broker.in_controlled_shutdown:
        made.append(
            records.BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
        )
    state.draining[broker.id] = None
    moved = 0
    while True:
        removed = remove_from_isrs(state, broker.id, f"broker {broker.id} shuts down")
        moved += len(removed)
        if len(removed) < state.config.max_slice_records:
            break
        yield Decision(records=(*made, *removed))
        made = []
        if not _is_still_unfenced(state, broker):
            state.draining.pop(broker.id, None)
            return
    made += removed
    state.draining.pop(broker.id, None)
    contact = state.contacts.get(broker.id)
    if contact is not None:
        contact.shutdown_offset = state.next_offset + len(made) - 1
    state.out.note("controlled_shutdown", broker=broker.id, partitions=moved)
    yield Decision(records=tuple(made))


def remove_from_isrs(state: ControllerState, broker_id: int, cause: str) -> Records:
    """I5: the controller itself only removes members. One slice at most."""
    made: Records = []
    for partition in state.image.partitions_of(broker_id):
        if len(made) >= state.config.max_slice_records:
            break
        if broker_id not in partition.isr and broker_id != partition.leader:
            continue
        builder = state.change(partition, lambda replica: replica != broker_id and state.can_lead(replica))
        builder.isr = without(partition.isr, (broker_id,))
        record = state.build(builder, cause)
        if record is None:
            continue
        made.append(record)
        if record.isr is not None:
            state.out.note(
                "isr_shrunk_by_controller",
                topic=partition.topic,
                partition=partition.index,
                isr=record.isr,
                before=partition.isr,
                leader_epoch=builder.after.leader_epoch,
                partition_epoch=builder.after.partition_epoch,
                cause=cause,
            )
    return made


# --- records and responses -------------------------------------------------------------------------------------------


def _registration_record(
    request: broker_registration.BrokerRegistrationRequest, incarnation_id: UUID, epoch: int
) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            records.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ),
        features=tuple(
            records.BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ),
        rack=request.rack,
        fenced=True,  # B3: a broker starts fenced
        log_dirs=tuple(request.log_dirs),
    )


def _answer_registration(error: ErrorCode, epoch: int = -1, made: Records | None = None) -> Decision:
    response = broker_registration.BrokerRegistrationResponse(
        throttle_time=NO_DURATION, error_code=error, broker_epoch=epoch
    )
    return Decision(records=tuple(made or ()), response=response)


def _answer_unregistration(error: ErrorCode, message: str | None, made: Records | None = None) -> Decision:
    response = unregister_broker.UnregisterBrokerResponse(
        throttle_time=NO_DURATION, error_code=error, error_message=message
    )
    return Decision(records=tuple(made or ()), response=response)
