"""What a node says of itself and of the brokers it knows: a read-only broker config, `insync.node.state`.

A supervisor asks for it to tell its own processes from others that answer on the same ports, and this uptime's
registrations from those that an earlier one left in the metadata log. DescribeConfigs carries it, so that it needs no
API that Kafka does not have.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insync.node.node import Node

CONFIG_KEY = "insync.node.state"


def encode(node: Node) -> str:
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
