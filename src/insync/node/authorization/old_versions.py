"""Rights that count in what the version translator answers by itself.

It refuses names of topics that do not exist, in versions that identify topics by name. To a client that may not see the
topic it must look as if it existed (A3). And it adds what a client may do on the cluster to old versions of Metadata.
"""

from __future__ import annotations

from insync.node.access import Access
from insync.node.authorization.cluster import cluster_operations
from insync.node.authorization.errors import TOPIC_REFUSED
from insync.security.acl import Operation
from insync.wire.apis import METADATA, PRODUCE
from insync.wire.versions.context import RequestContext


def check_translated(context: RequestContext, access: Access) -> None:
    if context.refused:
        context.refused = [
            (name, index, error if _may_use(name, context, access) else TOPIC_REFUSED)
            for name, index, error in context.refused
        ]
    if context.header.api_key == METADATA and context.wants_cluster_operations:
        context.cluster_operations = cluster_operations(access)


def _may_use(name: str, context: RequestContext, access: Access) -> bool:
    """Whether the client may produce to or fetch from a topic of this name."""
    if context.header.api_key == PRODUCE:
        return access.may_on_topic(Operation.WRITE, name)
    if context.request.replica_state.replica_id >= 0:
        return access.may_on_cluster(Operation.CLUSTER_ACTION)
    return access.may_on_topic(Operation.READ, name)
