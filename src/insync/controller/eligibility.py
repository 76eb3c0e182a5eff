"""Who may do what, by the broker registrations in the image. Each check is a safeguard of its own."""

from __future__ import annotations

from insync.metadata.image import Image


def epoch_is_current(image: Image, broker_id: int, broker_epoch: int) -> bool:
    """B8: a request in the name of an earlier uptime of a broker is void."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.epoch == broker_epoch


def is_unfenced(image: Image, broker_id: int) -> bool:
    """B4: a fenced broker cannot be elected or be in an ISR."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced


def is_staying(image: Image, broker_id: int) -> bool:
    """B7: a broker that is shutting down is not elected and not added to an ISR."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.in_controlled_shutdown


def may_lead(image: Image, broker_id: int) -> bool:
    """E2"""
    return is_unfenced(image, broker_id) and is_staying(image, broker_id)


def may_join_isr(image: Image, broker_id: int) -> bool:
    """I4: a member that is fenced or shutting down is refused."""
    return is_unfenced(image, broker_id) and is_staying(image, broker_id)


def member_epoch_is_current(image: Image, broker_id: int, broker_epoch: int, in_isr: bool) -> bool:
    """I4: a follower that restarted since the leader heard from it may have lost what the leader saw.

    A leader that has not heard from a present member in its term says -1. That is safe: had the member restarted, it
    would have been fenced, and the partition epoch that the leader knows would be an old one.
    """
    broker = image.brokers.get(broker_id)
    return (broker_epoch == -1 and in_isr) or (broker is not None and broker.epoch == broker_epoch)
