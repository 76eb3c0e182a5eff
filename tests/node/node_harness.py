"""A few real nodes on simulated disks, wired directly: what one sends reaches the other at once.

`hold` names the (sender, channel) pairs whose requests are kept back in `held`, `slow_disks` the nodes whose syncs are
kept back in `syncs`; a node that is `cut_off` gets no responses, and its messages are lost. Time passes only by
`advance`.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any
from uuid import UUID

from insync import sansio
from insync.controller.config import ControllerConfig
from insync.metadata.broker import Endpoint
from insync.metadata.partition import Partition
from insync.node.broker_role import BrokerRole
from insync.node.config import BROKER, CONTROLLER, NodeConfig
from insync.node.controller_role import ControllerRole
from insync.node.node import Node
from insync.replication.replica import Replica
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import write_atomically
from insync.storage.log import Log
from insync.wire import batch
from insync.wire.messages import (
    create_topics,
    delete_topics,
    describe_configs,
    fetch,
    incremental_alter_configs,
    metadata,
    produce,
)
from insync.wire.types import ms

CLUSTER = "node-tests"


def config(
    node_id: int, *, voters: tuple[int, ...] = (1,), roles: tuple[str, ...] = (BROKER, CONTROLLER), **fields: Any
) -> NodeConfig:
    return NodeConfig(
        node_id=node_id,
        cluster_id=CLUSTER,
        directory_id=fields.pop("directory_id", UUID(int=node_id)),
        voters=voters,
        roles=roles,
        endpoints=fields.pop("endpoints", (Endpoint(name="PLAINTEXT", host=f"host-{node_id}", port=9092),)),
        controller=fields.pop("controller", ControllerConfig(cluster_id=CLUSTER, rebalance_interval_ms=0)),
        **fields,
    )


class Net:
    def __init__(self, *configs: NodeConfig) -> None:
        self.now = 1_000
        self.configs = {node.node_id: node for node in configs or (config(1),)}
        self.disks = {node_id: SimDisk() for node_id in self.configs}
        self.nodes: dict[int, Node] = {}
        self.hold: list[tuple[int, str]] = []
        self.held: list[tuple[int, sansio.Send]] = []
        self.slow_disks: list[int] = []
        self.syncs: list[tuple[int, sansio.Sync]] = []
        self.answers: dict[int, Any] = {}
        self.hang_ups: dict[int, sansio.HangUp] = {}
        self.clients: dict[int, sansio.Client] = {}
        """What other nodes see of a node; they trust one that is not in it."""
        self.notes: list[tuple[int, sansio.Note]] = []
        self.stops: dict[int, sansio.Stop] = {}
        self.files: list[tuple[int, str]] = []
        self._queue: deque[tuple[Node, sansio.Event]] = deque()
        self._asked: dict[int, tuple[Node, sansio.Send]] = {}
        self._lost: list[int] = []
        self._tokens = 0
        self._starts = 0
        self.cut_off: list[int] = []

    def broker(self, node_id: int = 1) -> BrokerRole:
        role = self.nodes[node_id].broker_role
        assert role is not None, f"node {node_id} is no broker"
        return role

    def controller(self, node_id: int = 1) -> ControllerRole:
        role = self.nodes[node_id].controller_role
        assert role is not None, f"node {node_id} is no controller"
        return role

    # --- processes ---------------------------------------------------------------------------------------------------

    def start(self, *node_ids: int) -> Net:
        for node_id in node_ids or tuple(self.configs):
            self._starts += 1  # every process draws an incarnation id of its own
            rng = random.Random(node_id if self._starts <= len(self.configs) else 100 * self._starts + node_id)
            node = Node(self.configs[node_id], self.disks[node_id], rng, self.now)
            self.nodes[node_id] = node
            self.stops.pop(node_id, None)
            self.carry_out(node, node.start(self.now))
        return self

    def up(self, ms_later: int = 15_000) -> Net:
        """Started, and given the time to elect, register and be unfenced."""
        self.start()
        self.advance(ms_later)
        return self

    def crash(self, node_id: int) -> None:
        """The process ends; its files stay, and requests to it fail."""
        node = self.nodes.pop(node_id)
        self.disks[node_id].crash()
        self._lose([token for token, (asker, send) in self._asked.items() if node_id == send.peer or asker is node])

    def restart(self, node_id: int) -> None:
        if node_id in self.nodes:
            self.crash(node_id)
        self.start(node_id)
        self.run()

    def shut_down(self, node_id: int) -> None:
        self._queue.append((self.nodes[node_id], sansio.Shutdown()))
        self.run()

    # --- time and the network ----------------------------------------------------------------------------------------

    def run(self) -> None:
        while self._queue:
            node, event = self._queue.popleft()
            if self.nodes.get(node.id) is node:
                self.carry_out(node, node.step(event, self.now))

    def advance(self, by_ms: int) -> None:
        end = self.now + by_ms
        while True:
            self.run()
            due = [(at, n) for n, node in self.nodes.items() if (at := node.next_deadline()) is not None]
            at, node_id = min(due, default=(end, 0))
            if at >= end:
                break
            # A deadline that a node asks for again at once would stop time.
            self.now = max(self.now + 1, at) if at <= self.now else at
            self._queue.append((self.nodes[node_id], sansio.Timer()))
        self.now = end

    def step(self, node_id: int, event: sansio.Event) -> list[sansio.Effect]:
        """One step by hand; its effects are returned and not carried out."""
        return self.nodes[node_id].step(event, self.now)

    def step_for_response(self, node_id: int, event: sansio.Event) -> Any:
        """One step by hand whose only effect is a reply: the response in it."""
        (reply,) = self.step(node_id, event)
        assert isinstance(reply, sansio.Reply)
        return reply.response

    def ask(self, node_id: int, request: Any, client: sansio.Client = sansio.UNKNOWN_CLIENT) -> int:
        """A client's request, delivered with all that follows; `answers` has the answer under the token returned."""
        token = self.new_token()
        self._queue.append((self.nodes[node_id], sansio.Request(token, request, client)))
        self.run()
        return token

    def new_token(self) -> int:
        """For a request that is delivered by `step`."""
        self._tokens += 1
        return self._tokens

    def answered(self, node_id: int, request: Any, client: sansio.Client = sansio.UNKNOWN_CLIENT) -> Any:
        return self.answers[self.ask(node_id, request, client)]

    def cut(self, node_id: int) -> None:
        """Separate the node from the others; requests that wait across the cut fail."""
        self.cut_off.append(node_id)
        self._lose([token for token, (node, send) in self._asked.items() if self._apart(node.id, send.peer)])
        self.run()

    def _lose(self, tokens: list[int]) -> None:
        self._lost += tokens
        self._queue.extend((node, sansio.Response(send, None)) for node, send in map(self._asked.pop, tokens))

    def mend(self) -> None:
        self.cut_off = []

    def _apart(self, one: int, other: int) -> bool:
        return one != other and (one in self.cut_off or other in self.cut_off)

    def release(self) -> None:
        """What was kept back goes on its way."""
        self.hold, held = [], self.held
        self.held = []
        for sender, send in held:
            if sender in self.nodes:
                self._send(self.nodes[sender], send)
        self.run()

    def release_disks(self) -> None:
        self.slow_disks, syncs = [], self.syncs
        self.syncs = []
        for node_id, sync in syncs:
            self._synced(self.nodes[node_id], sync)
        self.run()

    def kinds(self, node_id: int) -> list[str]:
        return [note.kind for at, note in self.notes if at == node_id]

    # --- effects -----------------------------------------------------------------------------------------------------

    def carry_out(self, node: Node, effects: list[sansio.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, sansio.Send):
                self._send(node, effect)
            elif isinstance(effect, sansio.Reply):
                self._reply(effect)
            elif isinstance(effect, sansio.HangUp):
                self._hang_up(effect)
            elif isinstance(effect, sansio.Sync):
                self._sync(node, effect)
            elif isinstance(effect, sansio.WriteFile):
                self.files.append((node.id, effect.path))
                write_atomically(self.disks[node.id], effect.path, effect.data)
            elif isinstance(effect, sansio.Stop):
                self.stops[node.id] = effect
                self.crash(node.id)
            elif isinstance(effect, sansio.Note):
                self.notes.append((node.id, effect))

    def _send(self, node: Node, send: sansio.Send) -> None:
        if (node.id, send.channel) in self.hold:
            self.held.append((node.id, send))
        elif send.peer not in self.nodes or self._apart(node.id, send.peer):
            self._queue.append((node, sansio.Response(send, None)))
        else:
            self._tokens += 1
            self._asked[self._tokens] = (node, send)
            client = sansio.UNKNOWN_CLIENT if send.peer == node.id else self.clients.get(node.id, sansio.UNKNOWN_CLIENT)
            self._queue.append((self.nodes[send.peer], sansio.Request(self._tokens, send.request, client)))

    def _reply(self, effect: sansio.Reply) -> None:
        asker = self._asked.pop(effect.token, None)
        if effect.token in self._lost:
            return
        if asker is None:
            assert effect.token not in self.answers, "a second answer to one request"
            self.answers[effect.token] = effect.response
        else:
            self._queue.append((asker[0], sansio.Response(asker[1], effect.response)))

    def _hang_up(self, effect: sansio.HangUp) -> None:
        asker = self._asked.pop(effect.token, None)
        if asker is None:
            self.hang_ups[effect.token] = effect
        else:
            self._queue.append((asker[0], sansio.Response(asker[1], None)))

    def _sync(self, node: Node, sync: sansio.Sync) -> None:
        if node.id in self.slow_disks:
            self.syncs.append((node.id, sync))
        else:
            self._synced(node, sync)

    def _synced(self, node: Node, sync: sansio.Sync) -> None:
        sync.job.run()
        self._queue.append((node, sansio.Synced(sync)))

    # --- what tests ask for ------------------------------------------------------------------------------------------

    def create(self, name: str, replicas: tuple[int, ...] = (1,), partitions: int = 1, **configs: str) -> Partition:
        response = self.answered(min(self.nodes), create_request(name, replicas, partitions, **configs))
        assert [topic.error_code.name for topic in response.topics] == ["none"]
        self.advance(2_000)  # a follower that heard of it before its leader backs off for a while
        return self.partition(name)

    def partition(self, name: str, node_id: int | None = None) -> Partition:
        partition = self.nodes[min(self.nodes) if node_id is None else node_id].image.find(name, 0)
        assert partition is not None
        return partition

    def replica(self, name: str, node_id: int = 1) -> Replica:
        return self.broker(node_id).replicas.replicas[self.partition(name, node_id).key]

    def log(self, name: str, node_id: int = 1) -> Log:
        return self.replica(name, node_id).log

    def delete(self, name: str, node_id: int = 1) -> None:
        self.answered(node_id, delete_request(name))

    def produce(self, node_id: int, name: str, value: bytes = b"v", acks: int = -1) -> int:
        return self.ask(node_id, produce_request(self.partition(name, node_id), value, acks))


def three_brokers(**fields: Any) -> Net:
    """One controller with a broker in it (1), and two brokers."""
    brokers = (config(node_id, roles=(BROKER,), **fields) for node_id in (2, 3))
    return Net(config(1, **fields), *brokers)


def three_voters(**fields: Any) -> Net:
    voters = (1, 2, 3)
    return Net(*(config(node_id, voters=voters, **fields) for node_id in voters))


def create_request(name: str, replicas: tuple[int, ...] = (1,), partitions: int = 1, **configs: str) -> Any:
    assignments = tuple(
        create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
        for index in range(partitions)
    )
    entries = tuple(
        create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    )
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=entries
    )
    return create_topics.CreateTopicsRequest(topics=(topic,), timeout=ms(1_000), validate_only=False)


