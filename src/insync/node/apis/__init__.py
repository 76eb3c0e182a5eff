"""Every API that a node serves: one module each, found by the request's type.

Three kinds: those that a node answers itself (`handle`), those that a controller decides and that only nodes send
(`decide`, `refuse`), and those that a controller decides for clients, which brokers forward.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from insync.node.apis import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    end_quorum_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    find_coordinator,
    get_replica_log_info,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    unregister_broker,
    update_features,
    vote,
)


def _by_request(*modules: ModuleType) -> dict[type[Any], ModuleType]:
    return {module.REQUEST: module for module in modules}


def _key(module: ModuleType) -> int:
    key: int = module.REQUEST.__api_key__
    return key


ANY = _by_request(
    vote,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    describe_quorum,
    envelope,
    metadata,
    api_versions,
    describe_cluster,
    describe_topic_partitions,
    describe_configs,
)
BROKER = _by_request(
    produce,
    list_offsets,
    offset_for_leader_epoch,
    delete_records,
    describe_log_dirs,
    describe_producers,
    get_replica_log_info,
    init_producer_id,
    find_coordinator,
    join_group,
    sync_group,
    heartbeat,
    leave_group,
    offset_commit,
    offset_fetch,
    offset_delete,
    list_groups,
    describe_groups,
    delete_groups,
)
CONTROLLER = _by_request(alter_partition, broker_registration, broker_heartbeat, allocate_producer_ids)
FORWARDED = _by_request(
    create_topics,
    delete_topics,
    create_partitions,
    alter_partition_reassignments,
    list_partition_reassignments,
    elect_leaders,
    incremental_alter_configs,
    alter_configs,
    unregister_broker,
    update_features,
)

_ALL = (*ANY.values(), *BROKER.values(), *CONTROLLER.values(), *FORWARDED.values())

TYPES: dict[int, type[Any]] = {module.REQUEST.__api_key__: module.REQUEST for module in _ALL}
"""By API key: the class of request that the node takes."""

SERVED: dict[int, tuple[int, int]] = {
    module.KEY: module.VERSIONS for module in sorted(_ALL, key=_key) if hasattr(module, "VERSIONS")
}
"""By API key, in order: the versions that clients may speak, as ApiVersions tells them. Other APIs are for nodes."""
