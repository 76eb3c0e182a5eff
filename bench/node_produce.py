"""CPU per produce request through `Node.step`, without sockets: one 16 KB batch per request.

python bench/node_produce.py [requests]

The aim is 60 us on the leader. `produce` is the step that takes the request in; `leader` is everything that the leader
does for it, so with followers also their fetches; `follower` is what one follower spends on fetching 16 KB. With ACLs
the leader has an authorizer with 10,000 of them, and the producer is allowed to write by one.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass

from common import Rig, produce_request, table, typical_us

from insync.node.config import AuthorizerConfig
from insync.sansio import Client, Request
from insync.security.acl import Acl, Operation, ResourceType
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import Disk
from insync.storage.posix import PosixDisk

AIM_US = 60
REQUESTS = 3_000
ACLS = 10_000
PRODUCER = Client(id="bench", host="/127.0.0.1", principal="User:bench", listener="CLIENTS", on_node_listener=False)


@dataclass(slots=True)
class Cost:
    produce: float
    leader: float
    follower: float


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    root = tempfile.mkdtemp(prefix="insync-bench-")
    rows: list[tuple[object, ...]] = []
    try:
        for kind in ("SimDisk", "PosixDisk"):
            for label, brokers, acks, window, acls in (
                ("RF=1 acks=1", 1, 1, 1, 0),
                ("RF=1 acks=1, ACLs", 1, 1, 1, ACLS),
                ("RF=1 acks=all", 1, -1, 1, 0),
                ("RF=3 acks=all, 1 in flight", 3, -1, 1, 0),
                ("RF=3 acks=all, 8 in flight", 3, -1, 8, 0),
            ):
                disks = [_disk(kind, f"{root}/{label}-{n}") for n in range(brokers)]
                cost = measure(disks, acks, window, requests, acls)
                row = (f"{kind}, {label}", cost.produce, cost.leader, cost.follower or "-", cost.leader / AIM_US)
                rows.append(row)
    finally:
        shutil.rmtree(root)
    table("us per 16 KB produce, first deciles", ("", "produce", "leader", "follower", f"leader / {AIM_US} us"), rows)


def measure(disks: list[Disk], acks: int, window: int, requests: int, acls: int = 0) -> Cost:
    """`window` requests arrive before the followers get their turn."""
    rig = Rig(disks, AuthorizerConfig() if acls else None)
    rig.advance(10_000)
    authorizer = rig.nodes[1].authorizer
    if authorizer is not None:
        for number in range(acls):
            authorizer.add(_permission(f"User:{number}", f"topic-{number}"))
        authorizer.add(_permission(PRODUCER.principal, "t"))
    brokers = tuple(rig.nodes)
    partition = rig.create_topic("t", brokers)
    if partition.isr != brokers or partition.leader != 1:
        raise SystemExit(f"the cluster did not come up: {partition}")
    request = produce_request(partition.topic_id, acks)
    took: list[float] = []
    leader: list[float] = []
    follower: list[float] = []
    for _ in range(requests // window):
        rig.spent.clear()
        took.extend(_produce(rig, request) for _ in range(window))
        rig.deliver_all()
        leader.append(rig.spent[1] / window)
        follower.append(rig.spent[2] / window)
    answered = sum(1 for answer in rig.answers.values() if type(answer).__name__ == "ProduceResponse")
    if answered != len(took):
        raise SystemExit(f"{len(took)} requests, {answered} answers")
    return Cost(typical_us(took), typical_us(leader), typical_us(follower))


def _produce(rig: Rig, request: object) -> float:
    """The leader's step alone; its effects are carried out later, by `deliver_all`."""
    node = rig.nodes[1]
    token = rig.new_token()
    began = time.perf_counter()
    effects = node.step(Request(token, request, PRODUCER), rig.now)
    took = time.perf_counter() - began
    rig.spent[1] += took
    rig.carry(1, effects)
    return took


def _permission(principal: str, topic: str) -> Acl:
    return Acl(resource_type=ResourceType.TOPIC, resource_name=topic, principal=principal, operation=Operation.WRITE)


def _disk(kind: str, path: str) -> Disk:
    return SimDisk() if kind == "SimDisk" else PosixDisk(path)


if __name__ == "__main__":
    main()
