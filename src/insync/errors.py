"""What can go wrong that is not an answer to a client: a broken invariant stops the node that sees it."""

from __future__ import annotations


class InvariantViolation(Exception):  # noqa: N818  the protocol's word
    """A named property of the protocol does not hold; carrying on could lose data."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
