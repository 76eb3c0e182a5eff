"""What `until` and `expect` can ask about, as text.

answer A=none cancel=...         what the client was told of the batch that began with A, or the operator of a step
node 2 state=running fenced=false epoch=30
quorum leader=102 epoch=3
t-0 leader=2 isr=2,3 elr= lkelr= adding= removing= replicas= leader_epoch= partition_epoch= recovering=
t-0 leo=4 hwm=4                  of the leader;  leo.2=4 hwm.2=4 of replica 2
t-0 role.2=follower epoch.2=1 isr.1=1,2 maximal.1=1,2,3 log.2=A@0,B@0
"""

from __future__ import annotations

from collections.abc import Mapping

from insync.metadata.partition import NO_LEADER, Partition
from insync.replication.leader import leader_of
from insync.sim.narration import picture
from insync.sim.scenario.stage import Stage, StepError

FIELDS = (
    "leader",
    "isr",
    "elr",
    "lkelr",
    "adding",
    "removing",
    "replicas",
    "leader_epoch",
    "partition_epoch",
    "recovering",
)
REPLICA_FIELDS = ("leo", "hwm", "role", "epoch", "isr", "maximal", "log")
NOTHING = "nothing"


def value(stage: Stage, subject: list[str], key: str) -> str:
    kind = subject[0]
    if kind == "answer":
        return stage.answers.get(key, NOTHING)
    if kind == "quorum":
        return _quorum_value(stage, key)
    if kind == "node":
        return _node_value(stage, stage.node_id(subject[1]), key)
    partition = stage.find(kind)
    return NOTHING if partition is None else _partition_value(stage, partition, key)


def _quorum_value(stage: Stage, key: str) -> str:
    controller = stage.world.faults.active_controller()
    if controller is None:
        return "none"
    quorum = stage.running(controller).quorum
    return _one_of(key, {"leader": controller, "epoch": quorum.epoch, "hwm": quorum.hwm})


def _node_value(stage: Stage, node_id: int, key: str) -> str:
    node = stage.world.cluster.node(node_id)
    broker = stage.brokers().get(node_id)
    known = {"state": "down" if node is None else "running"}
    if node is not None and node.lifecycle:
        known["state"] = node.lifecycle.state
    known["fenced"] = NOTHING if broker is None else str(broker.fenced).lower()
    known["epoch"] = NOTHING if broker is None else str(broker.epoch)
    return _one_of(key, known)


def _partition_value(stage: Stage, partition: Partition, key: str) -> str:
    field, dot, broker = key.partition(".")
    if dot:
        return _replica_value(stage, partition, field, stage.node_id(broker))
    if field in ("leo", "hwm"):
        return "none" if partition.leader == NO_LEADER else _replica_value(stage, partition, field, partition.leader)
    if field == "leader":
        return picture.leader_name(partition)
    if field not in FIELDS:
        raise StepError(
            f"a partition has no '{field}'. Known: {', '.join(FIELDS)}, leo, hwm; of a replica: {_dotted()}"
        )
    found = getattr(partition, "last_known_elr" if field == "lkelr" else field)
    if isinstance(found, tuple):
        return ",".join(map(str, found if field == "replicas" else sorted(found)))
    return str(found).lower()


def _replica_value(stage: Stage, partition: Partition, field: str, broker: int) -> str:
    if field not in REPLICA_FIELDS:
        raise StepError(f"a replica has no '{field}'. Known: {_dotted()}")
    replica = picture.replica_of(stage.world.cluster, partition, broker)
    if replica is None:
        return NOTHING
    if field in ("leo", "hwm"):
        return str(getattr(replica.log, field))
    if field == "role":
        return type(replica.role).__name__.lower()
    if field == "epoch":
        return str(replica.partition.leader_epoch)
    if field == "log":
        records = picture.log_records(stage.world.cluster, partition, broker) or []
        return ",".join(f"{value}@{epoch}" for _, value, epoch in records)
    leader = leader_of(replica)
    if leader is None:
        return "none"
    members = leader.isr_state.isr if field == "isr" else leader.isr_state.maximal_isr
    return ",".join(map(str, sorted(members)))


def _dotted() -> str:
    return ", ".join(f"{field}.NODE" for field in REPLICA_FIELDS)


def _one_of(key: str, known: Mapping[str, object]) -> str:
    if key not in known:
        raise StepError(f"there is no '{key}' here. Known: {', '.join(known)}")
    return str(known[key])
