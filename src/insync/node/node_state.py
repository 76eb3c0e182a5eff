"""A node's identity, state and known brokers, as the read-only broker config `insync.node.state`.

A supervisor reads it to tell its own processes from others that answer on the same ports, and the registrations of this
incarnation from those that an earlier one left in the metadata log. DescribeConfigs carries it, so no API is needed
that Kafka does not have.
"""

from __future__ import annotations

import json

from insync.node.node_view import NodeView

CONFIG_KEY = "insync.node.state"


def encode(node: NodeView) -> str:
    lifecycle = node.lifecycle
    fields = {
        "cluster_id": node.config.cluster_id,
        "node_id": node.id,
        "directory_id": str(node.config.directory_id),
        "incarnation_id": str(node.config.incarnation_id if lifecycle is None else lifecycle.incarnation_id),
        "state": None if lifecycle is None else lifecycle.state,
        "controller_id": node.quorum.leader_id,
        "unfenced": {
            str(broker.id): str(broker.incarnation_id) for broker in node.image.brokers.values() if not broker.fenced
        },
    }
    return json.dumps(fields, separators=(",", ":"))
