"""Conditions on the state of a cluster, as `until` and `expect` state them.

answer A=none cancel=...         the result of the batch that begins with A, or of an operator's step
node 2 state=running fenced=false epoch=30
quorum leader=102 epoch=3
t-0 leader=2 isr=2,3 elr= lkelr= adding= removing= replicas= leader_epoch= partition_epoch= recovering=
t-0 leo=4 hwm=4                  of the leader;  leo.2=4 hwm.2=4 of replica 2
t-0 role.2=follower epoch.2=1 isr.1=1,2 maximal.1=1,2,3 log.2=A@0,B@0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from insync.metadata.partition import NO_LEADER, Partition
from insync.sim.driver import ClusterDriver, InvalidOperationError
from insync.sim.narration.picture import leader_name
from insync.sim.narration.views import snapshot_replica

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


@dataclass(frozen=True, slots=True)
class Condition:
    """`subject` is a partition ("t-0"), a node ("node 2"), "quorum" or "answer"."""

    subject: str
    values: Mapping[str, str]

    def holds(self, driver: ClusterDriver) -> bool:
        return next(self.differences(driver), None) is None

    def differences(self, driver: ClusterDriver) -> Iterator[tuple[str, str, str]]:
        """(name, wanted value, actual value) of each value that is not as wanted."""
        for name, wanted in self.values.items():
            actual = _read_value(driver, self.subject, name)
            if actual != wanted:
                yield name, wanted, actual


def parse_condition(words: list[str]) -> Condition:
    """SUBJECT NAME=VALUE..., such as t-0 leader=2 isr=2,3."""
    if not words:
        raise InvalidOperationError("a condition is SUBJECT NAME=VALUE, such as: t-0 leader=2")
    size = 2 if words[0] == "node" else 1
    subject, pairs = " ".join(words[:size]), words[size:]
    for pair in pairs:
        if "=" not in pair:
            raise InvalidOperationError(f"'{pair}' should be name=value")
    if not pairs:
        raise InvalidOperationError(f"the value of {subject} is missing. Write: {subject} name=value")
    return Condition(subject, dict(pair.split("=", 1) for pair in pairs))


def _read_value(driver: ClusterDriver, subject: str, name: str) -> str:
    if subject == "answer":
        return driver.answers.get(name, NOTHING)
    if subject == "quorum":
        return _quorum_value(driver, name)
    if subject.startswith("node "):
        return _node_value(driver, driver.node_id(subject.removeprefix("node ")), name)
    partition = driver.find_partition(subject)
    return NOTHING if partition is None else _partition_value(driver, partition, name)


def _quorum_value(driver: ClusterDriver, name: str) -> str:
    controller = driver.world.faults.active_controller()
    if controller is None:
        return "none"
    quorum = driver.running_node(controller).quorum
    return _look_up(name, {"leader": controller, "epoch": quorum.epoch, "hwm": quorum.hwm})


def _node_value(driver: ClusterDriver, node_id: int, name: str) -> str:
    node = driver.world.cluster.node(node_id)
    broker = driver.registrations().get(node_id)
    values = {"state": "down" if node is None else "running"}
    if node is not None and node.lifecycle:
        values["state"] = node.lifecycle.state
    values["fenced"] = NOTHING if broker is None else str(broker.fenced).lower()
    values["epoch"] = NOTHING if broker is None else str(broker.epoch)
    return _look_up(name, values)


def _partition_value(driver: ClusterDriver, partition: Partition, name: str) -> str:
    field, dot, broker = name.partition(".")
    if dot:
        return _replica_value(driver, partition, field, driver.node_id(broker))
    if field in ("leo", "hwm"):
        return "none" if partition.leader == NO_LEADER else _replica_value(driver, partition, field, partition.leader)
    if field == "leader":
        return leader_name(partition)
    if field not in FIELDS:
        known = f"{', '.join(FIELDS)}, leo, hwm; of a replica: {_replica_field_names()}"
        raise InvalidOperationError(f"a partition has no '{field}'. Known: {known}")
    value = getattr(partition, "last_known_elr" if field == "lkelr" else field)
    if isinstance(value, tuple):
        return ",".join(map(str, value if field == "replicas" else sorted(value)))
    return str(value).lower()


def _replica_value(driver: ClusterDriver, partition: Partition, field: str, broker: int) -> str:
    if field not in REPLICA_FIELDS:
        raise InvalidOperationError(f"a replica has no '{field}'. Known: {_replica_field_names()}")
    replica = snapshot_replica(driver.world.cluster, partition, broker, with_records=field == "log")
    if replica.leo is None:
        return NOTHING
    if field == "log":
        return ",".join(f"{record.text}@{record.leader_epoch}" for record in replica.records)
    if field in ("isr", "maximal"):
        members = replica.isr if field == "isr" else replica.maximal_isr
        return "none" if members is None else ",".join(map(str, members))
    return str(replica.leader_epoch if field == "epoch" else getattr(replica, field))


def _replica_field_names() -> str:
    return ", ".join(f"{field}.NODE" for field in REPLICA_FIELDS)


def _look_up(name: str, values: Mapping[str, object]) -> str:
    if name not in values:
        raise InvalidOperationError(f"there is no '{name}' here. Known: {', '.join(values)}")
    return str(values[name])
