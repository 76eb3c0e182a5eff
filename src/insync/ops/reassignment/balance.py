"""Which replicas to move so that brokers store about as many bytes and have about as many preferred leaders.

A copy goes from a broker to one that stores less, and is small enough that at least half of it lessens the difference
between the two. So the fullest broker never gets fuller, the emptiest never emptier, and all copies together are at
most the sum of the differences between any two brokers (`copy_bound`). Leaders are evened out by the order of replicas,
which copies nothing. `find_faults` checks a proposal without knowing how it was made.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from insync.client.model import TopicPartition
from insync.ops.reassignment.plan import Move

Replicas = dict[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    """In the order of preference."""
    size: int
    """Bytes of one replica."""
    can_move: bool = True
    """False while it is being reassigned."""

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpace:
    id: int
    rack: str | None = None
    used: int = 0
    """Bytes on its disk, of whatever is there."""
    disk: int | None = None
    """The bytes that it may hold; None: unknown."""
    can_take: bool = True
    """False: it is fenced, and neither gets nor gives replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceLimits:
    tolerance: float = 0.1
    """How far from the mean, as a share of it, a broker may be."""
    max_copied: int | None = None
    """Bytes of all copies together."""


DEFAULT_LIMITS = BalanceLimits()


def propose_moves(
    partitions: Sequence[PartitionSize], brokers: Sequence[BrokerSpace], limits: BalanceLimits = DEFAULT_LIMITS
) -> list[Move]:
    """The partitions to change; none if all brokers are within the tolerance."""
    before = {partition.key: partition.replicas for partition in partitions}
    for leaders_move in (True, False):
        balancer = _Balancer(partitions, brokers, limits, leaders_move=leaders_move)
        balancer.even_bytes()
        balancer.even_leaders()
        after = balancer.after
        if _is_leader_spread_kept(partitions, brokers, after, limits):
            break  # without moved leaders, it always is
    return [Move(*key, before[key], after[key]) for key in sorted(before) if before[key] != after[key]]


