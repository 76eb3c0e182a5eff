"""Every API that a node serves: one module each, found by the request's type.

Three kinds: those that a node answers itself (`handle`), those that a controller decides and that only nodes send
(`decide`, `refuse`), and those that a controller decides for clients, which brokers forward.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from insync.node.apis import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_quorum,
    elect_leaders,
    end_quorum_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    get_replica_log_info,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    unregister_broker,
    vote,
)


def _by_request(*modules: ModuleType) -> dict[type[Any], ModuleType]:
    return {module.REQUEST: module for module in modules}


ANY = _by_request(
    vote, begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, describe_quorum, envelope, metadata
)
BROKER = _by_request(
    produce, list_offsets, offset_for_leader_epoch, delete_records, get_replica_log_info, init_producer_id
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
    unregister_broker,
)
