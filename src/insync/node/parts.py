"""Division of large requests: no request keeps a node from serving others for long.

Most APIs take an array of entries and handle each by itself: partitions, groups, resources. A request with many is
divided into requests of the same API, each with some of the entries, and their answers are joined. To the node a part
is a request like any other, so nothing in the protocol depends on how a request was divided. The unit is the entry, as
it is in Kafka, where the requests of other clients take effect between two partitions of one request too.

Requests to brokers are divided by the server: the parts reach the node one after the other, with other connections'
turns in between. Requests that a controller decides are divided where they are forwarded, or by a controller that
is asked directly; each part is decided, committed and answered by itself.

`limit` is what one part may hold, chosen so that it takes a few milliseconds; an entry counts as 1, or as what `weigh`
returns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from insync.sansio import Message
from insync.wire.errors import ErrorCode

SMALL_BYTES = 1_024
Piece = tuple[Any, int]
"""(an entity with some of its entries, what they weigh)."""


def _unchanged(message: Message) -> Message:
    return message


def without_repeats(array: str) -> Callable[[Message], Message]:
    """For `Parts.without_repeats`: drop entries of `array` that are equal to an earlier one."""

    def drop(request: Message) -> Message:
        items = getattr(request, array)
        if not items or len(items) == 1:
            return request
        distinct = tuple(dict.fromkeys(items))
        return request if len(distinct) == len(items) else replace(request, **{array: distinct})

    return drop


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """How the requests of one API are divided, and their answers joined.

    `asked` and `answered` name the arrays of request and answer, from the outermost in. `keys` names the fields that
    identify the items of the outer arrays: an item whose entries are in two parts is joined by them.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    keys: tuple[str, ...] = ()
    limit: int
    weigh: Callable[[Any], int] | None = None
    """What one of the innermost entries weighs."""
    whole: int = 1
    """What an item weighs that leaves out its entries (null: all of them)."""
    without_repeats: Callable[[Message], Message] = _unchanged
    """The request with every entry named once: for APIs whose answers to one entry may be large."""
    entry_key: Callable[[Any], Hashable] | None = None
    """Entries with equal keys stay in one part, so that a controller notices what is named twice."""
    share: Callable[[Message, Message | None], Message] | None = None
    """(a part's answer, the answer before) -> the answer, holding equal values once."""
    finish: Callable[[Message], Message] = _unchanged
    """What is left to do to an answer that was joined."""

    @property
    def smallest(self) -> int:
        """Requests of fewer bytes fit in one part and need not be examined."""
        return SMALL_BYTES if self.without_repeats is _unchanged else 0

    def divide(self, request: Message) -> tuple[Message, ...]:
        """The request itself if one part holds all of it, else the parts in order."""
        items = getattr(request, self.asked[0])
        if not items or (len(items) == 1 and self._is_single(items[0])):  # as most requests are
            return (request,)
        request = self.without_repeats(request)
        if self.is_small(getattr(request, self.asked[0])):
            return (request,)
        if self.entry_key is not None:
            request = self._with_repeats_adjacent(request, self.entry_key)
        return tuple([part for part, _ in self._pieces(request, self.asked)])

    def _is_single(self, item: Any) -> bool:
        """True if there is one entry only, which cannot be divided."""
        if len(self.asked) != 2:
            return len(self.asked) == 1
        entries = getattr(item, self.asked[1])
        return entries is not None and len(entries) == 1

    def is_small(self, items: Any) -> bool:
        """True if one part holds all of it."""
        room = self.limit
        for item in items:
            room -= self._weight(item, self.asked[1:])
            if room < 0:
                return False
        return True

    def _weight(self, item: Any, path: tuple[str, ...]) -> int:
        if not path:
            return 1 if self.weigh is None else self.weigh(item)
        entries = getattr(item, path[0])
        if entries is None:
            return self.whole
        if len(path) == 1 and self.weigh is None:
            return len(entries) or 1
        return sum([self._weight(entry, path[1:]) for entry in entries]) or 1

    def _with_repeats_adjacent(self, request: Message, key: Callable[[Any], Hashable]) -> Message:
        """The request with entries of equal keys next to each other, and every item of an outer array once."""
        items = getattr(request, self.asked[0])
        if len(self.asked) == 1:
            return replace(request, **{self.asked[0]: _group(items, key)})
        outer, inner = self.keys[0], self.asked[1]
        entries: dict[Hashable, list[Any]] = {}
        first: dict[Hashable, Any] = {}
        for item in items:
            name = getattr(item, outer)
            first.setdefault(name, item)
            entries.setdefault(name, []).extend(getattr(item, inner))
        grouped = [replace(item, **{inner: _group(entries[name], key)}) for name, item in first.items()]
        return replace(request, **{self.asked[0]: tuple(grouped)})

    def _pieces(self, entity: Any, path: tuple[str, ...]) -> Iterator[Piece]:
        """`entity` in pieces that weigh at most `limit`, or are a single entry (with its repeats)."""
        weight = 0 if path == self.asked else self._weight(entity, path)
        items = getattr(entity, path[0]) if path else None
        if not items or 0 < weight <= self.limit:
            yield entity, weight
            return
        key = self.entry_key if len(path) == 1 else None
        taken: list[Any] = []
        weight = 0
        for item in items:
            for piece, size in self._pieces(item, path[1:]):
                if taken and weight + size > self.limit and (key is None or key(piece) != key(taken[-1])):
                    yield replace(entity, **{path[0]: tuple(taken)}), weight
                    taken, weight = [], 0
                taken.append(piece)
                weight += size
        yield replace(entity, **{path[0]: tuple(taken)}), weight

    def join(self, answers: list[Message]) -> Message:
        """One answer from those to all parts. The first that fails as a whole stands for all."""
        failed = [answer for answer in answers if getattr(answer, "error_code", ErrorCode.none) is not ErrorCode.none]
        if failed:
            return failed[0]
        throttle_times = [answer.throttle_time for answer in answers if getattr(answer, "throttle_time", None)]
        first = replace(answers[0], throttle_time=max(throttle_times)) if throttle_times else answers[0]
        name = self.answered[0]
        items = self._joined([getattr(answer, name) for answer in answers], 0)
        return self.finish(replace(first, **{name: items}))

    def _joined(self, arrays: list[Any], depth: int) -> tuple[Any, ...]:
        """Where an item was cut, the last of one array and the first of the next have the same key."""
        if depth == len(self.answered) - 1:
            return tuple([item for array in arrays for item in array])
        key, inner = self.keys[depth], self.answered[depth + 1]
        items: list[Any] = []
        cut: list[Any] = []  # pieces of the last item
        for array in arrays:
            for position, item in enumerate(array):
                if position == 0 and cut and getattr(item, key) == getattr(cut[0], key):
                    cut.append(item)
                    continue
                if cut:
                    items.append(self._whole_item(cut, inner, depth))
                cut = [item]
        if cut:
            items.append(self._whole_item(cut, inner, depth))
        return tuple(items)

    def _whole_item(self, pieces: list[Any], inner: str, depth: int) -> Any:
        if len(pieces) == 1:
            return pieces[0]
        return replace(pieces[0], **{inner: self._joined([getattr(piece, inner) for piece in pieces], depth + 1)})


def _group(entries: Any, key: Callable[[Any], Hashable]) -> tuple[Any, ...]:
    groups: dict[Hashable, list[Any]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return tuple([entry for group in groups.values() for entry in group])
