"""The Kafka APIs of a node: key, the version that nodes speak, and the versions that clients may speak.

This is the only list of APIs and versions. `insync.wire.messages` builds the classes of the pinned versions from it,
`insync.node.handlers` adds the role and the handler of each API, and ApiVersions answers with the served ranges.
"""

from __future__ import annotations

from typing import NamedTuple


class Api(NamedTuple):
    key: int
    name: str
    """As kio's schemas are named; the request of `list_offsets` is `ListOffsetsRequest`."""
    pinned: int
    """The version that nodes speak to each other, and into which requests of clients are translated."""
    served: tuple[int, int] | None
    """The lowest and highest version for clients; None: between nodes only."""

    @property
    def class_prefix(self) -> str:
        return self.name.title().replace("_", "")


_TABLE = (
    Api(0, "produce", 13, (0, 13)),  # 0 to 2 are advertised for librdkafka only: see LOWEST_PRODUCE
    Api(1, "fetch", 17, (4, 18)),  # 18 adds a high watermark (KIP-1166) that leaders of the quorum do not need
    Api(2, "list_offsets", 11, (1, 11)),
    Api(3, "metadata", 13, (0, 13)),
    Api(8, "offset_commit", 9, (2, 9)),
    Api(9, "offset_fetch", 9, (1, 9)),
    Api(10, "find_coordinator", 6, (0, 6)),
    Api(11, "join_group", 9, (0, 9)),
    Api(12, "heartbeat", 4, (0, 4)),
    Api(13, "leave_group", 5, (0, 5)),
    Api(14, "sync_group", 5, (0, 5)),
    Api(15, "describe_groups", 6, (0, 6)),
    Api(16, "list_groups", 5, (0, 5)),
    Api(17, "sasl_handshake", 1, (0, 1)),
    Api(18, "api_versions", 4, (0, 4)),
    Api(19, "create_topics", 7, (2, 7)),
    Api(20, "delete_topics", 6, (1, 6)),
    Api(21, "delete_records", 2, (0, 2)),
    Api(22, "init_producer_id", 5, (0, 5)),
    Api(23, "offset_for_leader_epoch", 4, (2, 4)),
    Api(29, "describe_acls", 3, (1, 3)),
    Api(30, "create_acls", 3, (1, 3)),
    Api(31, "delete_acls", 3, (1, 3)),
    Api(32, "describe_configs", 4, (1, 4)),
    Api(33, "alter_configs", 2, (0, 2)),
    Api(35, "describe_log_dirs", 4, (1, 4)),
    Api(36, "sasl_authenticate", 2, (0, 2)),
    Api(37, "create_partitions", 3, (0, 3)),
    Api(42, "delete_groups", 2, (0, 2)),
    Api(43, "elect_leaders", 2, (0, 2)),
    Api(44, "incremental_alter_configs", 1, (0, 1)),
    Api(45, "alter_partition_reassignments", 1, (0, 1)),
    Api(46, "list_partition_reassignments", 0, (0, 0)),
    Api(47, "offset_delete", 0, (0, 0)),
    Api(48, "describe_client_quotas", 1, (0, 1)),
    Api(49, "alter_client_quotas", 1, (0, 1)),
    Api(50, "describe_user_scram_credentials", 0, (0, 0)),
    Api(51, "alter_user_scram_credentials", 0, (0, 0)),
    Api(52, "vote", 2, None),
    Api(53, "begin_quorum_epoch", 1, None),
    Api(54, "end_quorum_epoch", 1, None),
    Api(55, "describe_quorum", 2, (0, 2)),
    Api(56, "alter_partition", 3, None),
    Api(57, "update_features", 2, (0, 2)),
    Api(58, "envelope", 0, None),
    Api(59, "fetch_snapshot", 1, None),
    Api(60, "describe_cluster", 2, (0, 2)),
    Api(61, "describe_producers", 0, (0, 0)),
    Api(62, "broker_registration", 4, None),
    Api(63, "broker_heartbeat", 1, None),
    Api(64, "unregister_broker", 0, (0, 0)),
    Api(65, "describe_transactions", 0, (0, 0)),
    Api(66, "list_transactions", 2, (0, 2)),
    Api(67, "allocate_producer_ids", 0, None),
    Api(68, "consumer_group_heartbeat", 1, (0, 1)),
    Api(73, "assign_replicas_to_dirs", 0, None),
    Api(75, "describe_topic_partitions", 0, (0, 0)),
    Api(93, "get_replica_log_info", 0, None),
)

APIS = {api.name: api for api in _TABLE}
"""By name, in the order of their keys."""

SERVED: dict[int, tuple[int, int]] = {api.key: api.served for api in _TABLE if api.served is not None}
"""By key, in order: the versions that clients may speak, as ApiVersions lists them."""

PINNED: dict[int, int] = {api.key: api.pinned for api in _TABLE}
"""By key: the version that nodes speak."""

STRICT_QUOTA_SINCE = {"create_topics": 6, "delete_topics": 5, "create_partitions": 3}
"""KIP-599: the lowest version whose clients understand THROTTLING_QUOTA_EXCEEDED. Others only wait."""

PRODUCE, FETCH, METADATA, API_VERSIONS = (APIS[name].key for name in ("produce", "fetch", "metadata", "api_versions"))
