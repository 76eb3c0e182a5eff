"""Topics of a cluster under test: made, and watched until they are as a test needs them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from insync.cluster import queries
from insync.cluster.nodes import PATIENCE_S, Nodes, listed
from insync.cluster.queries import PartitionView
from insync.cluster.topic_specs import config_values
from insync.server.local_cluster import ClusterError, LocalNode


class Watching(Nodes):
    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 0, **configs: Any) -> None:
        """Returns when every broker on the larger side of all cuts knows the leaders of the new topic.

        `replication_factor` 0: three, or as many brokers as there are. `configs` are topic configs, such as
        `min_insync_replicas=2` or `**{"min.insync.replicas": 2}`.
        """
        brokers = sum(node.is_broker for node in self.nodes.values())
        factor = replication_factor or min(3, brokers)
        queries.create(self._best_connected()[0], name, partitions, factor, config_values(configs))
        self._until(lambda: self._known_everywhere(name, partitions), f"all brokers know topic {name!r}", PATIENCE_S)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the node that leads now, as far as the cluster knows: it may have died a moment ago."""
        leader = self._known(topic, partition).leader
        if leader < 0:
            raise ClusterError(f"{topic}-{partition} has no leader now: wait_for_leader({topic!r}) waits for one")
        return leader

    def isr_of(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The ids of the in-sync replicas."""
        return self._known(topic, partition).isr

    def wait_for_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        other_than: int | Collection[int] = (),
        timeout_s: float = PATIENCE_S,
    ) -> int:
        """The id of a leader that is up, awake and knows that it leads; none of `other_than`."""
        barred = (other_than,) if isinstance(other_than, int) else tuple(other_than)

        def serving() -> int | None:
            view = self._view(topic, partition)
            node = self.nodes.get(view.leader) if view is not None else None
            if node is None or node.id in barred or node not in self._reachable():
                return None
            own = queries.partition_on(node, topic, partition)
            return node.id if own is not None and own.leader == node.id else None

        which = f" other than {listed(barred)}" if barred else ""
        return self._until(serving, f"{topic}-{partition} has a leader{which} that serves", timeout_s)

    def wait_for_isr(
        self, topic: str, partition: int = 0, size: int | None = None, *, timeout_s: float = PATIENCE_S
    ) -> tuple[int, ...]:
        """The in-sync replicas, once there are `size` of them; without `size`, once all replicas are."""

        def settled() -> tuple[int, ...] | None:
            view = self._view(topic, partition)
            if view is None:
                return None
            wanted = len(view.replicas) if size is None else size
            return view.isr if len(view.isr) == wanted else None

        wanted = "all" if size is None else str(size)
        return self._until(settled, f"{wanted} replicas of {topic}-{partition} are in sync", timeout_s)

    def wait_until_ready(self, timeout_s: float = PATIENCE_S) -> None:
        """Every running broker counts every running broker as alive: not before cuts are healed and nodes resumed."""
        if self._paused:
            raise ClusterError(f"nodes are paused: {listed(self._paused)}; resume them first")
        self._processes.wait_until_ready(timeout_s)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _reachable(self) -> list[LocalNode]:
        """Brokers that can answer: cuts are between nodes, never between a node and its clients."""
        return [node for node in self.nodes.values() if node.is_broker and node.running and node.id not in self._paused]

    def _best_connected(self) -> list[LocalNode]:
        brokers = self._reachable()
        if not brokers:
            raise ClusterError("no broker can be asked, all are down or paused: start(id) or resume(id) one")
        cuts = {node.id: len(self._processes.faults[node.id].cut_from) for node in brokers}
        return [node for node in brokers if cuts[node.id] == min(cuts.values())]

    def _view(self, topic: str, partition: int) -> PartitionView | None:
        return queries.newest(self._reachable(), topic, partition)

    def _known(self, topic: str, partition: int) -> PartitionView:
        self._best_connected()
        view = self._view(topic, partition)
        if view is None:
            raise ClusterError(f"no broker knows {topic}-{partition}: create_topic({topic!r}) makes it")
        return view

    def _known_everywhere(self, topic: str, partitions: int) -> bool:
        return all(queries.knows_leaders(node, topic, partitions) for node in self._best_connected())
