"""S15: a node that has applied a DENY serves nothing that the ACL forbids, also to requests that waited (A2, A6)."""

from __future__ import annotations

from insync.properties.violation import Property

PROPERTY = Property(
    "S15",
    "Denied Requests",
    "A node that has applied a DENY neither appends nor returns records that the ACL forbids to a client.",
)


def check(*, node: int, principal: str, operation: str, topic: str, was_served: bool) -> str | None:
    """The node knew, before the step, an ACL that denies the operation."""
    return f"node {node} served {operation} on {topic} to {principal}, which an ACL denies" if was_served else None
