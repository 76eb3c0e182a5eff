"""A cluster of real node processes to be broken on purpose.

    with Cluster(brokers=3, topics={"orders": 6}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        leader = cluster.leader_of("orders")
        cluster.kill(leader)
        cluster.wait_for_leader("orders", other_than=leader)

Nodes are numbered from 1. Whatever was broken stays so until it is mended: a killed node until `start`, a paused one
until `resume`, a cut until `heal`, a full disk until `free_disk`, a slow one until `slow_disk(node, 0)`. Every wait has
a time limit, and every mistake is a `ClusterError` that says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from insync.cluster.faults import Faults
from insync.cluster.nodes import PATIENCE_S
from insync.cluster.processes import ControlledCluster
from insync.cluster.topic_specs import Topics, planned
from insync.cluster.watching import Watching
from insync.server.local_cluster import ClusterError

__all__ = ["Cluster", "ClusterError"]


class Cluster(Watching):
    """Starts with `with`, or with `open`. Without a `directory`, everything it writes is gone after its end.

    `brokers`: three, or as many as the `directory` remembers. `controllers`: nodes that vote and are no brokers;
    without any, the first three brokers vote. `topics`: names, or a
    mapping of names to numbers of partitions or to settings (`partitions`, `replication_factor`, topic configs).
    `settings`: of the nodes, in Kafka's names.
    """

    def __init__(
        self,
        brokers: int | None = None,
        controllers: int | None = None,
        profile: str = "fast",
        topics: Topics = (),
        settings: Mapping[str, Any] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        self._topics = planned(topics)
        self._kept = directory is not None
        processes = ControlledCluster(
            brokers=brokers,
            controllers=controllers,
            profile=profile,
            settings={key: str(value) for key, value in (settings or {}).items()},
            directory=None if directory is None else str(directory),
        )
        super().__init__(processes)

    def __enter__(self) -> Cluster:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """For a client's `bootstrap.servers`: all brokers, up or not."""
        return self._processes.bootstrap

    def open(self, timeout_s: float = PATIENCE_S) -> None:
        """Returns when every broker serves and every topic has its leaders."""
        try:
            self._processes.start(timeout_s)
            for name, plan in self._topics.items():
                self.create_topic(name, **plan)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """An orderly end if what was written is kept, else a quick one."""
        if self._kept:
            self._mend()
        else:
            for node in self.nodes:
                self._processes.kill(node)
        self._processes.stop()

    # --- the network -------------------------------------------------------------------------------------------------

    def partition(self, *groups: Iterable[int], one_way: bool = False) -> None:
        """Cut the network between these groups of nodes; one group alone is cut off from all other nodes.

        Nothing is reset: bytes just do not pass, and new connections hang. Clients still reach everybody, and so do
        nodes that no group names. With `one_way`, bytes of the first group do not reach the second; the other way they
        pass. A further cut adds to those in force; `heal` ends all.
        """
        sides = self._sides(groups)
        if one_way and len(sides) != 2:
            raise ClusterError("one_way takes two groups: bytes of the first do not reach the second")
        cuts = [(a, b) for i, a in enumerate(sides) for j, b in enumerate(sides) if i < j or (i > j and not one_way)]
        for senders, receivers in cuts:
            for node in senders:
                self._change(node, mute_to=self._processes.faults[node].mute_to | receivers)
            for node in receivers:
                self._change(node, deaf_to=self._processes.faults[node].deaf_to | senders)
        self._in_force()

    def heal(self) -> None:
        """End all cuts. The connections that lived through one are dropped, and made anew."""
        for node in self.nodes:
            self._change(node, mute_to=frozenset(), deaf_to=frozenset())
        self._in_force()

    # --- disks -------------------------------------------------------------------------------------------------------

    def lose_unflushed(self, *nodes: int) -> dict[int, dict[str, int]]:
        """A power cut: the nodes are killed, if they still ran, and whatever they had not synced is gone.

        Returns by node and file how many bytes were lost. `start` brings a node back.
        """
        for node in nodes:
            self._node(node)
        for node in nodes:
            if self.nodes[node].running:
                self.kill(node)
        return {node: self._processes.lose_unflushed(node) for node in nodes}

    def fill_disk(self, node: int) -> None:
        """From now on nothing can be written. A node whose only disk fails ends: see `wait_until_ended`."""
        self._node(node)
        self._change(node, disk_full=True)
        self._in_force()

    def free_disk(self, node: int) -> None:
        """There is room again. A node that has ended needs a `start`."""
        self._node(node)
        self._change(node, disk_full=False)
        self._in_force()

    def slow_disk(self, node: int, fsync_ms: int) -> None:
        """From now on every fsync of this node takes so much longer; 0 ends it."""
        self._node(node)
        self._change(node, fsync_ms=fsync_ms)
        self._in_force()

    def break_sectors(self, node: int, path: str | os.PathLike[str], start: int, end: int) -> None:
        """From now on these bytes of a file cannot be read (EIO), until the file is replaced or `mend` is called."""
        self._node(node)
        sectors = (*self._processes.faults[node].bad_sectors, (os.fspath(path), start, end))
        self._change(node, bad_sectors=sectors)
        self._in_force()

    # --- all of it ---------------------------------------------------------------------------------------------------

    def mend(self, timeout_s: float = PATIENCE_S) -> None:
        """Undo everything that was broken: all nodes run, awake, connected, with room on their disks."""
        self._mend()
        for node in self.nodes:
            self._processes.start_node(node)  # all before any is waited for: without a majority, none answers
        self.wait_until_ready(timeout_s)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _mend(self) -> None:
        for node in list(self._paused):
            if self.nodes[node].running:
                self.resume(node)
        for node in self.nodes:
            if self._processes.faults[node] != Faults():
                self._processes.impose(node, Faults())
        self._in_force()

    def _sides(self, groups: Sequence[Iterable[int]]) -> list[frozenset[int]]:
        sides = [frozenset(group) for group in groups]
        for node in sorted(frozenset().union(*sides)):
            self._node(node)
            if sum(node in side for side in sides) > 1:
                raise ClusterError(f"node {node} is on both sides of the cut: name it in one group")
        if len(sides) == 1:
            sides.append(frozenset(self.nodes) - sides[0])
        if not all(sides) or not sides:
            raise ClusterError("a cut needs nodes on both sides, such as partition({1}, {2, 3})")
        return sides

    def _change(self, node: int, **values: Any) -> None:
        self._processes.impose(node, replace(self._processes.faults[node], **values))

    def _in_force(self) -> None:
        """Who sleeps obeys when it wakes; until then the other end of every cut does."""
        for node in self.nodes:
            if node not in self._paused:
                self._processes.obeyed(node)
