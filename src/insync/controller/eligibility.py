"""What a broker may do, by its registration in the image."""

from __future__ import annotations

from insync.metadata.image import Image


def is_current_epoch(image: Image, broker_id: int, broker_epoch: int) -> bool:
    """B8: a request of an earlier incarnation of a broker is void."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.epoch == broker_epoch


def can_lead(image: Image, broker_id: int) -> bool:
    """E2, B4, B7: a broker that is fenced or shutting down is not elected."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


def can_join_isr(image: Image, broker_id: int) -> bool:
    """I4, B4, B7: a broker that is fenced or shutting down is not added to an ISR."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


def is_current_member_epoch(image: Image, broker_id: int, broker_epoch: int, in_isr: bool) -> bool:
    """I4: a follower that restarted since it last fetched may have lost what the leader has seen of it.

    A leader sends -1 for a member that has not fetched in its leader epoch. That is safe: had the member restarted, it
    would have been fenced, and the partition epoch that the leader knows would be an old one.
    """
    broker = image.brokers.get(broker_id)
    return (broker_epoch == -1 and in_isr) or (broker is not None and broker.epoch == broker_epoch)
