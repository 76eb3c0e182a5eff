"""Kafka's setting names, and the config field that each sets.

Times and sizes set a field in the config of one part of the node. Defaults of topic configs have the names and bounds
in `metadata.configs`. The identity of a node (id, roles, listeners, voters) is read by `properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any

from insync.metadata import apache_broker_keys, configs
from insync.node.config import BROKER, CONTROLLER
from insync.security.acl import canonical_host

Convert = Callable[[str], Any]
Target = tuple[str, str, Convert]
"""(part, field, conversion)."""

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


class InvalidValueError(ValueError):
    """A key does not accept this value."""


def integer(low: int, high: int = _LONG_MAX) -> Convert:
    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise InvalidValueError(f"{text!r} is not a whole number") from None
        if not low <= number <= high:
            raise InvalidValueError(f"{number} is not between {low} and {high}")
        return number

    return convert


def one_of(*choices: str) -> Convert:
    def convert(text: str) -> str:
        if text not in choices:
            raise InvalidValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return convert


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def verified_reads(text: str) -> str:
    """Accepts the values of earlier versions too."""
    value = {"true": "always", "false": "never"}.get(text.lower(), text.lower())
    if value not in ("first", "always", "never"):
        raise InvalidValueError(f"{text!r} is not one of first, always, never")
    return value


def comma_separated(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def connections_by_address(text: str) -> tuple[tuple[str, int], ...]:
    """address:count,... with the addresses in the form in which connections have them."""
    counts = []
    for part in comma_separated(text):
        host, _, count = part.rpartition(":")
        address = host.strip("[]")
        try:
            ip_address(address)
        except ValueError:
            raise InvalidValueError(f"{part!r} is not ADDRESS:COUNT; host names are not resolved") from None
        counts.append((canonical_host(address), int(integer(0, _INT_MAX)(count))))
    return tuple(counts)


def authorizer_class(text: str) -> str:
    if text not in ("", STANDARD_AUTHORIZER):
        raise InvalidValueError(f"{text!r} is not supported. Use {STANDARD_AUTHORIZER}.")
    return text


def principals(text: str) -> tuple[str, ...]:
    """Type:name;... since names may have commas."""
    found = tuple(part.strip() for part in text.split(";") if part.strip())
    for principal in found:
        if ":" not in principal:
            raise InvalidValueError(f"{principal!r} is not type:name, such as User:{principal}")
    return found


def roles(text: str) -> tuple[str, ...]:
    names = comma_separated(text)
    for role in names:
        if role not in (BROKER, CONTROLLER):
            raise InvalidValueError(f"{role!r} is neither {BROKER} nor {CONTROLLER}")
    if not names or len(set(names)) != len(names):
        raise InvalidValueError(f"{text!r} is not a list of distinct roles")
    return names


def topic_default_problem(key: str, value: str) -> str | None:
    """What is wrong with this default of a topic config; None if it is valid."""
    if key not in configs.BROKER_KEYS:
        return f"is not a known setting. {_suggest(key)}"
    return configs.find_problem(configs.BROKER_KEYS, key, value)


def _suggest(key: str) -> str:
    known = (*SETTINGS, *COARSER_UNITS, *STRUCTURAL, *UNUSED, *configs.BROKER_KEYS, *apache_broker_keys.list_names())
    similar = get_close_matches(key.lower(), known, n=1, cutoff=0.8)
    return f"Did you mean {similar[0]}?" if similar else "Check its spelling, or remove it."


def multiplied_by(factor: int) -> Convert:
    """Converts from a coarser unit; -1, which means no limit, stays."""

    def convert(text: str) -> str:
        number: int = integer(-1)(text)
        return str(number if number < 0 else number * factor)

    return convert


def _seconds(text: str) -> int:
    return int(integer(1)(text)) * 1_000


_MS = integer(0, _LONG_MAX)
_MS1 = integer(1, _LONG_MAX)
_BYTES = integer(0, _INT_MAX)

_TABLE: dict[str, tuple[Target, ...]] = {
    # the broker's life
    "broker.heartbeat.interval.ms": (("node", "heartbeat_interval_ms", _MS1),),
    "broker.session.timeout.ms": (("controller", "session_timeout_ms", _MS1),),
    "insync.registration.retry.ms": (("node", "registration_retry_ms", _MS1),),
    "insync.lost.peer.grace.ms": (("controller", "lost_peer_grace_ms", _MS),),
    "insync.controlled.shutdown.timeout.ms": (("node", "controlled_shutdown_timeout_ms", _MS1),),
    "request.timeout.ms": (("node", "forward_timeout_ms", _MS1),),
    # the controller
    "num.partitions": (("controller", "default_partitions", integer(1, _INT_MAX)),),
    "default.replication.factor": (("controller", "default_replication_factor", integer(1, 32_767)),),
    "leader.imbalance.check.interval.seconds": (("controller", "rebalance_interval_ms", _seconds),),
    "auto.create.topics.enable": (("node", "auto_create_topics", boolean),),
    # quotas of clients
    "quota.window.num": (("node", "quota_windows", integer(1, _INT_MAX)),),
    "quota.window.size.seconds": (("node", "quota_window_ms", _seconds),),
    "controller.quota.window.num": (("node", "mutation_quota_windows", integer(1, _INT_MAX)),),
    "controller.quota.window.size.seconds": (("node", "mutation_quota_window_ms", _seconds),),
    # the quorum
    "controller.quorum.election.timeout.ms": (("quorum", "election_timeout_ms", _MS1),),
    "controller.quorum.election.backoff.max.ms": (("quorum", "election_backoff_max_ms", _MS1),),
    "controller.quorum.fetch.timeout.ms": (("quorum", "fetch_timeout_ms", _MS1),),
    "controller.quorum.request.timeout.ms": (("quorum", "request_timeout_ms", _MS1),),
    "controller.quorum.retry.backoff.ms": (("quorum", "retry_backoff_ms", _MS),),
    "insync.quorum.fetch.wait.max.ms": (("quorum", "fetch_max_wait_ms", _MS),),
    "insync.metadata.snapshot.records": (("node", "metadata_snapshot_records", integer(1)),),
    # replication
    "replica.lag.time.max.ms": (("replication", "replica_lag_time_max_ms", _MS1),),
    "replica.fetch.wait.max.ms": (("replication", "replica_fetch_wait_max_ms", _MS),),
    "replica.fetch.min.bytes": (("replication", "replica_fetch_min_bytes", _BYTES),),
    "replica.fetch.max.bytes": (("replication", "replica_fetch_max_bytes", _BYTES),),
    "replica.fetch.response.max.bytes": (("replication", "replica_fetch_response_max_bytes", _BYTES),),
    "replica.fetch.backoff.ms": (("replication", "replica_fetch_backoff_ms", _MS),),
    "replica.socket.timeout.ms": (("replication", "replica_fetch_timeout_ms", _MS1),),
    "insync.isr.expand.interval.ms": (("replication", "isr_expand_interval_ms", _MS1),),
    "fetch.max.bytes": (("replication", "fetch_max_bytes", integer(1_024, _INT_MAX)),),
    "max.incremental.fetch.session.cache.slots": (("replication", "max_incremental_fetch_sessions", _BYTES),),
    # chores
    "replica.high.watermark.checkpoint.interval.ms": (("node", "hwm_checkpoint_interval_ms", _MS1),),
    "log.flush.offset.checkpoint.interval.ms": (("node", "recovery_point_checkpoint_interval_ms", _MS1),),
    "log.flush.scheduler.interval.ms": (("node", "flush_check_interval_ms", _MS1),),
    "log.cleaner.backoff.ms": (("node", "cleaner_interval_ms", _MS1),),
    "insync.scrub.bytes.per.second": (("node", "scrub_bytes_per_second", integer(0)),),
    "insync.scrub.interval.ms": (("node", "scrub_interval_ms", _MS1),),
    "insync.fetch.verify.checksums": (("replication", "fetch_verify_checksums", verified_reads),),
    "log.retention.check.interval.ms": (("node", "retention_check_interval_ms", _MS1),),
    # groups
    "group.min.session.timeout.ms": (("groups", "group_min_session_timeout_ms", _MS1),),
    "group.max.session.timeout.ms": (("groups", "group_max_session_timeout_ms", _MS1),),
    "group.initial.rebalance.delay.ms": (("groups", "group_initial_rebalance_delay_ms", _MS),),
    "group.max.size": (("groups", "group_max_size", integer(1, _INT_MAX)),),
    "insync.groups.max.bytes": (("groups", "groups_max_bytes", integer(0)),),
    "offset.metadata.max.bytes": (("groups", "offset_metadata_max_bytes", _BYTES),),
    "offsets.commit.timeout.ms": (("groups", "offsets_commit_timeout_ms", _MS1),),
    "offsets.retention.minutes": (("groups", "offsets_retention_minutes", integer(1, _INT_MAX)),),
    "offsets.retention.check.interval.ms": (("groups", "offsets_retention_check_interval_ms", _MS1),),
    "offsets.topic.num.partitions": (("groups", "offsets_topic_num_partitions", integer(1, _INT_MAX)),),
    "offsets.topic.replication.factor": (("groups", "offsets_topic_replication_factor", integer(1, 32_767)),),
    "offsets.topic.segment.bytes": (("groups", "offsets_topic_segment_bytes", integer(1, _INT_MAX)),),
    # the server
    "socket.request.max.bytes": (("limits", "max_request_bytes", integer(1, _INT_MAX)),),
    "max.connections": (("limits", "max_connections", _BYTES),),
    "max.connections.per.ip": (("limits", "max_connections_per_ip", _BYTES),),
    "max.connections.per.ip.overrides": (("limits", "max_connections_per_ip_overrides", connections_by_address),),
    "max.connection.creation.rate": (("limits", "max_connection_creation_rate", _BYTES),),
    "connections.max.idle.ms": (("limits", "idle_ms", _MS1),),
    "queued.max.request.bytes": (("limits", "received_bytes", integer(1)),),
    "insync.queued.max.response.bytes": (("limits", "unread_bytes", integer(1)),),
    "insync.max.in.flight.requests.per.connection": (("limits", "max_in_flight", integer(1, 10_000)),),
    "insync.in.flight.max.bytes.per.connection": (("limits", "in_flight_bytes", integer(1)),),
    "insync.slow.request.timeout.ms": (("limits", "slow_request_ms", _MS1),),
    "insync.slow.reader.timeout.ms": (("limits", "slow_reader_ms", _MS1),),
    "connection.failed.authentication.delay.ms": (("limits", "failed_authentication_delay_ms", _MS),),
    "insync.authentication.timeout.ms": (("limits", "authentication_ms", _MS1),),
    "insync.max.unauthenticated.connections": (("limits", "max_unauthenticated", integer(1, _INT_MAX)),),
}
SETTINGS: Mapping[str, tuple[Target, ...]] = MappingProxyType(_TABLE)

_HOUR = 3_600_000
COARSER_UNITS: Mapping[str, tuple[str, Convert]] = MappingProxyType(
    {
        "log.retention.hours": ("log.retention.ms", multiplied_by(_HOUR)),
        "log.retention.minutes": ("log.retention.ms", multiplied_by(60_000)),
        "log.roll.hours": ("log.roll.ms", multiplied_by(_HOUR)),
        "log.roll.jitter.hours": ("log.roll.jitter.ms", multiplied_by(_HOUR)),
    }
)
"""Settings in coarser units."""

STRUCTURAL = (
    "node.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "log.dirs",
    "log.dir",
    "broker.rack",
    "authorizer.class.name",
    "super.users",
    "allow.everyone.if.no.acl.found",
    "insync.metrics.host",
    "insync.metrics.port",
    "insync.profile",
)

UNUSED = (
    "background.threads",
    "controlled.shutdown.enable",
    "log.cleaner.enable",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "queued.max.requests",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
)
"""Accepted, so that a file written for Kafka can be used."""
