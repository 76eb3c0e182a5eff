"""The exception that stops a node: a broken invariant. Failures that a client may see are returned as `ErrorCode`s."""

from __future__ import annotations


class InvariantError(Exception):
    """A named property of the protocol does not hold. Going on could lose data, so the node stops."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
