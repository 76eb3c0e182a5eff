"""What is wrong with a cluster's network: a list of cuts and slow links, and what of it each node has to enforce.

Each entry is about bytes in one direction. Both ends enforce a cut. Of a slow link, the sender delays its bytes; a
client cannot be made to, so a node delays what it receives from clients itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from insync.cluster.faults import CLIENTS, NO_DELAY, Delay
from insync.server.local_cluster import ClusterError

Side = Iterable[int] | Literal["clients"]
"""One side of a cut: nodes, or all clients."""


@dataclass(frozen=True, slots=True, eq=False)
class Impairment:
    """Bytes from `senders` to `receivers` are delayed, or do not arrive at all if `delay` is None."""

    senders: frozenset[int]
    receivers: frozenset[int]
    delay: Delay | None = None


def network_faults(node: int, impairments: Iterable[Impairment]) -> dict[str, Any]:
    """The fields of `Faults` that concern this node's network."""
    mute_to, deaf_to = frozenset[int](), frozenset[int]()
    delay_to: dict[int, Delay] = {}
    delay_from_clients = NO_DELAY
    for impairment in impairments:
        delay = impairment.delay
        if delay is None and node in impairment.senders:
            mute_to |= impairment.receivers
        if delay is None and node in impairment.receivers:
            deaf_to |= impairment.senders
        if delay is not None and node in impairment.senders:
            delay_to |= {peer: delay_to.get(peer, NO_DELAY).plus(delay) for peer in impairment.receivers}
        if delay is not None and node in impairment.receivers and CLIENTS in impairment.senders:
            delay_from_clients = delay_from_clients.plus(delay)
    return {
        "mute_to": mute_to,
        "deaf_to": deaf_to,
        "delay_to": tuple(sorted(delay_to.items())),
        "delay_from_clients": delay_from_clients,
    }


def list_directions(
    nodes: frozenset[int], groups: Sequence[Side], delay: Delay | None, *, one_way: bool
) -> list[Impairment]:
    """What a cut, or a delay, between these groups means. A single group is opposed to all other nodes; a delay without
    groups is between all nodes."""
    if not groups and delay is not None:
        return [Impairment(frozenset((node,)), nodes - {node}, delay) for node in sorted(nodes)]
    sides = _list_sides(nodes, groups)
    if one_way and len(sides) != 2:
        raise ClusterError("one_way takes two groups: bytes of the first do not reach the second")
    pairs = [(a, b) for i, a in enumerate(sides) for j, b in enumerate(sides) if i < j or (i > j and not one_way)]
    return [Impairment(senders, receivers, delay) for senders, receivers in pairs]


def make_delay(latency_ms: float, bytes_per_s: int, loss: float) -> Delay:
    given = f"latency_ms={latency_ms}, bytes_per_s={bytes_per_s}, loss={loss}"
    if latency_ms < 0 or bytes_per_s < 0 or not 0 <= loss < 1:
        raise ClusterError(f"{given}: none may be negative, and loss is a share below 1")
    if not (latency_ms or bytes_per_s or loss):
        raise ClusterError("nothing is slow: give latency_ms, bytes_per_s or loss")
    return Delay(latency_ms, bytes_per_s, loss)


def no_such_node(node: object, nodes: Iterable[int]) -> ClusterError:
    return ClusterError(f"there is no node {node!r}: this cluster has the nodes {join_ids(nodes)}")


def join_ids(ids: Iterable[int]) -> str:
    return ", ".join(str(node) for node in sorted(ids))


def _list_sides(nodes: frozenset[int], groups: Sequence[Side]) -> list[frozenset[int]]:
    sides = [_to_side(group, nodes) for group in groups]
    for member in sorted(frozenset().union(*sides)):
        if sum(member in side for side in sides) > 1:
            name = "clients are" if member == CLIENTS else f"node {member} is"
            raise ClusterError(f"{name} on both sides of the cut: name it in one group")
    if len(sides) == 1:
        sides.append(nodes - sides[0])
    if not all(sides) or not sides:
        raise ClusterError("a cut needs nodes on both sides, such as partition({1}, {2, 3})")
    return sides


def _to_side(group: Side, nodes: Collection[int]) -> frozenset[int]:
    if isinstance(group, str):
        if group != "clients":
            raise ClusterError(f"{group!r} is no side of a cut: use a set of node ids, or 'clients'")
        return frozenset((CLIENTS,))
    if not isinstance(group, Iterable):
        raise ClusterError(f"{group!r} is not a set of node ids: write {{{group!r}}}")
    side = frozenset(group)
    for node in side:
        if node not in nodes:
            raise no_such_node(node, nodes)
    return side
