"""S18: what members of consumer groups were promised stays true, also when the coordinator moves.

- A committed offset neither goes back nor vanishes: a reader gets the value of a commit that no later one has replaced.
  A commit without a response, or with an error, may take effect at any time (G2).
- In a generation a partition has one owner.
- Once an assignment of a generation was delivered, no commit of an earlier generation succeeds (G3).

Every commit of a run has another value, so that a value says which commit it is from.
"""

from __future__ import annotations

from dataclasses import dataclass

from insync.properties.violation import Property

PROPERTY = Property(
    "S18",
    "Group Offsets",
    "Committed offsets neither go back nor vanish, a partition has one owner in a generation, and a commit of an "
    "earlier generation does not succeed.",
)

NOT_COMMITTED = -1
GroupPartition = tuple[str, str, int]
"""(group, topic, partition)"""
TopicPartition = tuple[str, int]


@dataclass(slots=True, eq=False)
class Commit:
    value: int
    generation: int
    started: int
    acked: int | None = None
    """When its response came; None as long as it is not known to have taken effect."""


@dataclass(slots=True)
class Generation:
    owners: dict[TopicPartition, str]
    delivered: int
    """When a member first got its assignment."""


class GroupHistory:
    """What the members of all groups did and saw. `problems` are (group, what is wrong)."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []
        self._commits: dict[GroupPartition, list[Commit]] = {}
        self._generations: dict[str, dict[int, Generation]] = {}
        self._values = 0

    def next_value(self) -> int:
        self._values += 1
        return self._values

    def commit_sent(self, place: GroupPartition, value: int, generation: int, now: int) -> Commit:
        commit = Commit(value, generation, now)
        self._commits.setdefault(place, []).append(commit)
        return commit

    def commit_acked(self, place: GroupPartition, commit: Commit, now: int) -> None:
        commit.acked = now
        problem = check_generation(commit, self._generations.get(place[0], {}))
        if problem:
            self.problems.append((place[0], f"{place}: {problem}"))

    def offset_fetched(self, place: GroupPartition, value: int, started: int) -> None:
        problem = check_fetched(value, started, self._commits.get(place, []))
        if problem:
            self.problems.append((place[0], f"{place}: {problem}"))

    def assigned(self, group: str, generation: int, member: str, partitions: list[TopicPartition], now: int) -> None:
        known = self._generations.setdefault(group, {}).setdefault(generation, Generation({}, now))
        problem = check_owners(member, partitions, known.owners)
        if problem:
            self.problems.append((group, f"{group} generation {generation}: {problem}"))
        known.owners.update(dict.fromkeys(partitions, member))


def check_fetched(value: int, started: int, commits: list[Commit]) -> str | None:
    """A read that began at `started` returned `value`."""
    before = [commit for commit in commits if commit.acked is not None and commit.acked < started]
    if value == NOT_COMMITTED:
        return f"no offset is committed, but {before[-1].value} was acknowledged" if before else None
    source = next((commit for commit in commits if commit.value == value), None)
    if source is None:
        return f"offset {value} was never committed"
    if source.acked is None:
        return None
    newer = next((commit for commit in before if commit.started >= source.acked), None)
    return f"offset {value} came back after {newer.value} was acknowledged" if newer is not None else None


def check_generation(commit: Commit, generations: dict[int, Generation]) -> str | None:
    """G3: an acknowledged commit is of the newest generation of which an assignment was delivered before it."""
    for number, generation in generations.items():
        if number > commit.generation and generation.delivered < commit.started:
            return f"offset {commit.value} of generation {commit.generation} was committed after generation {number}"
    return None


def check_owners(member: str, partitions: list[TopicPartition], owners: dict[TopicPartition, str]) -> str | None:
    for partition in partitions:
        owner = owners.get(partition, member)
        if owner != member:
            return f"{partition} belongs to {owner} and to {member}"
    return None
