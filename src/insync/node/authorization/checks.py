"""The outcome of a check, and the checks that many APIs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from insync.metadata.image import Image
from insync.node.access import Access
from insync.node.authorization.errors import CLUSTER_ERROR
from insync.node.config import NodeConfig
from insync.sansio import HangUp, Message
from insync.security.acl import Operation
from insync.wire.errors import ErrorCode


class NodeFacts(Protocol):
    """What a check reads of the node."""

    config: NodeConfig

    @property
    def image(self) -> Image: ...


@dataclass(frozen=True, slots=True)
class Refused:
    """The request does not reach its handler."""

    response: Message | HangUp


Complete = Callable[[Message | None], Message | HangUp | None]
"""(the handler's response) -> the client's"""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The request is handled without the refused entries, and `complete` adds them to its response."""

    request: Message
    complete: Complete


Outcome = Refused | Narrowed | None
"""None: everything is allowed, and the response is complete."""


def change_response(request: Any, outcome: Narrowed | None, change: Callable[[Any], Any]) -> Narrowed:
    """As `outcome` has it, and the completed response changed, if there is one."""

    def complete(response: Any) -> Any:
        completed: Any = response if outcome is None else outcome.complete(response)
        return completed and change(completed)

    return Narrowed(request if outcome is None else outcome.request, complete)


Check = Callable[[Any, Access, NodeFacts], Outcome]


@dataclass(frozen=True, slots=True)
class Rights:
    """What the requests of one API need. The first two are for people: docs/guides/security.md has them as a table."""

    needs: str
    """The operations and resources."""
    refusal: str
    """What the client gets without them."""
    check: Check
    is_for_nodes: Callable[[Any], bool] | None = None
    """A4: whether only nodes may send this request. None: every client may."""


def allow(request: Any, access: Access, node: NodeFacts) -> Outcome:
    """For APIs that are served to everyone, also before the ACLs are loaded (A5)."""
    return None


# --- whole requests ---------------------------------------------------------------------------------------------------


def on_cluster(operation: Operation, refuse: Callable[[Any], Message]) -> Rights:
    """`refuse`: (request) -> the response that says CLUSTER_AUTHORIZATION_FAILED."""

    def check(request: Any, access: Access, node: NodeFacts) -> Outcome:
        return None if access.may_on_cluster(operation) else Refused(refuse(request))

    return Rights(f"{operation.name} on the cluster", CLUSTER_ERROR, check)


def of_nodes(refuse: Callable[[Any], Message]) -> Rights:
    """A4."""
    return replace(on_cluster(Operation.CLUSTER_ACTION, refuse), is_for_nodes=lambda request: True)


# --- entries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A3: the entries of one array, allowed or refused one by one.

    `asked` and `answered` name the arrays of request and response.
    """

    asked: str
    answered: str
    is_allowed: Callable[[Any, Access, NodeFacts], bool]
    refuse: Callable[[Any], Any]
    """(refused entry) -> its line in the response."""
    respond: Callable[[tuple[Any, ...]], Message] | None = None
    """(lines) -> a response with these lines only. None: the handler is asked even if no entry is left."""
    key: Callable[[Any], Hashable] | None = None
    refuse_repeated: Callable[[Any], Any] | None = None
    """The line for a refused entry that the request has more than once, by `key`: as in Kafka it is refused as such."""

    def __call__(self, request: Any, access: Access, node: NodeFacts) -> Outcome:
        entries = getattr(request, self.asked) or ()
        allowed = [self.is_allowed(entry, access, node) for entry in entries]
        if all(allowed):
            return None
        refused = [entry for entry, is_allowed in zip(entries, allowed, strict=True) if not is_allowed]
        lines = tuple(self._lines(refused, entries))
        kept = tuple([entry for entry, is_allowed in zip(entries, allowed, strict=True) if is_allowed])
        if not kept and self.respond is not None:
            return Refused(self.respond(lines))

        def complete(response: Any) -> Any:
            if response is None or getattr(response, "error_code", ErrorCode.none) is not ErrorCode.none:
                return response
            return replace(response, **{self.answered: (*getattr(response, self.answered), *lines)})

        return Narrowed(replace(request, **{self.asked: kept}), complete)

    def _lines(self, refused: list[Any], entries: Iterable[Any]) -> Iterable[Any]:
        if self.key is None or self.refuse_repeated is None:
            return [self.refuse(entry) for entry in refused]
        counts = Counter(self.key(entry) for entry in entries)
        by_key = {self.key(entry): entry for entry in refused}
        return [self.refuse_repeated(entry) if counts[key] > 1 else self.refuse(entry) for key, entry in by_key.items()]


def may_on_topic(operation: Operation, name_of: str = "name") -> Callable[[Any, Access, NodeFacts], bool]:
    return lambda topic, access, node: access.may_on_topic(operation, getattr(topic, name_of))
