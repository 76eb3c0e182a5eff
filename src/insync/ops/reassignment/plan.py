"""Which replicas to move so that partitions are spread evenly over the target brokers, with as few copies as possible.

Copies are the cost. So replicas on brokers outside the target move, and beyond that only as many as it takes until no
broker has two more than another. Such a move always exists: of two brokers, the one with more replicas has a partition
that the other has not. Replicas that must be copied anyway are moved first, if necessary in a chain over several
brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from insync.client.model import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]
Step = tuple[TopicPartition, int, int]
"""(partition, from broker, to broker)"""


@dataclass(frozen=True, slots=True)
class Move:
    """One partition whose replicas change."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def copies(self) -> tuple[int, ...]:
        """Brokers that need a copy they do not have."""
        return tuple(broker for broker in self.after if broker not in self.before)


def plan_moves(current: Assignment, brokers: Sequence[int], replication_factor: int | None = None) -> list[Move]:
    """The partitions to change; `ValueError` if the target has too few brokers."""
    targets = sorted(dict.fromkeys(brokers))
    highest = max((replication_factor or len(replicas) for replicas in current.values()), default=0)
    if highest > len(targets):
        raise ValueError(f"{highest} replicas need {highest} brokers, the target names {len(targets)}")
    before = {key: tuple(current[key]) for key in sorted(current)}
    chosen = _Placement(before, targets, replication_factor)
    after = _ordered(before, chosen.held)
    return [Move(*key, before[key], after[key]) for key in before if before[key] != after[key]]


def to_document(moves: Sequence[Move]) -> dict[str, Any]:
    """A plan in the format of Kafka's own tool."""
    partitions = [{"topic": m.topic, "partition": m.partition, "replicas": list(m.after)} for m in moves]
    return {"version": 1, "partitions": partitions}


class _Placement:
    """The assignment while it is being balanced. Dicts are used as ordered sets."""

    def __init__(
        self, before: Mapping[TopicPartition, tuple[int, ...]], targets: Sequence[int], factor: int | None
    ) -> None:
        self.before = before
        self.held = {key: [broker for broker in replicas if broker in targets] for key, replicas in before.items()}
        self.load: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in targets}
        self.fresh: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in targets}
        for key, holders in self.held.items():
            for broker in holders:
                self.load[broker][key] = None
        for key, replicas in before.items():
            self._resize(key, factor or len(replicas))
        while self._even_out():
            pass

    def _resize(self, key: TopicPartition, wanted: int) -> None:
        while len(self.held[key]) > wanted:  # the leader, first in the order, stays
            self._drop(key, max(self.held[key][1:], key=lambda broker: (len(self.load[broker]), broker)))
        while len(self.held[key]) < wanted:
            free = [broker for broker in self.load if broker not in self.held[key]]
            self._add(key, min(free, key=lambda broker: (len(self.load[broker]), broker)))

    def _even_out(self) -> bool:
        """Move one replica from a broker that has two more than another, preferably a new copy."""
        if not self.load:
            return False
        fullest = max(self.load, key=lambda broker: (len(self.load[broker]), broker))
        emptiest = min(self.load, key=lambda broker: (len(self.load[broker]), broker))
        if len(self.load[fullest]) - len(self.load[emptiest]) < 2:
            return False
        chain = self._free_chain()
        if chain is None:
            movable = [key for key in self.load[fullest] if key not in self.load[emptiest]]
            # leaders move last: moving one costs an election
            chain = [(min(movable, key=lambda key: (self.before[key][:1] == (fullest,), key)), fullest, emptiest)]
        for key, giver, taker in chain:
            self._drop(key, giver)
            self._add(key, taker)
        return True

    def _free_chain(self) -> list[Step] | None:
        """Steps from a fuller to an emptier broker, perhaps over others, that only move new copies: they are free."""
        least = min(len(keys) for keys in self.load.values())
        for giver in sorted(self.load, key=lambda broker: (-len(self.load[broker]), broker)):
            if len(self.load[giver]) - least < 2:
                return None
            found = self._chain_from(giver) if self.fresh[giver] else None
            if found is not None:
                return found
        return None

    def _chain_from(self, source: int) -> list[Step] | None:
        enough = len(self.load[source]) - 2
        reached: dict[int, list[Step]] = {source: []}
        for giver in (waiting := [source]):  # grows while it is walked
            for key in self.fresh[giver] if len(reached) < len(self.load) else ():
                for taker in self.load:
                    if taker not in reached and taker not in self.held[key]:
                        reached[taker] = [*reached[giver], (key, giver, taker)]
                        if len(self.load[taker]) <= enough:
                            return reached[taker]
                        waiting.append(taker)
        return None

    def _add(self, key: TopicPartition, broker: int) -> None:
        self.held[key].append(broker)
        self.load[broker][key] = None
        if broker not in self.before[key]:
            self.fresh[broker][key] = None

    def _drop(self, key: TopicPartition, broker: int) -> None:
        self.held[key].remove(broker)
        del self.load[broker][key]
        self.fresh[broker].pop(key, None)


def _ordered(
    before: Mapping[TopicPartition, tuple[int, ...]], held: Mapping[TopicPartition, list[int]]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Remaining replicas keep their places and new ones take the places of those removed. A removed preferred leader is
    replaced by the remaining, or else new, replica that is preferred least often so far."""
    after: dict[TopicPartition, list[int]] = {}
    preferred: dict[int, int] = {}
    for key, replicas in before.items():
        added = [broker for broker in held[key] if broker not in replicas]
        slots = [broker if broker in held[key] else None for broker in replicas]
        filled = [added.pop(0) if slot is None and added else slot for slot in slots]
        after[key] = [broker for broker in filled if broker is not None] + added
        if after[key][0] == replicas[0]:
            preferred[replicas[0]] = preferred.get(replicas[0], 0) + 1
    for key, replicas in before.items():
        if after[key][0] != replicas[0]:
            remaining = [broker for broker in after[key] if broker in replicas] or after[key]
            first = min(remaining, key=lambda broker: (preferred.get(broker, 0), after[key].index(broker)))
            after[key].remove(first)
            after[key].insert(0, first)
            preferred[first] = preferred.get(first, 0) + 1
    return {key: tuple(replicas) for key, replicas in after.items()}
