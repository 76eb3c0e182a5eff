"""Large metadata changes: how long is the longest step of a node while one is decided, committed and applied?

python bench/metadata_steps.py [--partitions N,N,...] [--only CHANGE,...] [--profile]

Three voters that are only controllers and one broker that observes, all real nodes without sockets on simulated disks.
The brokers that hold the partitions only register and send heartbeats: replicas change their roles in steps of their
own (`node/broker_role.py`), which are not measured here. A row per change: steps, the longest step of the
controller, of another voter and of the observer in milliseconds of CPU time, and its event. Aim: no step above 50 ms.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

from common import table

from insync.controller.config import ControllerConfig
from insync.node import lifecycle
from insync.node.config import BROKER, CONTROLLER, NodeConfig
from insync.node.node import Node
from insync.sansio import Effect, Event, Message, Reply, Request, Response, Send, Sync, Synced, Timer, WriteFile
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import write_atomically
from insync.wire.messages import (
    alter_partition,
    alter_partition_reassignments,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    unregister_broker,
)
from insync.wire.types import ms

CLUSTER_ID = "insync-bench"
VOTERS = (1, 2, 3)
OBSERVER = 4
BROKERS = (11, 12, 13)
SPARE = 14
COUNTS = (1_000, 5_000, 10_000)
LIMIT_MS = 50.0


class GarbageCollectionTime:
    """The time of the garbage collector, which is not counted: the nodes share one heap, four times that of a node."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._began = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.spent += time.thread_time() - self._began


GC = GarbageCollectionTime()


