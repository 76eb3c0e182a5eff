"""Replica placement for new partitions: striped round robin over the brokers, the unfenced ones first.

Leaders go around the brokers one by one. Followers start next to their leader, and one further each time the leaders
have gone around once, so that the load of a lost broker spreads over all others.
"""

from __future__ import annotations

from collections.abc import Container

from insync.metadata.image import Image


def place_replicas(
    image: Image, count: int, replication_factor: int, start: int, leaving: Container[int] = ()
) -> list[tuple[int, ...]] | None:
    """Replicas of partitions `start`, `start` + 1 ...; None if there are too few brokers, or none that can lead.

    Brokers that are `leaving` count as fenced.
    """
    ids = sorted(image.brokers)
    active = [broker for broker in ids if image.brokers[broker].is_active and broker not in leaving]
    fenced = [broker for broker in ids if image.brokers[broker].fenced or broker in leaving]
    if not active or replication_factor > len(active) + len(fenced):
        return None
    return [_stripe(active, fenced, replication_factor, start + index) for index in range(count)]


def _stripe(active: list[int], fenced: list[int], replication_factor: int, index: int) -> tuple[int, ...]:
    rounds, first = divmod(index, len(active))
    others = len(active) - 1
    order = [active[first]]
    order += [active[(first + 1 + (rounds + step) % others) % len(active)] for step in range(others)]
    order += [fenced[(index + step) % len(fenced)] for step in range(len(fenced))]
    return tuple(order[:replication_factor])
