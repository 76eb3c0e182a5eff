"""From the client's version of a request to the node's, and back with its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.wire import codec
from insync.wire.convert import convert
from insync.wire.edge import cluster, groups, records
from insync.wire.edge.exchange import Exchange, TopicNames

Upgrade = Callable[[Any, Any, Exchange, TopicNames], Any]
"""(what was asked, the node's class of request, ...) -> the node's request"""

Downgrade = Callable[[Any, Any, Exchange, TopicNames], Any]
"""(the node's answer, the client's class of answer, ...) -> the client's answer"""

_UPGRADES: dict[int, Upgrade] = {
    records.PRODUCE: records.upgrade_produce,
    records.FETCH: records.upgrade_fetch,
    cluster.METADATA: cluster.upgrade_metadata,
    cluster.DELETE_TOPICS: cluster.upgrade_delete_topics,
    cluster.UPDATE_FEATURES: cluster.upgrade_update_features,
    groups.OFFSET_COMMIT: groups.upgrade_offset_commit,
    groups.OFFSET_FETCH: groups.upgrade_offset_fetch,
    groups.FIND_COORDINATOR: groups.upgrade_find_coordinator,
    groups.JOIN_GROUP: groups.upgrade_join_group,
    groups.LEAVE_GROUP: groups.upgrade_leave_group,
}
_DOWNGRADES: dict[int, Downgrade] = {
    records.PRODUCE: records.downgrade_produce,
    records.FETCH: records.downgrade_fetch,
    cluster.LIST_OFFSETS: cluster.downgrade_list_offsets,
    cluster.METADATA: cluster.downgrade_metadata,
    cluster.API_VERSIONS: cluster.downgrade_api_versions,
    cluster.INIT_PRODUCER_ID: cluster.downgrade_init_producer_id,
    cluster.UPDATE_FEATURES: cluster.downgrade_update_features,
    groups.OFFSET_FETCH: groups.downgrade_offset_fetch,
    groups.FIND_COORDINATOR: groups.downgrade_find_coordinator,
    groups.LEAVE_GROUP: groups.downgrade_leave_group,
}


def upgrade(exchange: Exchange, asked: Any, canonical: Any, names: TopicNames) -> None:
    """Give the exchange its `request`, of the class that the node takes."""
    exchange.asked = exchange.request = asked
    if type(asked) is not canonical:
        special = _UPGRADES.get(asked.__api_key__)
        exchange.request = special(asked, canonical, exchange, names) if special else convert(asked, canonical)


def encode(response: Any, exchange: Exchange, names: TopicNames) -> bytes:
    """The frame's content: the node's answer in the version of the client's request."""
    target = codec.response_type(exchange.header.api_key, exchange.header.api_version)
    told = _translated(response, target, exchange, names)
    return codec.encode_response(told, exchange.header.correlation_id, target)


def downgrade(response: Any, exchange: Exchange, names: TopicNames) -> Any:
    """The node's answer in the version of the client's request."""
    target = codec.response_type(exchange.header.api_key, exchange.header.api_version)
    return convert(_translated(response, target, exchange, names), target)


def _translated(response: Any, target: Any, exchange: Exchange, names: TopicNames) -> Any:
    """In the words of the client's version. What only fields have to be added to or removed from stays as it is: that
    is done on the way to bytes."""
    special = None if type(response) is target else _DOWNGRADES.get(response.__api_key__)
    return special(response, target, exchange, names) if special else response
