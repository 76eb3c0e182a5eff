"""A cluster of real node processes that can be broken on purpose.

    with Cluster(brokers=3, topics={"orders": 6}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        leader = cluster.leader_of("orders")
        cluster.kill(leader)
        cluster.wait_for_leader("orders", other_than=leader)

Nodes are numbered from 1. A fault lasts until it is undone: a killed node until `start`, a paused one until `resume`, a
cut until `heal`, a full disk until `free_disk`, a slow one until `slow_disk(node, 0)`; `mend` undoes all of them. Those
of `with cluster.paused(1)`, `killed`, `cut` and `slowed` end with their block. Every wait has a timeout, and every
mistake is a `ClusterError` that says what to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from insync.cluster import queries
from insync.cluster.faults import Delay, Faults
from insync.cluster.impairments import (
    Impairment,
    Side,
    join_ids,
    list_directions,
    make_delay,
    network_faults,
    no_such_node,
)
from insync.cluster.processes import ControlledCluster
from insync.cluster.queries import PartitionView
from insync.cluster.topic_specs import TopicSpecs, parse_topic_specs, to_config_values
from insync.server.cluster_layout import ADMIN
from insync.server.local_cluster import ClusterError, LocalNode

if TYPE_CHECKING:
    from insync.client import SyncClient
    from insync.cluster.records import Payload, ReceivedRecord
    from insync.server.local_security import LocalSecurity

__all__ = ["Cluster", "ClusterError"]

T = TypeVar("T")

TIMEOUT_S = 60.0
"""The default timeout of every wait; only a defect or a fault that was not undone takes this long."""
POLL_S = 0.01


class Cluster:
    """A running cluster inside `with` or `async with`, or between `open` and `close`.

    - `brokers`: how many; by default three, or as many as `directory` already has.
    - `controllers`: how many nodes are controllers only; by default none, and the first three brokers are the voters.
    - `profile`: which set of timeouts the nodes use.
    - `topics`: names, or a mapping from names to partition counts or to options (`partitions`, `replication_factor`,
      topic configs).
    - `settings`: further settings of the nodes, under Kafka's names.
    - `directory`: where the nodes keep their data. Without it the cluster uses a temporary directory and removes it.
    - `security`: the protocol for clients, "sasl_ssl", "ssl" or "sasl_plaintext"; by default none. A secured cluster
      has TLS between its nodes, an authorizer, a super user `admin`, and `users` (names and passwords, which "ssl"
      does not need), who may use all topics and groups until an ACL denies it. `client_config` says how they connect.
    """

    def __init__(
        self,
        brokers: int | None = None,
        controllers: int | None = None,
        profile: str = "fast",
        topics: TopicSpecs = (),
        settings: Mapping[str, Any] | None = None,
        directory: str | Path | None = None,
        security: str | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        _check_count("brokers", brokers, least=1)
        _check_count("controllers", controllers, least=0)
        self._topics = parse_topic_specs(topics)
        self._keeps_data = directory is not None
        self._paused: dict[int, None] = {}
        self._impairments: list[Impairment] = []
        self._processes = ControlledCluster(
            brokers=brokers,
            controllers=controllers,
            profile=profile,
            settings={key: str(value) for key, value in (settings or {}).items()},
            directory=None if directory is None else str(directory),
            security=security,
            users=users,
        )

    def __repr__(self) -> str:
        states = ", ".join(f"{node.id} {self._state(node)}" for node in self.nodes.values())
        return f"<Cluster {self.bootstrap}: {states}>"

    def __enter__(self) -> Cluster:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Cluster:
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def open(self, timeout_s: float = TIMEOUT_S) -> None:
        """Start all nodes; returns when every broker serves clients and every topic has its leaders."""
        try:
            self._processes.start(timeout_s)
            for name, options in self._topics.items():
                self.create_topic(name, **options)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop all nodes: cleanly if their data is kept, otherwise by kill."""
        if self._keeps_data:
            self._undo_faults()
        else:
            for node in self.nodes:
                self._processes.kill(node)
        self._processes.stop()

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`: the addresses of all brokers, running or not."""
        return self._processes.bootstrap

    @property
    def nodes(self) -> Mapping[int, LocalNode]:
        """The nodes by id; a node has `port`, `roles`, `pid` and `is_running`."""
        return MappingProxyType(self._processes.nodes)

    def log_of(self, node: int) -> Path:
        """The log file of a node, with the lines of all its restarts."""
        return self._node(node).log

    def last_lines_of(self, node: int, count: int = 20) -> str:
        """The last lines of a node's log; empty after the cluster has removed its directory."""
        log = self.log_of(node)
        return "\n".join(log.read_text(errors="replace").splitlines()[-count:]) if log.exists() else ""

    # --- users and certificates --------------------------------------------------------------------------------------

    def client_config(
        self, user: str = ADMIN, client: str = "confluent-kafka", password: str | None = None
    ) -> dict[str, Any]:
        """The settings with which a user connects to a secured cluster, for one of these clients: confluent-kafka (or
        librdkafka), kafka-python, aiokafka, java (also for `--client-config`). A user that was added after the start
        needs its `password`."""
        return self._processes.client_settings(user, client, password)

    def client_certificate(self, user: str, *, is_expired: bool = False, is_trusted: bool = True) -> Path:
        """A new key and certificate of a client, in one PEM file. With `is_trusted=False` an authority signs it that
        the cluster does not know."""
        return self._security.write_client_certificate(user, is_expired=is_expired, is_trusted=is_trusted)

    def replace_certificate(self, node: int, *, hosts: Collection[str] | None = None, is_expired: bool = False) -> None:
        """Give a node another certificate, for other host names or one that has expired. The node uses it for new
        connections within a second or so; without arguments it is valid again."""
        self._security.issue_node(
            self._node(node).id, hosts=None if hosts is None else tuple(hosts), is_expired=is_expired
        )

    @property
    def is_secured(self) -> bool:
        """Whether it was started with `security`."""
        return self._processes.security is not None

    @property
    def _security(self) -> LocalSecurity:
        if self._processes.security is None:
            raise ClusterError("This cluster has no certificates: it was started without security.")
        return self._processes.security

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 0, **configs: Any) -> None:
        """Create a topic; returns when the brokers know its leaders (during a cut, those on the larger side).

        `replication_factor` 0 means three, or the number of brokers if there are fewer. `configs` are topic configs,
        such as `min_insync_replicas=2` or `**{"min.insync.replicas": 2}`.
        """
        brokers = sum(node.is_broker for node in self.nodes.values())
        factor = replication_factor or min(3, brokers)
        queries.create_topic(self._best_connected()[0], name, partitions, factor, to_config_values(configs))

        def all_know() -> bool:
            return all(queries.knows_leaders(node, name, partitions) for node in self._best_connected())

        self._wait_until(all_know, f"all brokers know topic {name!r}", TIMEOUT_S)

    def fresh_topic(
        self, prefix: str = "topic", partitions: int = 1, replication_factor: int = 0, **configs: Any
    ) -> str:
        """Create a topic under a name that no other has, and return the name: for tests that share a cluster."""
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        self.create_topic(name, partitions, replication_factor, **configs)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic; returns when no running broker knows it."""
        from insync.client import topics

        self._call(lambda client: client.call(lambda connected: topics.delete(connected, name)))

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the current leader according to the brokers' metadata; it may have died a moment ago."""
        leader = self._known_view(topic, partition).leader
        if leader < 0:
            raise ClusterError(f"{topic}-{partition} has no leader now: wait_for_leader({topic!r}) waits for one")
        return leader

    def isr_of(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The ids of the in-sync replicas."""
        return self._known_view(topic, partition).isr

    def wait_for_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        other_than: int | Collection[int] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> int:
        """Wait for a leader that runs, is not paused and knows that it leads; returns its id."""
        excluded = (other_than,) if isinstance(other_than, int) else tuple(other_than)

        def serving_leader() -> int | None:
            view = self._view(topic, partition)
            node = self.nodes.get(view.leader) if view is not None else None
            if node is None or node.id in excluded or node not in self._reachable():
                return None
            own = queries.partition_on(node, topic, partition)
            return node.id if own is not None and own.leader == node.id else None

        which = f" other than {join_ids(excluded)}" if excluded else ""
        return self._wait_until(serving_leader, f"{topic}-{partition} has a leader{which} that serves", timeout_s)

    def wait_for_isr(
        self, topic: str, partition: int = 0, size: int | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> tuple[int, ...]:
        """Wait until `size` replicas are in sync, or all of them without `size`; returns their ids."""

        def full_isr() -> tuple[int, ...] | None:
            view = self._view(topic, partition)
            if view is None:
                return None
            wanted = len(view.replicas) if size is None else size
            if not 0 < wanted <= len(view.replicas):
                raise ClusterError(f"{topic}-{partition} has {len(view.replicas)} replicas: size={size} is impossible")
            return view.isr if len(view.isr) == wanted else None

        wanted = "all" if size is None else str(size)
        return self._wait_until(full_isr, f"{wanted} replicas of {topic}-{partition} are in sync", timeout_s)

    # --- records -----------------------------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        *values: Payload,
        key: Payload = None,
        partition: int | None = None,
        headers: Mapping[str, bytes] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> list[tuple[int, int]]:
        """Write records with acks=all, idempotently; returns the partition and the offset of each.

        Text is encoded as UTF-8, and None is a tombstone. Without a `partition` it follows from the key as in Kafka's
        clients; records without a key go to partition 0.
        """
        from insync.cluster import records

        return self._call(lambda client: records.produce(client, topic, values, key, partition, headers), timeout_s)

    def consume(
        self, topic: str, count: int | None = None, *, partition: int | None = None, timeout_s: float = TIMEOUT_S
    ) -> list[ReceivedRecord]:
        """Read committed records from the beginning: the first `count` of them, for which it waits, or without `count`
        all that are there now. They are in the order of their offsets, partition by partition."""
        from insync.cluster import records

        return self._call(lambda client: records.consume(client, topic, count, partition, timeout_s), timeout_s)

    # --- processes ---------------------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        """kill -9: the process is gone at once; what it has written stays in the machine's page cache."""
        self._running_node(node)
        self._processes.kill(node)
        self._paused.pop(node, None)

    def kill_leader_of(self, topic: str, partition: int = 0) -> int:
        """`kill` the leader, and return its id."""
        leader = self.wait_for_leader(topic, partition)
        self.kill(leader)
        return leader

    @contextmanager
    def killed(self, node: int) -> Iterator[None]:
        """`kill`, and `start` at the end of the block."""
        self.kill(node)
        try:
            yield
        finally:
            if not self._node(node).is_running:
                self.start(node)

    def stop(self, node: int, timeout_s: float = TIMEOUT_S) -> None:
        """A controlled shutdown, as by SIGTERM: the node hands over its leaderships, then exits."""
        self._awake_node(node)
        self._processes.stop_node(node, timeout_s)

    def stop_all(self) -> None:
        """Controlled shutdowns of all nodes; `mend` starts them again."""
        for node in list(self._paused):
            self.resume(node)
        self._processes.stop_nodes()

    def start(self, node: int, timeout_s: float = TIMEOUT_S, *, wait: bool = True) -> None:
        """Start a node; with `wait`, returns when it answers clients. `wait_for_isr` waits until it has caught up.

        Without a majority of the voters no node answers: start the first of them with `wait=False`.
        """
        stopped = self._node(node)
        if stopped.is_running:
            raise ClusterError(f"node {node} is running already: kill({node}) or stop({node}) ends it")
        self._processes.start_node(node)
        if wait:
            self._wait_until(lambda: self._answers(stopped), f"node {node} answers", timeout_s)

    def restart(self, node: int, timeout_s: float = TIMEOUT_S) -> None:
        """`stop`, then `start`."""
        self.stop(node, timeout_s)
        self.start(node, timeout_s)

    def pause(self, node: int) -> None:
        """SIGSTOP: the process stands still, its connections stay open, and its clock goes on."""
        self._awake_node(node)
        self._send_signal(node, signal.SIGSTOP)
        self._paused[node] = None

    def resume(self, node: int) -> None:
        """SIGCONT, after `pause`."""
        self._running_node(node)
        if node not in self._paused:
            raise ClusterError(f"node {node} is not paused: pause({node}) comes first")
        self._send_signal(node, signal.SIGCONT)
        del self._paused[node]
        self._processes.wait_until_applied(node)

    @contextmanager
    def paused(self, node: int) -> Iterator[None]:
        """`pause`, and `resume` at the end of the block, unless the node was killed in it."""
        self.pause(node)
        try:
            yield
        finally:
            if node in self._paused:
                self.resume(node)

    def jump_clock(self, node: int, seconds: float) -> None:
        """Move a node's clock ahead of the machine's, or back if negative. A node reads its clock when it starts and
        counts from there, so one that runs is restarted. The time limits of the protocol are not affected."""
        is_running = self._node(node).is_running
        ahead_ms = self._processes.faults[node].clock_ahead_ms + round(seconds * 1_000)
        if is_running:
            self.stop(node)
        self._change_faults(node, clock_ahead_ms=ahead_ms)
        if is_running:
            self.start(node)

    def wait_until_ended(self, node: int, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the process has exited by itself, as after `fill_disk`."""
        ending = self._node(node)
        self._wait_until(lambda: not ending.is_running, f"node {node} has ended", timeout_s)

    def wait_until_ready(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every running broker considers every running broker alive. Heal cuts and resume nodes first."""
        if self._paused:
            raise ClusterError(f"nodes are paused: {join_ids(self._paused)}; resume them first")
        self._processes.wait_until_ready(timeout_s)

    # --- the network -------------------------------------------------------------------------------------------------

    def partition(self, *groups: Side, one_way: bool = False) -> None:
        """Cut the network between these groups of nodes; a single group is cut off from all other nodes.

        Connections are not reset: bytes no longer pass, and new connections hang. A group may be "clients", which
        otherwise reach every node, and nodes in no group still reach all others. With `one_way`, bytes of the first
        group do not reach the second, but pass in the other direction. Further cuts add to those in force; `heal` ends
        all.
        """
        self._impair(self._directions(groups, None, one_way))

    @contextmanager
    def cut(self, *groups: Side, one_way: bool = False) -> Iterator[None]:
        """`partition` for the length of a block; other cuts stay."""
        with self._impaired(self._directions(groups, None, one_way)):
            yield

    def slow_network(
        self, *groups: Side, latency_ms: float = 0.0, bytes_per_s: int = 0, loss: float = 0.0, one_way: bool = False
    ) -> None:
        """Delay all bytes between these groups, which are named as for `partition`; without groups, between all nodes.

        `latency_ms` is for each direction. `bytes_per_s` limits each connection. `loss` is the share of packets lost:
        TCP sends them again, so they arrive 200 ms later or more. Further calls add up; `heal` ends all.
        """
        self._impair(self._directions(groups, make_delay(latency_ms, bytes_per_s, loss), one_way))

    @contextmanager
    def slowed(
        self, *groups: Side, latency_ms: float = 0.0, bytes_per_s: int = 0, loss: float = 0.0, one_way: bool = False
    ) -> Iterator[None]:
        """`slow_network` for the length of a block."""
        with self._impaired(self._directions(groups, make_delay(latency_ms, bytes_per_s, loss), one_way)):
            yield

    def heal(self) -> None:
        """End all cuts and delays. Connections that existed during a cut are dropped, and nodes open new ones."""
        self._impairments.clear()
        self._apply_impairments()

    # --- disks -------------------------------------------------------------------------------------------------------

    def lose_unflushed(self, *nodes: int) -> dict[int, dict[str, int]]:
        """A power cut: the nodes are killed, if they still run, and lose everything that was not synced.

        Returns the number of lost bytes by node and file. `start` brings a node back.
        """
        for node in nodes:
            self._node(node)
        for node in nodes:
            if self.nodes[node].is_running:
                self.kill(node)
        return {node: self._processes.lose_unflushed(node) for node in nodes}

    def fill_disk(self, node: int) -> None:
        """Make every write fail with ENOSPC. A node whose only disk fails exits: see `wait_until_ended`."""
        self._node(node)
        self._change_faults(node, disk_full=True)
        self._wait_until_applied()

    def free_disk(self, node: int) -> None:
        """Undo `fill_disk`. A node that has exited needs a `start`."""
        self._node(node)
        self._change_faults(node, disk_full=False)
        self._wait_until_applied()

    def slow_disk(self, node: int, fsync_ms: int) -> None:
        """Make every fsync of this node take `fsync_ms` longer; 0 ends it."""
        self._node(node)
        if fsync_ms < 0:
            raise ClusterError(f"fsync_ms={fsync_ms}: a disk cannot be faster than it is, 0 ends the delay")
        self._change_faults(node, fsync_ms=fsync_ms)
        self._wait_until_applied()

    def break_sectors(self, node: int, path: str | os.PathLike[str], start: int, end: int) -> None:
        """Make these bytes of a file unreadable (EIO) until the file is replaced or `mend` is called."""
        self._node(node)
        sectors = (*self._processes.faults[node].bad_sectors, (os.fspath(path), start, end))
        self._change_faults(node, bad_sectors=sectors)
        self._wait_until_applied()

    # --- everything --------------------------------------------------------------------------------------------------

    def mend(self, timeout_s: float = TIMEOUT_S) -> None:
        """Undo all faults: every node runs, is connected to the others, and has a working disk."""
        self._undo_faults()
        for node in self.nodes:
            self._processes.start_node(node)  # all of them before any wait: without a majority, none answers
        self.wait_until_ready(timeout_s)

    def reset(self, timeout_s: float = TIMEOUT_S) -> None:
        """As after `open`: faults are undone, all topics and groups deleted, and the first topics created again."""
        from insync.cluster import records

        self.mend(timeout_s)
        self._call(records.delete_topics_and_groups, timeout_s)
        for name, options in self._topics.items():
            self.create_topic(name, **options)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _call(self, work: Callable[[SyncClient], T], timeout_s: float = TIMEOUT_S) -> T:
        """Run `work` with a client of the super user."""
        from insync.client import ClientError, ClientSettings, SyncClient

        config = self.client_config(client="java") if self.is_secured else {}
        try:
            with SyncClient(self.bootstrap, timeout_s=timeout_s, settings=ClientSettings.of(config)) as client:
                return work(client)
        except ClientError as error:
            raise ClusterError(str(error)) from error

    def _node(self, node: int) -> LocalNode:
        known = self.nodes.get(node)
        if known is None:
            raise no_such_node(node, self.nodes)
        return known

    def _running_node(self, node: int) -> LocalNode:
        known = self._node(node)
        if not known.is_running:
            raise ClusterError(f"node {node} is not running: start({node}) first")
        return known

    def _awake_node(self, node: int) -> LocalNode:
        known = self._running_node(node)
        if node in self._paused:
            raise ClusterError(f"node {node} is paused: resume({node}) first")
        return known

    def _state(self, node: LocalNode) -> str:
        return "down" if not node.is_running else "paused" if node.id in self._paused else "up"

    def _send_signal(self, node: int, number: signal.Signals) -> None:
        process = self.nodes[node].process
        if process is not None:
            process.send_signal(number)

    def _answers(self, node: LocalNode) -> bool:
        if not node.is_running:
            raise ClusterError(f"node {node.id} has exited; the last line of its log: {self.last_lines_of(node.id, 1)}")
        return queries.answers(node)

    def _wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float) -> T:
        """Returns the first truthy value of `condition`."""
        deadline = time.monotonic() + timeout_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise ClusterError(f"timed out after {timeout_s:g} s waiting until {what}")
            time.sleep(POLL_S)
        return value

    def _reachable(self) -> list[LocalNode]:
        """The brokers that can answer: cuts are between nodes, never between a node and its clients."""
        return [
            node for node in self.nodes.values() if node.is_broker and node.is_running and node.id not in self._paused
        ]

    def _best_connected(self) -> list[LocalNode]:
        brokers = self._reachable()
        if not brokers:
            raise ClusterError("no broker can be asked, all are down or paused: start(id) or resume(id) one")
        cuts = {node.id: len(self._processes.faults[node.id].cut_from) for node in brokers}
        return [node for node in brokers if cuts[node.id] == min(cuts.values())]

    def _view(self, topic: str, partition: int) -> PartitionView | None:
        return queries.newest_view(self._reachable(), topic, partition)

    def _known_view(self, topic: str, partition: int) -> PartitionView:
        self._best_connected()
        view = self._view(topic, partition)
        if view is None:
            raise ClusterError(self._explain_missing(topic, partition))
        return view

    def _explain_missing(self, topic: str, partition: int) -> str:
        if self._view(topic, 0) is None:
            return f"no broker knows topic {topic!r}: create_topic({topic!r}) makes it"
        return f"topic {topic!r} has no partition {partition}: they are numbered from 0"

    def _directions(self, groups: Sequence[Side], delay: Delay | None, one_way: bool) -> list[Impairment]:
        return list_directions(frozenset(self.nodes), groups, delay, one_way=one_way)

    def _impair(self, impairments: Sequence[Impairment]) -> None:
        self._impairments += impairments
        self._apply_impairments()

    @contextmanager
    def _impaired(self, impairments: Sequence[Impairment]) -> Iterator[None]:
        self._impair(impairments)
        try:
            yield
        finally:
            self._impairments = [known for known in self._impairments if known not in impairments]
            self._apply_impairments()

    def _apply_impairments(self) -> None:
        for node in self.nodes:
            self._change_faults(node, **network_faults(node, self._impairments))
        self._wait_until_applied()

    def _change_faults(self, node: int, **values: Any) -> None:
        self._processes.impose(node, replace(self._processes.faults[node], **values))

    def _undo_faults(self) -> None:
        for node in list(self._paused):
            if self.nodes[node].is_running:
                self.resume(node)
        self._impairments.clear()
        for node in self.nodes:
            if self._processes.faults[node] != Faults():
                self._processes.impose(node, Faults())
        self._wait_until_applied()

    def _wait_until_applied(self) -> None:
        """A paused node applies a fault when it resumes; until then its peers enforce the cut."""
        for node in self.nodes:
            if node not in self._paused:
                self._processes.wait_until_applied(node)


def _check_count(name: str, count: int | None, *, least: int) -> None:
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < least):
        raise ClusterError(f"{name}={count!r}: must be a whole number from {least}, or None for the default")