class _Balancer:
    def __init__(
        self,
        partitions: Sequence[PartitionSize],
        brokers: Sequence[BrokerSpace],
        limits: BalanceLimits,
        *,
        leaders_move: bool,
    ) -> None:
        self._before = {partition.key: partition.replicas for partition in partitions}
        self.after: Replicas = dict(self._before)
        self._sizes = {partition.key: partition.size for partition in partitions}
        self._fixed = {partition.key for partition in partitions if not partition.can_move}
        self._racks = {broker.id: broker.rack for broker in brokers}
        self._tolerance = limits.tolerance
        self._budget = limits.max_copied
        self._loads = sum_loads(partitions, brokers)
        self._free = {broker.id: _free_space(broker, self._loads) for broker in brokers if broker.can_take}
        self._held: dict[int, list[tuple[int, bool, TopicPartition]]] = {broker: [] for broker in self._loads}
        """By broker: (size, whether it is a follower, partition) of the replicas that may move, in rising order."""
        for partition in partitions:
            for place, broker in enumerate(partition.replicas):
                is_follower = place > 0 or len(partition.replicas) == 1
                if broker in self._held and partition.can_move and partition.size and (leaders_move or is_follower):
                    insort(self._held[broker], (partition.size, is_follower, partition.key))

    # --- bytes -------------------------------------------------------------------------------------------------------

    def even_bytes(self) -> None:
        mean = sum(self._loads.values()) / max(len(self._loads), 1)
        while step := self._find_step(mean):
            entry, giver, taker = step
            size, _, key = entry
            self._held[giver].remove(entry)
            self._loads[giver] -= size
            self._loads[taker] += size
            self.after[key] = tuple(taker if broker == giver else broker for broker in self.after[key])
            if (free := self._free[taker]) is not None:
                self._free[taker] = free - size
            if self._budget is not None:
                self._budget -= size

    def _find_step(self, mean: float) -> tuple[tuple[int, bool, TopicPartition], int, int] | None:
        """The replica to move next, from the pair of brokers that differ most and can exchange one."""
        pairs = [
            (self._loads[giver] - self._loads[taker], giver, taker)
            for giver in self._loads
            for taker in self._loads
            if self._loads[giver] - self._loads[taker] > 2 * self._tolerance * mean
        ]
        for gap, giver, taker in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:])):
            needed = min(self._loads[giver] - mean, mean - self._loads[taker])
            for entry in self._candidates(giver, needed if needed > 0 else gap / 2, 2 * gap / 3):
                if self._is_allowed(entry, giver, taker):
                    return entry, giver, taker
        return None

    def _candidates(self, giver: int, wanted: float, limit: float) -> Iterator[tuple[int, bool, TopicPartition]]:
        """The largest replica up to what is wanted; if there is none, the smallest above it."""
        held = self._held[giver]
        at = bisect_right(held, wanted, key=lambda entry: entry[0])
        yield from reversed(held[:at])
        yield from held[at : bisect_right(held, limit, key=lambda entry: entry[0])]

    def _is_allowed(self, entry: tuple[int, bool, TopicPartition], giver: int, taker: int) -> bool:
        size, _, key = entry
        if taker in self._before[key] or taker in self.after[key]:
            return False
        if self._budget is not None and size > self._budget:
            return False
        free = self._free[taker]
        if free is not None and size > free:
            return False
        moved = tuple(taker if broker == giver else broker for broker in self.after[key])
        return _count_racks(moved, self._racks) >= _count_racks(self.after[key], self._racks)

    # --- leaders -----------------------------------------------------------------------------------------------------

    def even_leaders(self) -> None:
        """Change which replica is the preferred leader, if necessary in a chain over several brokers."""
        led: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in self._loads}
        for key, replicas in self.after.items():
            if key not in self._fixed and len(replicas) > 1 and replicas[0] in led:
                led[replicas[0]][key] = None
        counts = count_leaders(self.after, self._loads)
        while chain := self._find_leader_chain(led, counts):
            for key, giver, taker in chain:
                del led[giver][key]
                led[taker][key] = None
                self.after[key] = (taker, *(broker for broker in self.after[key] if broker != taker))
                counts[giver] -= 1
                counts[taker] += 1

    def _find_leader_chain(
        self, led: Mapping[int, Mapping[TopicPartition, None]], counts: Mapping[int, int]
    ) -> list[tuple[TopicPartition, int, int]] | None:
        """From a broker that has too many leaders to one that has at least two fewer."""
        if not counts or max(counts.values()) - min(counts.values()) <= allowed_leader_spread(counts, self._tolerance):
            return None
        for source in sorted(counts, key=lambda broker: (-counts[broker], broker)):
            reached: dict[int, list[tuple[TopicPartition, int, int]]] = {source: []}
            for giver in (waiting := [source]):  # grows while it is walked
                for key in led[giver]:
                    for taker in self.after[key][1:]:
                        if taker in counts and taker not in reached:
                            reached[taker] = [*reached[giver], (key, giver, taker)]
                            if counts[taker] <= counts[source] - 2:
                                return reached[taker]
                            waiting.append(taker)
        return None


def find_faults(
    partitions: Sequence[PartitionSize],
    brokers: Sequence[BrokerSpace],
    moves: Sequence[Move],
    limits: BalanceLimits = DEFAULT_LIMITS,
) -> list[str]:
    """What is wrong with a proposal, in words; empty if it is valid and makes nothing worse."""
    known = {partition.key: partition for partition in partitions}
    takers = {broker.id for broker in brokers if broker.can_take}
    racks = {broker.id: broker.rack for broker in brokers}
    faults: list[str] = []
    after = {key: partition.replicas for key, partition in known.items()}
    for move in moves:
        key, name = (move.topic, move.partition), f"{move.topic}-{move.partition}"
        if key not in known or known[key].replicas != move.before:
            faults.append(f"{name} does not have the replicas {move.before}")
            continue
        after[key] = move.after
        if not known[key].can_move:
            faults.append(f"{name} is being reassigned")
        if len(move.after) != len(move.before) or len(set(move.after)) != len(move.after):
            faults.append(f"{name} would have the replicas {move.after} instead of {len(move.before)}")
        if unknown := [broker for broker in move.copies if broker not in takers]:
            faults.append(f"{name} would be copied to broker {unknown[0]}, which can take no replicas")
        if _count_racks(move.after, racks) < _count_racks(move.before, racks):
            faults.append(f"{name} would be on fewer racks")
    faults += _find_excess(known, brokers, moves, limits)
    moved = [PartitionSize(topic=t, partition=p, replicas=after[t, p], size=known[t, p].size) for t, p in known]
    loads, new_loads = (list(sum_loads(chosen, brokers).values()) for chosen in (partitions, moved))
    if loads and (max(new_loads) > max(loads) or min(new_loads) < min(loads)):
        faults.append(f"the bytes of brokers would be further apart: {sorted(new_loads)} instead of {sorted(loads)}")
    if not _is_leader_spread_kept(partitions, brokers, after, limits):
        faults.append("the numbers of preferred leaders would be further apart")
    return faults