def delete_request(name: str) -> Any:
    state = delete_topics.DeleteTopicState(name=name, topic_id=None)
    return delete_topics.DeleteTopicsRequest(topics=(state,), timeout=ms(1_000))


def config_request(topic: str, key: str, value: str) -> Any:
    change = incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=topic, configs=(change,))
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def describe_configs_of(net: Net, kind: int, name: str, *keys: str, node_id: int = 1) -> Any:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    request = describe_configs.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=True, include_documentation=True
    )
    return net.answered(node_id, request).results[0]


def produce_request(partition: Partition, value: bytes = b"v", acks: int = -1) -> Any:
    data = bytes(batch.build([batch.NewRecord(None, value)], timestamp_ms=1_000))
    line = produce.PartitionProduceData(index=partition.index, records=data)
    topic = produce.TopicProduceData(topic_id=partition.topic_id, partition_data=(line,))
    return produce.ProduceRequest(acks=acks, timeout=ms(5_000), topic_data=(topic,))


def fetch_request(partition: Partition, max_wait: int = 0) -> Any:
    line = fetch.FetchPartition(partition=partition.index, fetch_offset=0, partition_max_bytes=1 << 20)
    return fetch.FetchRequest(
        max_wait=ms(max_wait),
        min_bytes=1,
        session_epoch=-1,
        topics=(fetch.FetchTopic(topic_id=partition.topic_id, partitions=(line,)),),
        forgotten_topics_data=(),
    )


def metadata_request(*names: str, topic_ids: tuple[Any, ...] = (), every: bool = False) -> Any:
    topics = [metadata.MetadataRequestTopic(topic_id=None, name=name) for name in names]
    topics += [metadata.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
    return metadata.MetadataRequest(
        topics=None if every else tuple(topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