class Stage:
    """The nodes, and brokers that only send requests to the controller."""

    def __init__(self, profile: cProfile.Profile | None) -> None:
        self.now = 1_000
        self.profile = profile
        self.disks = {node_id: SimDisk() for node_id in (*VOTERS, OBSERVER)}
        self.nodes: dict[int, Node] = {}
        self.answers: dict[int, Message] = {}
        self.longest: dict[int, tuple[float, str]] = {}
        self.steps = 0
        self.change = "start"
        self.epochs: dict[int, int] = {}
        self.alive: list[int] = []
        self.stopping: list[int] = []
        self._queue: deque[tuple[int, Event]] = deque()
        self._requests: dict[int, tuple[int, Send]] = {}
        self._tokens = 0
        for node_id in self.disks:
            self.start(node_id)
        self.wait(lambda: self.has_controller)
        for broker in BROKERS:
            self.register(broker)

    @property
    def controller(self) -> int:
        return next(n for n in VOTERS if n in self.nodes and self.nodes[n].controller_role.active)  # type: ignore[union-attr]

    @property
    def has_controller(self) -> bool:
        return any(node.controller_role and node.controller_role.active for node in self.nodes.values())

    @property
    def image(self) -> Any:
        return self.nodes[self.controller].image

    def start(self, node_id: int) -> None:
        def make() -> list[Effect]:
            config = NodeConfig(
                node_id=node_id,
                cluster_id=CLUSTER_ID,
                directory_id=UUID(int=node_id),
                voters=VOTERS,
                roles=(CONTROLLER,) if node_id in VOTERS else (BROKER,),
                controller=ControllerConfig(cluster_id=CLUSTER_ID, rebalance_interval_ms=0),
            )
            node = self.nodes[node_id] = Node(config, self.disks[node_id], random.Random(node_id), self.now)
            return node.start(self.now)

        self._run_timed(node_id, "start", make)

    def _run_timed(self, node_id: int, kind: str, act: Callable[[], list[Effect]]) -> None:
        if self.profile is not None:
            self.profile.enable()
        collected = GC.spent
        began = time.thread_time()
        effects = act()
        took = (time.thread_time() - began - GC.spent + collected) * 1e3
        if self.profile is not None:
            self.profile.disable()
        self.steps += 1
        self.longest[node_id] = max(self.longest.get(node_id, (0.0, "")), (took, kind))
        for effect in effects:
            self._carry_out(node_id, effect)

    def _carry_out(self, node_id: int, effect: Effect) -> None:
        if isinstance(effect, Send):
            if effect.channel == lifecycle.CHANNEL:
                return  # the observer never registers, so that no replicas are placed on it
            if effect.peer not in self.nodes:
                self._queue.append((node_id, Response(effect, None)))
                return
            self._tokens += 1
            self._requests[self._tokens] = (node_id, effect)
            self._queue.append((effect.peer, Request(self._tokens, effect.request)))
        elif isinstance(effect, Reply):
            sender = self._requests.pop(effect.token, None)
            if sender is None:
                self.answers[effect.token] = effect.response
            else:
                self._queue.append((sender[0], Response(sender[1], effect.response)))
        elif isinstance(effect, Sync):
            effect.job.run()
            self._queue.append((node_id, Synced(effect)))
        elif isinstance(effect, WriteFile):
            write_atomically(self.disks[node_id], effect.path, effect.data)

    def run(self) -> None:
        while self._queue:
            node_id, event = self._queue.popleft()
            if node_id in self.nodes:
                node = self.nodes[node_id]
                self._run_timed(node_id, _kind(event), lambda n=node, e=event: n.step(e, self.now))  # type: ignore[misc]

    def wait(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        """Let time pass, with heartbeats of the live brokers, until the condition holds."""
        end = self.now + limit_ms
        beat = self.now
        while True:
            self.run()
            if condition():
                return
            if self.now >= end:
                raise SystemExit(f"timed out: {self.change}")
            due = min((at, n) for n, node in self.nodes.items() if (at := node.next_deadline()) is not None)
            if due[0] > beat:
                self.now = max(self.now, beat)
                beat += 500
                for broker in self.alive if self.has_controller else ():
                    self.heartbeat(broker)
                continue
            self.now = max(self.now, due[0])
            self._queue.append((due[1], Timer()))

    def ask(self, request: Message) -> Message:
        token = self.send(request)
        self.wait(lambda: token in self.answers)
        return self.answers.pop(token)

    def send(self, request: Message, to: int | None = None) -> int:
        self._tokens += 1
        self._queue.append((self.controller if to is None else to, Request(self._tokens, request)))
        return self._tokens

    def register(self, broker: int, incarnation: int | None = None) -> None:
        request = broker_registration.BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=incarnation or broker),
            listeners=(broker_registration.Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
            features=(),
            rack=None,
            log_dirs=(UUID(int=broker),),
            previous_broker_epoch=-1,
        )
        answer = self.ask(request)
        if answer.error_code.name != "none":
            raise SystemExit(f"broker {broker} was refused: {answer.error_code.name}")
        self.epochs[broker] = answer.broker_epoch
        if broker not in self.alive:
            self.alive.append(broker)
        self.wait(lambda: not self.image.brokers[broker].fenced)

    def heartbeat(self, broker: int) -> None:
        self.send(
            broker_heartbeat.BrokerHeartbeatRequest(
                broker_id=broker,
                broker_epoch=self.epochs[broker],
                current_metadata_offset=self.image.offset,
                want_fence=False,
                want_shut_down=broker in self.stopping,
            )
        )

    def has_converged(self) -> bool:
        """Whether every node has applied the whole log."""
        end = self.nodes[self.controller].quorum.leo
        return all(node.metadata_loader.applied == end for node in self.nodes.values())


def _kind(event: Event) -> str:
    if isinstance(event, Request):
        return type(event.request).__name__.removesuffix("Request")
    if isinstance(event, Response):
        return type(event.send.request).__name__.removesuffix("Request") + " answer"
    return type(event).__name__


# --- the changes -----------------------------------------------------------------------------------------------------


def _topics(count: int, partitions: int = 1, prefix: str = "t") -> Message:
    return create_topics.CreateTopicsRequest(
        topics=tuple(
            create_topics.CreatableTopic(
                name=f"{prefix}-{number}", num_partitions=partitions, replication_factor=3, assignments=(), configs=()
            )
            for number in range(count)
        ),
        timeout=ms(60_000),
        validate_only=False,
    )


def _by_topic(stage: Stage) -> dict[str, list[Any]]:
    topics: dict[str, list[Any]] = {}
    for partition in stage.image.all_partitions():
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def _led_by(stage: Stage, broker: int) -> list[Any]:
    return [partition for partition in stage.image.partitions_of(broker) if partition.leader == broker]


def _one_topic(stage: Stage, count: int) -> None:
    stage.ask(_topics(1, count, "big"))


def _many_topics(stage: Stage, count: int) -> None:
    """One request from a client to the controller."""
    stage.ask(_topics(count))


