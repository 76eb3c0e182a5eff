"""Prometheus metrics of one node, read from its live state at every scrape.

The names are Kafka's, in Prometheus notation; each help text begins with Kafka's name. `metrics_endpoint` serves them,
and imports this module with the first scrape: prometheus-client brings along a web server that a node does not
need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kio.schema.index import api_key_map
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from insync.replication.leader import Leader, leader_of
from insync.server.notes import NoteLog
from insync.server.traffic import BUCKETS_MS, Traffic

if TYPE_CHECKING:
    from insync.node.node import Node
    from insync.server.listener import Listener


class NodeMetrics:
    """A collector for prometheus-client."""

    def __init__(self, node: Node, listener: Listener, traffic: Traffic, notes: NoteLog) -> None:
        self._node = node
        self._listener = listener
        self._traffic = traffic
        self._notes = notes

    def collect(self) -> Iterator[Metric]:
        if self._node.replicas is not None:
            yield from self._replication()
        yield from self._cluster()
        yield from self._findings()
        yield from self._damage()
        yield from self._requests()
        yield from self._server()
        yield from self._security()

    def _replication(self) -> Iterator[Metric]:
        replicas = self._node.replicas.replicas.values()  # type: ignore[union-attr]
        leaders = [leader for replica in replicas if (leader := leader_of(replica)) is not None]
        counters = self._node.replicas.counters  # type: ignore[union-attr]
        yield _gauge("leader_count", "LeaderCount: partitions led here", len(leaders))
        yield _gauge("partition_count", "PartitionCount: replicas held here", len(self._node.replicas.replicas))  # type: ignore[union-attr]
        yield _gauge(
            "under_replicated_partitions",
            "UnderReplicatedPartitions: led here, with replicas outside the ISR",
            sum(len(leader.isr_state.isr) < len(leader.replica.partition.replicas) for leader in leaders),
        )
        yield _gauge(
            "under_min_isr_partition_count",
            "UnderMinIsrPartitionCount: led here, refusing acks=all writes",
            sum(len(leader.isr_state.isr) < leader.min_isr for leader in leaders),
        )
        yield _gauge(
            "at_min_isr_partition_count",
            "AtMinIsrPartitionCount: led here, one more failure stops acks=all writes",
            sum(len(leader.isr_state.isr) == leader.min_isr for leader in leaders),
        )
        yield _gauge("replica_max_lag", "MaxLag: records that the furthest follower is behind", _max_lag(leaders))
        yield _counter("isr_expands", "IsrExpandsPerSec", counters["isr_expands"])
        yield _counter("isr_shrinks", "IsrShrinksPerSec", counters["isr_shrinks"])
        yield _counter("failed_isr_updates", "FailedIsrUpdatesPerSec", counters["failed_isr_updates"])

    def _damage(self) -> Iterator[Metric]:
        """D6: damage on disk, repairs and the scrub."""
        broker = self._node.broker_role
        if broker is None:
            return
        replicas, scrubber = broker.replicas, broker.scrubber
        damaged = sum(len(replica.log.damage.ranges) for replica in replicas.replicas.values())
        yield _gauge("damaged_ranges", "ranges of offsets that are damaged on disk and not yet repaired", damaged)
        yield _counter("repaired_ranges", "damaged ranges replaced from another replica", replicas.repaired_ranges)
        yield _counter("scrubbed_bytes", "read by the scrub", scrubber.bytes)
        yield _gauge(
            "scrub_completed_timestamp_seconds",
            "when the last complete pass of the scrub ended; 0 if none has since the start",
            scrubber.completed_at_ms / 1_000,
        )

    def _cluster(self) -> Iterator[Metric]:
        image, role, counts = self._node.image, self._node.controller_role, self._notes.counts
        fenced = sum(broker.fenced for broker in image.brokers.values())
        yield _gauge("offline_partitions_count", "OfflinePartitionsCount: without a leader", len(image.leaderless()))
        yield _gauge("fenced_broker_count", "FencedBrokerCount", fenced)
        yield _gauge("active_broker_count", "ActiveBrokerCount", len(image.brokers) - fenced)
        yield _gauge("active_controller_count", "ActiveControllerCount", int(role is not None and role.active))
        yield _gauge("quorum_epoch", "current-epoch of the metadata quorum", self._node.quorum.epoch)
        yield _gauge("metadata_offset", "last-applied-record-offset", self._node.metadata_loader.applied - 1)
        yield _gauge("broker_epoch", "of this incarnation; -1 while not registered", self._node.broker_epoch)
        yield _counter("leader_elections", "LeaderElections decided by this node", counts["leader_elected"])
        yield _counter("unclean_leader_elections", "UncleanLeaderElectionsPerSec", self._notes.unclean_elections)
        yield _counter("truncations", "replicas truncated because they had diverged", counts["truncated"])

    def _findings(self) -> Iterator[Metric]:
        current = GaugeMetricFamily("insync_findings", "unresolved findings, by kind", labels=["kind"])
        reported = CounterMetricFamily(
            "insync_findings_reported", "findings reported since the start, by kind", labels=["kind"]
        )
        findings = self._node.findings
        for kind, count in findings.reported.items():
            current.add_metric([kind], sum(finding.kind == kind for finding in findings.current()))
            reported.add_metric([kind], count)
        yield from (current, reported)

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("insync_requests", "RequestsPerSec by API", labels=["api"])
        bytes_in = CounterMetricFamily("insync_request_bytes", "BytesInPerSec by API", labels=["api"])
        bytes_out = CounterMetricFamily("insync_response_bytes", "BytesOutPerSec by API", labels=["api"])
        latency = HistogramMetricFamily("insync_request_seconds", "TotalTimeMs by API, in seconds", labels=["api"])
        for key, api in self._traffic.apis.items():
            label = [api_key_map.get(key, f"api_{key}")]
            requests.add_metric(label, api.requests)
            bytes_in.add_metric(label, api.bytes_in)
            bytes_out.add_metric(label, api.bytes_out)
            latency.add_metric(label, _buckets(api.slower), api.nanoseconds / 1e9)
        yield from (requests, bytes_in, bytes_out, latency)

    def _server(self) -> Iterator[Metric]:
        yield _gauge("connections", "connection-count", len(self._listener.connections))
        yield _gauge(
            "unfinished_request_bytes",
            "held for incomplete and unanswered requests",
            self._listener.budget_received.used,
        )
        yield _gauge(
            "unread_response_bytes",
            "held for clients that have not read their answers",
            self._listener.budget_unread.used,
        )
        yield _gauge(
            "unauthenticated_connections", "whose TLS handshake or login is under way", len(self._listener.pending)
        )

    def _security(self) -> Iterator[Metric]:
        handshakes = _by_listener("failed_tls_handshakes", "failed TLS handshakes by listener")
        logins = _by_listener("successful_authentications", "successful-authentication-total by listener")
        failed = _by_listener("failed_authentications", "failed-authentication-total by listener")
        renewed = _by_listener("successful_reauthentications", "successful-reauthentication-total by listener")
        not_renewed = _by_listener("failed_reauthentications", "failed-reauthentication-total by listener")
        expired = _by_listener("expired_connections_killed", "ExpiredConnectionsKilledCount by listener")
        for acceptor in self._listener.acceptors:
            if acceptor.tls is not None:
                handshakes.add_metric([acceptor.name], acceptor.tls.failures.total)
            if acceptor.sasl is not None:
                counts = acceptor.sasl.counts
                logins.add_metric([acceptor.name], counts.successful)
                failed.add_metric([acceptor.name], acceptor.sasl.failures.total - counts.failed_renewals)
                renewed.add_metric([acceptor.name], counts.renewed)
                not_renewed.add_metric([acceptor.name], counts.failed_renewals)
                expired.add_metric([acceptor.name], counts.expired)
        yield from (handshakes, logins, failed, renewed, not_renewed, expired)
        control = self._node.access_control
        denied = CounterMetricFamily(
            "insync_authorization_denied",
            "authorization-denied-rate-per-minute, as a count, by operation and type of resource",
            labels=["operation", "resource_type"],
        )
        for (operation, resource_type), count in control.denied.items():
            denied.add_metric([operation.name, resource_type.name], count)
        yield denied
        if control.authorizer is not None:
            yield _gauge("acls", "acls-total-count", len(self._node.image.acls))


def render(collector: NodeMetrics) -> tuple[str, bytes]:
    """The answer to a scrape: content type and body."""
    registry = CollectorRegistry()
    registry.register(collector)
    return CONTENT_TYPE_LATEST, generate_latest(registry)


def _max_lag(leaders: Iterable[Leader]) -> int:
    """A follower that has not fetched in this epoch lags from the start of the log."""
    lags = [
        leader.replica.log.leo - max(progress.leo, leader.replica.log.log_start)
        for leader in leaders
        for progress in leader.followers.values()
    ]
    return max(lags, default=0)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"insync_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"insync_{name}", text, value=value)


def _by_listener(name: str, text: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"insync_{name}", text, labels=["listener"])


def _buckets(slower: list[int]) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip((*BUCKETS_MS, None), slower, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(bound / 1_000), float(total)))
    return buckets
