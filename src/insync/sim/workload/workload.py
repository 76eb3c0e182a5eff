"""The clients of a plan, each with its own place on the network and its own random numbers."""

from __future__ import annotations

import random

from insync.properties.history import History
from insync.sim.engine.network import Network
from insync.sim.plans.plan import ClientPlan, Plan
from insync.sim.workload.client import Client
from insync.sim.workload.consumer import Consumer, Lister
from insync.sim.workload.producer import Producer


class Workload:
    """All clients together; `stop` lets them finish what they began and begin nothing new."""

    def __init__(self, plan: Plan, network: Network, history: History) -> None:
        self.producers: list[Producer] = []
        self.readers: list[Consumer | Lister] = []
        stamped = tuple(t.name for t in plan.topics if ("message.timestamp.type", "LogAppendTime") in t.configs)
        for each in plan.clients:
            client = _client(plan, each, network)
            if each.kind == "producer":
                self.producers.append(Producer(client, each, history, plan.topic_names, stamped))
            else:
                reader = Consumer if each.kind == "consumer" else Lister
                self.readers.append(reader(client, each, history, plan.topic_names))

    def start(self) -> None:
        for producer in self.producers:
            producer.start()
        for reader in self.readers:
            reader.start()

    def stop(self) -> None:
        for client in [p.client for p in self.producers] + [r.client for r in self.readers]:
            client.active = False

    @property
    def unanswered(self) -> int:
        return sum(producer.unanswered for producer in self.producers)


def _client(plan: Plan, each: ClientPlan, network: Network) -> Client:
    rng = random.Random(f"client {plan.seed} {each.client_id}")
    return Client(each.client_id, network, rng, plan.brokers, plan.timing.request_ms)