def _through_broker(stage: Stage, count: int) -> None:
    token = stage.send(_topics(count, prefix="forwarded"), to=OBSERVER)
    stage.wait(lambda: token in stage.answers)


def _more_partitions(stage: Stage, count: int) -> None:
    present = len(_by_topic(stage)["big-0"])
    topic = create_partitions.CreatePartitionsTopic(name="big-0", count=present + count, assignments=None)
    request = create_partitions.CreatePartitionsRequest(topics=(topic,), timeout=ms(60_000), validate_only=False)
    stage.ask(request)


def _delete_others(stage: Stage) -> None:
    """Only the topics of the one large request stay."""
    names = tuple(
        delete_topics.DeleteTopicState(name=name, topic_id=None)
        for name in _by_topic(stage)
        if not name.startswith("t-")
    )
    stage.ask(delete_topics.DeleteTopicsRequest(topics=names, timeout=ms(60_000)))
    stage.wait(stage.has_converged)


def _configs(stage: Stage, count: int) -> None:
    change = incremental_alter_configs.AlterableConfig(name="min.insync.replicas", config_operation=0, value="2")
    resources = tuple(
        incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=(change,))
        for name in list(_by_topic(stage))[:count]
    )
    stage.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources, validate_only=False))


def _default_config(stage: Stage, count: int, value: str = "1") -> None:
    """E8: one record that affects the ELRs of all partitions."""
    change = incremental_alter_configs.AlterableConfig(name="min.insync.replicas", config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=4, resource_name="", configs=(change,))
    stage.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False))


def _fence(stage: Stage, count: int) -> None:
    stage.alive.remove(BROKERS[0])
    stage.wait(lambda: stage.image.brokers[BROKERS[0]].fenced)


def _return(stage: Stage, count: int) -> None:
    """It sends heartbeats again, with the same epoch."""
    stage.alive.append(BROKERS[0])
    stage.wait(lambda: not stage.image.brokers[BROKERS[0]].fenced)


def _expand(stage: Stage, count: int) -> None:
    """AlterPartition: each leader adds the broker to all of its ISRs."""
    epochs = stage.epochs
    for leader in BROKERS[1:]:
        topics: dict[UUID, list[Any]] = {}
        for partition in _led_by(stage, leader):
            members = tuple(
                alter_partition.BrokerState(broker_id=b, broker_epoch=epochs[b])
                for b in partition.replicas
                if b in partition.isr or b == BROKERS[0]
            )
            topics.setdefault(partition.topic_id, []).append(
                alter_partition.RequestPartition(
                    partition_index=partition.index,
                    leader_epoch=partition.leader_epoch,
                    new_isr_with_epochs=members,
                    leader_recovery_state=0,
                    partition_epoch=partition.partition_epoch,
                )
            )
        request = alter_partition.AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=epochs[leader],
            topics=tuple(
                alter_partition.RequestTopic(topic_id=topic_id, partitions=tuple(lines))
                for topic_id, lines in topics.items()
            ),
        )
        stage.ask(request)


def _elect(stage: Stage, count: int) -> None:
    stage.ask(elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout=ms(60_000)))


def _reassign(stage: Stage, count: int) -> None:
    stage.register(SPARE)
    stage.ask(
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout=ms(60_000),
            allow_replication_factor_change=True,
            topics=tuple(
                alter_partition_reassignments.ReassignableTopic(
                    name=name,
                    partitions=tuple(
                        alter_partition_reassignments.ReassignablePartition(
                            partition_index=p.index, replicas=(SPARE, *p.replicas[1:])
                        )
                        for p in partitions
                    ),
                )
                for name, partitions in _by_topic(stage).items()
            ),
        )
    )


def _shut_down(stage: Stage, count: int) -> None:
    stage.stopping.append(BROKERS[1])
    stage.wait(lambda: stage.image.brokers[BROKERS[1]].fenced)
    stage.alive.remove(BROKERS[1])
    stage.stopping.clear()


def _fence_last(stage: Stage, count: int) -> None:
    """Without a candidate every partition loses its leader."""
    for broker in (BROKERS[0], BROKERS[2], SPARE):
        stage.alive.remove(broker)
    stage.wait(lambda: all(broker.fenced for broker in stage.image.brokers.values()))


def _register_unclean(stage: Stage, count: int) -> None:
    stage.register(BROKERS[0], incarnation=100)


