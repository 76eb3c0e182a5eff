"""Heartbeats: how a broker is found alive, unfenced, and told that it may stop (B3, B4, B7).

A broker is fenced, unfenced or in controlled shutdown; each heartbeat may move it on. One that moves nothing makes no
records. Offsets in heartbeats are those of the last metadata record that the broker has applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from insync.controller import broker_registry, eligibility
from insync.controller.context import Contact, Context
from insync.controller.decision import Decision, Slices
from insync.metadata.broker import Broker
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat
from insync.wire.types import NO_DURATION


def heartbeat(ctx: Context, request: Any, now: int) -> Decision:
    if not eligibility.epoch_is_current(ctx.image, request.broker_id, request.broker_epoch):
        return Decision(response=_response(ErrorCode.stale_broker_epoch))  # B8
    broker = ctx.image.brokers[request.broker_id]
    contact = ctx.contact(broker.id, now)
    contact.heard_at = now
    contact.lost = False
    contact.metadata_offset = request.current_metadata_offset
    if broker.fenced:
        return _while_fenced(ctx, broker, request)
    if broker.id in ctx.leaving:  # B4: the fencing is under way; only a heartbeat after it may end it
        return _answer(broker, request, [], fenced=False)
    if request.want_fence:
        return _fence(ctx, broker, request, "it asks for it")
    if request.want_shut_down:
        return _while_stopping(ctx, broker, contact, request)
    return _answer(broker, request, [], fenced=False)


def _while_fenced(ctx: Context, broker: Broker, request: Any) -> Decision:
    if request.want_shut_down:
        return _answer(broker, request, [], fenced=True, stop=True)
    if request.want_fence or not has_read_own_registration(broker, request):
        return _answer(broker, request, [], fenced=True)
    return _answer(broker, request, broker_registry.unfence(ctx, broker), fenced=False)


def has_read_own_registration(broker: Broker, request: Any) -> bool:
    """B3: a broker serves only with metadata at least as new as its own registration."""
    return bool(request.current_metadata_offset >= broker.registration_offset)


def _while_stopping(ctx: Context, broker: Broker, contact: Contact, request: Any) -> Decision:
    """B7: first hand everything over, then wait until the others know."""
    if broker.id in ctx.draining:
        return _answer(broker, request, [], fenced=False)
    if ctx.image.leads_any(broker.id):
        slices = broker_registry.begin_controlled_shutdown(ctx, broker)
        made = next(slices).records
        return _answer(broker, request, made, fenced=False, rest=slices if broker.id in ctx.draining else None)
    if broker.in_controlled_shutdown:
        if contact.shutdown_offset is None:  # an earlier controller began it: all it wrote is in this log
            contact.shutdown_offset = ctx.next_offset - 1
        if not others_have_read(ctx, broker.id, contact.shutdown_offset):
            return _answer(broker, request, [], fenced=False)
    return _fence(ctx, broker, request, "it has shut down")


def _fence(ctx: Context, broker: Broker, request: Any, cause: str) -> Decision:
    """B4, B7: a broker that is to stop may do so once the last slice has fenced it: a later heartbeat tells it."""
    slices = broker_registry.fence(ctx, broker, cause)
    made = next(slices).records
    if broker.id in ctx.leaving:
        return _answer(broker, request, made, fenced=False, rest=slices)
    return _answer(broker, request, made, fenced=True, stop=request.want_shut_down)


def others_have_read(ctx: Context, broker_id: int, offset: int) -> bool:
    """B7: a broker that still believes in the old leader would send its clients and fetches to a dead one."""
    return all(
        ctx.contacts[other.id].metadata_offset >= offset if other.id in ctx.contacts else False
        for other in ctx.image.brokers.values()
        if other.active and other.id != broker_id
    )


def expired(ctx: Context, now: int) -> list[Broker]:
    """B4: unfenced brokers whose session is over."""
    return [broker for broker in _unfenced(ctx) if _deadline(ctx, broker.id) <= now]


def next_expiry(ctx: Context) -> int | None:
    return min((_deadline(ctx, broker.id) for broker in _unfenced(ctx)), default=None)


def peer_lost(ctx: Context, broker_id: int, now: int) -> None:
    """A dropped connection is a hint: the session is cut short, and the next heartbeat makes it whole again."""
    contact = ctx.contacts.get(broker_id)
    if contact is not None:
        hinted = now + ctx.config.lost_peer_grace_ms - ctx.config.session_timeout_ms
        contact.heard_at = min(contact.heard_at, hinted)
        contact.lost = True


def on_stall(ctx: Context, late_ms: int, now: int) -> None:
    """B4: the controller itself did not run for so long, and could not have heard from anybody. That a broker's
    connections dropped stays true."""
    for contact in ctx.contacts.values():
        if not contact.lost:
            contact.heard_at = min(now, contact.heard_at + late_ms)


def silence_of(ctx: Context, broker_id: int, now: int) -> str:
    """Why its session is over, in words."""
    contact = ctx.contacts.get(broker_id)
    if contact is None:
        return "it was never heard from"
    return "its connections dropped" if contact.lost else f"no heartbeat for {now - contact.heard_at} ms"


def _unfenced(ctx: Context) -> list[Broker]:
    """Without those that are being fenced."""
    return [broker for broker in ctx.image.brokers.values() if not broker.fenced and broker.id not in ctx.leaving]


def _deadline(ctx: Context, broker_id: int) -> int:
    contact = ctx.contacts.get(broker_id)
    return 0 if contact is None else contact.heard_at + ctx.config.session_timeout_ms


def _answer(
    broker: Broker,
    request: Any,
    made: Sequence[records.MetadataRecord],
    *,
    fenced: bool,
    stop: bool = False,
    rest: Slices | None = None,
) -> Decision:
    caught_up = request.current_metadata_offset >= broker.registration_offset
    response = _response(ErrorCode.none, caught_up, fenced, stop)
    return Decision(records=tuple(made), response=response, rest=rest)


def _response(
    error: ErrorCode, caught_up: bool = False, fenced: bool = True, stop: bool = False
) -> broker_heartbeat.BrokerHeartbeatResponse:
    return broker_heartbeat.BrokerHeartbeatResponse(
        throttle_time=NO_DURATION, error_code=error, is_caught_up=caught_up, is_fenced=fenced, should_shut_down=stop
    )
