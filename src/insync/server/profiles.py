"""Two sets of defaults. `production` has Kafka's own. `fast` is for one machine: it detects a dead node at once and
elects a new leader in a fraction of a second, at the price of more heartbeats.

A dead process is detected by its closed connections, so `fast` needs no short timeouts for that. Timeouts are for nodes
that are silent but alive: paused, or isolated. They have to be longer than a busy machine delays a live node, or load
looks like death: with a lag time of two seconds, one producer at 20 MB/s beside other work made ISRs fall below MinISR
although no node was dead. The quorum's timeout is the same in both profiles, two seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Parts = Mapping[str, Mapping[str, Any]]

PRODUCTION: Parts = MappingProxyType({})

FAST: Parts = MappingProxyType(
    {
        "node": {
            "heartbeat_interval_ms": 200,
            "registration_retry_ms": 50,
            "controlled_shutdown_timeout_ms": 30_000,
            "forward_retry_ms": 20,
        },
        "controller": {
            "session_timeout_ms": 5_000,
            "lost_peer_grace_ms": 0,
            "recovery_retry_ms": 200,
            "recovery_timeout_ms": 1_000,
            "proactive_window_ms": 300,
        },
        "quorum": {
            "election_timeout_ms": 150,
            "election_backoff_max_ms": 100,
            "retry_backoff_ms": 20,
            "fetch_max_wait_ms": 150,
        },
        "replication": {
            "replica_lag_time_max_ms": 10_000,
            "replica_fetch_wait_max_ms": 250,
            "replica_fetch_backoff_ms": 50,
            "isr_expand_interval_ms": 100,
            "alter_partition_timeout_ms": 2_000,
            "alter_partition_metadata_timeout_ms": 500,
        },
        "groups": {
            "group_initial_rebalance_delay_ms": 0,
            "offsets_topic_num_partitions": 10,
        },
    }
)

PROFILES: Mapping[str, Parts] = MappingProxyType({"production": PRODUCTION, "fast": FAST})
