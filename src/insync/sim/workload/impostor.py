"""A client without the right CLUSTER_ACTION that sends what only nodes may send (A4).

It knows everything that would make it believable: broker epochs, the ids of fetch sessions, the state of the quorum.
"""

from __future__ import annotations

from typing import Any

from insync.quorum import messages as quorum_messages
from insync.quorum.messages import OffsetAndEpoch
from insync.sansio import Message
from insync.sim.engine.cluster import Cluster
from insync.sim.engine.principals import OPERATOR
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client
from insync.wire import codec
from insync.wire.forwarded_client import encode_address, encode_principal
from insync.wire.messages import alter_partition, broker_heartbeat, delete_topics, envelope, fetch
from insync.wire.types import ms

CLIENT_ID = "impostor"
HOST = "10.0.0.1"


class Impostor:
    def __init__(self, client: Client, plan: ClientPlan, cluster: Cluster, voters: tuple[int, ...]) -> None:
        self.client = client
        self._every_ms = plan.every_ms
        self._cluster = cluster
        self._voters = voters
        self._attacks = (
            self._fetch_as_follower,
            self._continue_session,
            self._shrink_isr,
            self._fence_broker,
            self._vote,
            self._begin_epoch,
            self._end_epoch,
            self._wrap,
        )

    def start(self) -> None:
        if self.client.active:
            self.client.later(self._every_ms, self.start)
            attack = self.client.rng.choice(self._attacks)
            sent = attack()
            if sent is not None:
                self.client.ask(*sent, lambda _response, _now: None)

    # --- as a broker -------------------------------------------------------------------------------------------------

    def _fetch_as_follower(self) -> tuple[int, Message] | None:
        """As if the follower had more than the leader: a leader that believes it advances its HWM."""
        leader = self._pick_partition()
        if leader is None:
            return None
        node, partition = leader
        followers = [broker for broker in partition.replicas if broker != node.id] or [node.id]
        follower = self.client.rng.choice(followers)
        asked = fetch.FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=node.replicas.replicas[partition.key].log.leo,
            last_fetched_epoch=-1,
            log_start_offset=0,
            partition_max_bytes=2_000,
        )
        topics = (fetch.FetchTopic(topic_id=partition.topic_id, partitions=(asked,)),)
        return node.id, _fetch_request(follower, _broker_epoch(node, follower), topics)

    def _continue_session(self) -> tuple[int, Message] | None:
        """Of a follower, by its id and epoch."""
        node = self._pick_node()
        sessions = [] if node is None or node.replicas is None else list(node.replicas.sessions)
        if node is None or not sessions:
            return None
        session = self.client.rng.choice(sessions)
        return node.id, _fetch_request(-1, session.replica_epoch, (), session.id, session.epoch)

    def _shrink_isr(self) -> tuple[int, Message] | None:
        leader = self._pick_partition()
        if leader is None:
            return None
        node, partition = leader
        change = alter_partition.RequestPartition(
            partition_index=partition.index,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=(
                alter_partition.BrokerState(broker_id=node.id, broker_epoch=_broker_epoch(node, node.id)),
            ),
            leader_recovery_state=0,
            partition_epoch=partition.partition_epoch,
        )
        topics = (alter_partition.RequestTopic(topic_id=partition.topic_id, partitions=(change,)),)
        request = alter_partition.AlterPartitionRequest(
            broker_id=node.id, broker_epoch=_broker_epoch(node, node.id), topics=topics
        )
        return self._pick_voter(), request

    def _fence_broker(self) -> tuple[int, Message] | None:
        broker = self.client.rng.choice(self.client.brokers)
        node = self._pick_node()
        if node is None:
            return None
        request = broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=_broker_epoch(node, broker),
            current_metadata_offset=node.image.offset,
            want_fence=True,
            want_shut_down=True,
        )
        return self._pick_voter(), request

    def _wrap(self) -> tuple[int, Message] | None:
        """A request of the operator, as if a broker forwarded it."""
        node = self._pick_node()
        if node is None or not node.image.topic_ids:
            return None
        name = self.client.rng.choice(list(node.image.topic_ids))
        topic = delete_topics.DeleteTopicState(name=name, topic_id=None)
        inner = delete_topics.DeleteTopicsRequest(topics=(topic,), timeout=ms(1_000))
        request = envelope.EnvelopeRequest(
            request_data=codec.encode_request(inner, 0, CLIENT_ID),
            request_principal=encode_principal(OPERATOR),
            client_host_address=encode_address(HOST),
        )
        return self._pick_voter(), request

    # --- as a voter --------------------------------------------------------------------------------------------------

    def _vote(self) -> tuple[int, Message] | None:
        voter = self._pick_voter()
        node = self._cluster.node(voter)
        if node is None:
            return None
        log_end = OffsetAndEpoch(1_000_000, node.quorum.epoch)
        candidate = self.client.rng.choice(self._voters)
        return voter, quorum_messages.vote_request(
            node.config.cluster_id, voter, candidate, node.quorum.epoch + 1, log_end, pre_vote=False
        )

    def _begin_epoch(self) -> tuple[int, Message] | None:
        voter = self._pick_voter()
        node, leader = self._cluster.node(voter), self.client.rng.choice(self._voters)
        if node is None:
            return None
        return voter, quorum_messages.begin_request(node.config.cluster_id, voter, leader, node.quorum.epoch + 1)

    def _end_epoch(self) -> tuple[int, Message] | None:
        voter = self._pick_voter()
        node = self._cluster.node(voter)
        if node is None or node.quorum.leader_id < 0:
            return None
        quorum = node.quorum
        return voter, quorum_messages.end_request(node.config.cluster_id, quorum.leader_id, quorum.epoch, (voter,))

    # --- what it knows -----------------------------------------------------------------------------------------------

    def _pick_node(self) -> Any:
        nodes = self._cluster.nodes()
        return self.client.rng.choice(nodes) if nodes else None

    def _pick_voter(self) -> int:
        return self.client.rng.choice(self._voters)

    def _pick_partition(self) -> tuple[Any, Any] | None:
        """A partition that a running broker leads, by its own metadata."""
        led = [
            (node, partition)
            for node in self._cluster.nodes()
            if node.replicas is not None
            for partition in node.image.partitions_of(node.id)
            if partition.leader == node.id and partition.key in node.replicas.replicas
        ]
        return self.client.rng.choice(led) if led else None


def _broker_epoch(node: Any, broker: int) -> int:
    known = node.image.brokers.get(broker)
    return -1 if known is None else int(known.epoch)


def _fetch_request(
    replica: int, replica_epoch: int, topics: tuple[Any, ...], session_id: int = 0, session_epoch: int = -1
) -> Message:
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=replica, replica_epoch=replica_epoch),
        max_wait=ms(0),
        min_bytes=0,
        max_bytes=8_000,
        isolation_level=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=(),
    )
