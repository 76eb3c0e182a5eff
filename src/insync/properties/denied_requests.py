"""S15: a node serves nothing that the ACLs it knows forbid, also to requests that waited (A2, A6), nothing before it
knows the ACLs (A5), and to clients nothing that only nodes may send (A4). While ACLs are removed, no client may do more
than before and after (A8)."""

from __future__ import annotations

from insync.properties.violation import Property

PROPERTY = Property(
    "S15",
    "Denied Requests",
    "A node that has applied a DENY neither appends nor returns records that the ACL forbids to a client. It serves no "
    "client before it has applied the ACLs that were committed when it started, and no request of a client that only "
    "nodes send.",
)


def check(*, node: int, principal: str, operation: str, topic: str, was_served: bool) -> str | None:
    """The node knew, before the step, an ACL that denies the operation."""
    return f"node {node} served {operation} on {topic} to {principal}, which an ACL denies" if was_served else None


def check_node_request(*, node: int, principal: str, request: str, was_served: bool) -> str | None:
    """A4: only nodes may send the request, and the principal is not a node's."""
    return f"node {node} served {request} to {principal}, which is not a node" if was_served else None


def check_loaded(*, node: int, principal: str, request: str, applied: int, committed: int) -> str | None:
    """A5: the node answers a client. It has applied the metadata log up to `applied`; every controller had committed
    up to `committed` when the node started."""
    if applied >= committed:
        return None
    return f"node {node} answered {request} of {principal} by ACLs up to offset {applied}, not {committed}"


def check_guarded(*, node: int, resource: str, allowing: int, denying: int) -> str | None:
    """A8: the resource has ACLs that allow it to a principal only together with one that denies it."""
    if not allowing or denying:
        return None
    return f"node {node} has {allowing} ACLs that allow {resource} without the one that denies it"
