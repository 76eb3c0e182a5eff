"""One of a node's listeners, as its connections see it: its name, and whether other nodes use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acceptor:
    name: str
    serves_nodes: bool
    """Whether it is the inter-broker listener, or one of the controllers'."""