def _return_last(stage: Stage, count: int) -> None:
    """The partitions get a leader again."""
    stage.alive.append(BROKERS[2])
    stage.wait(lambda: len(_led_by(stage, BROKERS[2])) >= count)


def _unregister(stage: Stage, count: int) -> None:
    stage.alive.remove(BROKERS[2])
    stage.ask(unregister_broker.UnregisterBrokerRequest(broker_id=BROKERS[2]))


def _delete(stage: Stage, count: int) -> None:
    names = tuple(delete_topics.DeleteTopicState(name=name, topic_id=None) for name in _by_topic(stage))
    stage.ask(delete_topics.DeleteTopicsRequest(topics=names, timeout=ms(60_000)))


def _snapshot(stage: Stage, count: int) -> None:
    """Make a snapshot due after the next record."""
    for node in stage.nodes.values():
        node.metadata_loader._snapshot_records = 1
    _default_config(stage, count, "2")
    stage.wait(stage.has_converged)
    stage.wait(
        lambda: all(n.quorum._state.snapshots.latest is not None for n in stage.nodes.values())  # written
    )
    for node in stage.nodes.values():
        node.metadata_loader._snapshot_records = 1 << 60


def _change_controller(stage: Stage, count: int) -> None:
    old = stage.controller
    del stage.nodes[old]
    for token, (_, send) in list(stage._requests.items()):
        if send.peer == old:
            node_id, lost = stage._requests.pop(token)
            stage._queue.append((node_id, Response(lost, None)))
    stage.wait(lambda: stage.has_controller)
    stage.start(old)


CHANGES: dict[str, Callable[[Stage, int], None]] = {
    "create one topic": _one_topic,
    "add partitions to it": _more_partitions,
    "create topics, one request": _many_topics,
    "create topics through a broker": _through_broker,
    "alter configs of all topics": _configs,
    "alter the default MinISR": _default_config,
    "snapshot": _snapshot,
    "change of the controller, restart of the old": _change_controller,
    "fence a broker": _fence,
    "unfence it": _return,
    "add it to all ISRs": _expand,
    "elect preferred leaders": _elect,
    "reassign all": _reassign,
    "controlled shutdown": _shut_down,
    "fence all brokers": _fence_last,
    "register after an unclean stop": _register_unclean,
    "unfence a broker, elect": _return_last,
    "unregister a broker": _unregister,
    "delete all topics": _delete,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", default=",".join(map(str, COUNTS)))
    parser.add_argument("--only", default="", help="changes to measure; the others are made without measuring")
    parser.add_argument("--profile", action="store_true", help="print a profile")
    options = parser.parse_args()
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    for count in map(int, options.partitions.split(",")):
        measure(count, only, options.profile)


def measure(count: int, only: list[str], profiled: bool) -> None:
    stage = Stage(None)
    rows = []
    gc.collect()
    gc.freeze()
    for node in stage.nodes.values():
        node.metadata_loader._snapshot_records = 1 << 60
    for name, change in CHANGES.items():
        if only and name not in only:
            change(stage, count)
            stage.wait(stage.has_converged)
            if change is _through_broker:
                _delete_others(stage)
            continue
        stage.longest, stage.steps, stage.change = {}, 0, name
        leader = stage.controller
        stage.profile = cProfile.Profile() if profiled else None
        began = time.perf_counter()
        change(stage, count)
        stage.wait(stage.has_converged)
        seconds = time.perf_counter() - began
        others = [n for n in VOTERS if n != leader]
        slowest = max(stage.longest.values())
        cells = [round(stage.longest.get(n, (0.0, ""))[0], 1) for n in (leader, OBSERVER)]
        voter = round(max(stage.longest.get(n, (0.0, ""))[0] for n in others), 1)
        mark = "" if slowest[0] <= LIMIT_MS else "over"
        rows.append((name, stage.steps, seconds, cells[0], voter, cells[1], slowest[1], mark))
        if change is _through_broker:
            _delete_others(stage)
        if stage.profile is not None:
            print(f"--- {name}, {count:,} partitions")
            pstats.Stats(stage.profile).sort_stats("tottime").print_stats(18)
            stage.profile = None
    gc.unfreeze()
    columns = ("change", "steps", "seconds", "controller", "voter", "observer", "longest step", "")
    table(f"{count:,} partitions, longest step in ms", columns, rows)


if __name__ == "__main__":
    main()
