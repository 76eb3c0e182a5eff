"""The clients of a plan, each with its own endpoint and its own random source."""

from __future__ import annotations

import random

from insync.properties.history import History
from insync.sim.engine.cluster import Cluster
from insync.sim.engine.network import Network
from insync.sim.plans.plan import ClientPlan, Plan
from insync.sim.workload.admin import Admin
from insync.sim.workload.client import Client
from insync.sim.workload.consumer import Consumer, Lister
from insync.sim.workload.group_member import GroupMember
from insync.sim.workload.impostor import Impostor
from insync.sim.workload.producer import Producer


class Workload:
    """All clients; after `stop` they finish what they started and start nothing new."""

    def __init__(self, plan: Plan, cluster: Cluster, history: History) -> None:
        self.producers: list[Producer] = []
        self.others: list[Consumer | Lister | Impostor | GroupMember | Admin] = []
        append_time_topics = tuple(
            t.name for t in plan.topics if ("message.timestamp.type", "LogAppendTime") in t.configs
        )
        partitions = tuple((topic.name, index) for topic in plan.topics for index in range(min(3, topic.partitions)))
        for client_plan in plan.clients:
            client = _build_client(plan, client_plan, cluster.network)
            if client_plan.kind == "producer":
                self.producers.append(Producer(client, client_plan, history, plan.topic_names, append_time_topics))
            elif client_plan.kind == "impostor":
                self.others.append(Impostor(client, client_plan, cluster, plan.voters))
            elif client_plan.kind == "member":
                self.others.append(GroupMember(client, client_plan, history.groups, partitions))
            elif client_plan.kind == "admin":
                self.others.append(Admin(client, client_plan, history, plan.topic_names, plan.voters))
            else:
                reader = Consumer if client_plan.kind == "consumer" else Lister
                self.others.append(reader(client, client_plan, history, plan.topic_names))

    def start(self) -> None:
        for producer in self.producers:
            producer.start()
        for other in self.others:
            other.start()

    def stop(self) -> None:
        for client in [p.client for p in self.producers] + [other.client for other in self.others]:
            client.active = False

    @property
    def unanswered(self) -> int:
        return sum(producer.unanswered for producer in self.producers)


def _build_client(plan: Plan, client_plan: ClientPlan, network: Network) -> Client:
    rng = random.Random(f"client {plan.seed} {client_plan.client_id}")
    return Client(client_plan.client_id, network, rng, plan.brokers, plan.timing.request_ms)