def _find_excess(
    known: Mapping[TopicPartition, PartitionSize],
    brokers: Sequence[BrokerSpace],
    moves: Sequence[Move],
    limits: BalanceLimits,
) -> Iterator[str]:
    """Copies that need more than is given."""
    loads = sum_loads(list(known.values()), brokers)
    added = dict.fromkeys((broker.id for broker in brokers), 0)
    for move in moves:
        for broker in move.copies:
            if (move.topic, move.partition) in known and broker in added:
                added[broker] += known[move.topic, move.partition].size
    for space in brokers:
        free = _free_space(space, loads)
        if free is not None and added[space.id] > max(free, 0):
            yield f"broker {space.id} has space for {free} bytes and would get {added[space.id]}"
    bounds = [copy_bound(loads), *(() if limits.max_copied is None else (limits.max_copied,))]
    if sum(added.values()) > min(bounds):
        yield f"{sum(added.values())} bytes would be copied, more than {min(bounds)}"


# --- what is evened out ----------------------------------------------------------------------------------------------


def sum_loads(partitions: Sequence[PartitionSize], brokers: Sequence[BrokerSpace]) -> dict[int, int]:
    """Bytes of the partitions on each broker that can take part."""
    loads = {broker.id: 0 for broker in brokers if broker.can_take}
    for partition in partitions:
        for broker in partition.replicas:
            if broker in loads:
                loads[broker] += partition.size
    return loads


def copy_bound(loads: Mapping[int, int]) -> int:
    """The sum of the differences between any two brokers."""
    return sum(abs(one - other) for one, other in combinations(loads.values(), 2))


def count_leaders(replicas: Mapping[TopicPartition, Sequence[int]], brokers: Mapping[int, object]) -> dict[int, int]:
    """Preferred leaders by broker, of partitions that have more than one replica: others have no choice."""
    counts = dict.fromkeys(brokers, 0)
    for holders in replicas.values():
        if len(holders) > 1 and holders[0] in counts:
            counts[holders[0]] += 1
    return counts


def allowed_leader_spread(counts: Mapping[int, int], tolerance: float) -> float:
    return max(1.0, 2 * tolerance * sum(counts.values()) / max(len(counts), 1))


def _is_leader_spread_kept(
    partitions: Sequence[PartitionSize],
    brokers: Sequence[BrokerSpace],
    after: Mapping[TopicPartition, Sequence[int]],
    limits: BalanceLimits,
) -> bool:
    """Whether the difference between the most and the fewest leaders did not grow, or is tolerable."""
    loads = sum_loads(partitions, brokers)
    if not loads:
        return True
    before = count_leaders({partition.key: partition.replicas for partition in partitions}, loads)
    now = count_leaders(after, loads)
    tolerable = max(max(before.values()) - min(before.values()), allowed_leader_spread(now, limits.tolerance))
    return max(now.values()) - min(now.values()) <= tolerable


def _free_space(broker: BrokerSpace, loads: Mapping[int, int]) -> int | None:
    return None if broker.disk is None else broker.disk - max(broker.used, loads.get(broker.id, 0))


def _count_racks(replicas: Sequence[int], racks: Mapping[int, str | None]) -> int:
    return len({racks.get(broker) for broker in replicas})
