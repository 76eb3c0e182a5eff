"""Heartbeats: they keep a broker's session alive, unfence it, and tell it when it may stop (B3, B4, B7).

A broker is fenced, unfenced or in controlled shutdown; each heartbeat may move it on. One that moves nothing makes no
records. Offsets in heartbeats are those of the last metadata record that the broker has applied.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.controller import broker_registry
from insync.controller.decision import Decision, Slices
from insync.controller.state import Contact, ControllerState
from insync.metadata.broker import Broker
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat
from insync.wire.types import NO_DURATION


def handle_heartbeat(state: ControllerState, request: broker_heartbeat.BrokerHeartbeatRequest, now: int) -> Decision:
    if not state.is_current_epoch(request.broker_id, request.broker_epoch):
        return Decision(response=_make_response(ErrorCode.stale_broker_epoch))  # B8
    broker = state.image.brokers[request.broker_id]
    contact = state.contact(broker.id, now)
    contact.last_heard_ms = now
    contact.connection_lost = False
    contact.metadata_offset = request.current_metadata_offset
    if broker.fenced:
        return _answer_fenced(state, broker, request)
    if broker.id in state.leaving:  # B4: it is being fenced, and only a later heartbeat may unfence it
        return _answer(broker, request, (), fenced=False)
    if request.want_fence:
        return _fence(state, broker, request, "it asks for it")
    if request.want_shut_down:
        return _answer_stopping(state, broker, contact, request)
    return _answer(broker, request, (), fenced=False)


def _answer_fenced(
    state: ControllerState, broker: Broker, request: broker_heartbeat.BrokerHeartbeatRequest
) -> Decision:
    if request.want_shut_down:
        return _answer(broker, request, (), fenced=True, stop=True)
    if request.want_fence or request.current_metadata_offset < broker.registration_offset:
        return _answer(broker, request, (), fenced=True)  # B3: it has to read its own registration before it serves
    return _answer(broker, request, broker_registry.unfence(state, broker), fenced=False)


def _answer_stopping(
    state: ControllerState, broker: Broker, contact: Contact, request: broker_heartbeat.BrokerHeartbeatRequest
) -> Decision:
    """B7: first move all leaderships away, then wait until the other brokers know."""
    if broker.id in state.draining:
        return _answer(broker, request, (), fenced=False)
    if state.image.leads_any(broker.id):
        slices = broker_registry.begin_controlled_shutdown(state, broker)
        made = next(slices).records
        return _answer(broker, request, made, fenced=False, rest=slices if broker.id in state.draining else None)
    if broker.in_controlled_shutdown:
        if contact.shutdown_offset is None:  # an earlier controller began it: everything it wrote is in this log
            contact.shutdown_offset = state.next_offset - 1
        if not others_have_read(state, broker.id, contact.shutdown_offset):
            return _answer(broker, request, (), fenced=False)
    return _fence(state, broker, request, "it has shut down")


def _fence(
    state: ControllerState, broker: Broker, request: broker_heartbeat.BrokerHeartbeatRequest, cause: str
) -> Decision:
    """B4, B7: a broker that wants to stop may do so once the last slice has fenced it; a later heartbeat says so."""
    slices = broker_registry.fence(state, broker, cause)
    made = next(slices).records
    if broker.id in state.leaving:
        return _answer(broker, request, made, fenced=False, rest=slices)
    return _answer(broker, request, made, fenced=True, stop=request.want_shut_down)


def others_have_read(state: ControllerState, broker_id: int, offset: int) -> bool:
    """B7: a broker with older metadata would send its clients and its fetches to a leader that has stopped."""
    return all(
        other.id in state.contacts and state.contacts[other.id].metadata_offset >= offset
        for other in state.image.brokers.values()
        if other.is_active and other.id != broker_id
    )


# --- sessions --------------------------------------------------------------------------------------------------------


def expired_brokers(state: ControllerState, now: int) -> list[Broker]:
    """B4: unfenced brokers whose session has expired."""
    return [broker for broker in _unfenced(state) if _session_deadline(state, broker.id) <= now]


def next_expiry(state: ControllerState) -> int | None:
    return min((_session_deadline(state, broker.id) for broker in _unfenced(state)), default=None)


def on_peer_lost(state: ControllerState, broker_id: int, now: int) -> None:
    """A dropped connection is a hint: the session is shortened, and the next heartbeat restores it."""
    contact = state.contacts.get(broker_id)
    if contact is not None:
        shortened = now + state.config.lost_peer_grace_ms - state.config.session_timeout_ms
        contact.last_heard_ms = min(contact.last_heard_ms, shortened)
        contact.connection_lost = True


def on_stall(state: ControllerState, stall_ms: int, now: int) -> None:
    """B4: the controller itself did not run for so long, and could not receive heartbeats. A dropped connection still
    counts."""
    for contact in state.contacts.values():
        if not contact.connection_lost:
            contact.last_heard_ms = min(now, contact.last_heard_ms + stall_ms)


def explain_expiry(state: ControllerState, broker_id: int, now: int) -> str:
    contact = state.contacts.get(broker_id)
    if contact is None:
        return "it was never heard from"
    if contact.connection_lost:
        return "its connections dropped"
    return f"no heartbeat for {now - contact.last_heard_ms} ms"


def _unfenced(state: ControllerState) -> list[Broker]:
    """Unfenced brokers, without those that are being fenced."""
    return [broker for broker in state.image.brokers.values() if not broker.fenced and broker.id not in state.leaving]


def _session_deadline(state: ControllerState, broker_id: int) -> int:
    contact = state.contacts.get(broker_id)
    return 0 if contact is None else contact.last_heard_ms + state.config.session_timeout_ms


# --- responses -------------------------------------------------------------------------------------------------------


def _answer(
    broker: Broker,
    request: broker_heartbeat.BrokerHeartbeatRequest,
    made: Sequence[records.MetadataRecord],
    *,
    fenced: bool,
    stop: bool = False,
    rest: Slices | None = None,
) -> Decision:
    is_caught_up = request.current_metadata_offset >= broker.registration_offset
    response = _make_response(ErrorCode.none, is_caught_up, fenced, stop)
    return Decision(records=tuple(made), response=response, rest=rest)


def _make_response(
    error: ErrorCode, caught_up: bool = False, fenced: bool = True, stop: bool = False
) -> broker_heartbeat.BrokerHeartbeatResponse:
    return broker_heartbeat.BrokerHeartbeatResponse(
        throttle_time=NO_DURATION, error_code=error, is_caught_up=caught_up, is_fenced=fenced, should_shut_down=stop
    )
