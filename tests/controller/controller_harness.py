"""A controller with a metadata log in memory: every decision is encoded, decoded and replayed at once."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from insync.controller.config import ControllerConfig
from insync.controller.controller import Controller
from insync.controller.decision import Decision, Slices
from insync.metadata.image import Image
from insync.metadata.partition import Partition
from insync.metadata.snapshot import to_records
from insync.node.controller_apis import CONTROLLER_APIS
from insync.sansio import Note, Outbox, Send
from insync.wire import metadata_records
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    alter_partition,
    alter_partition_reassignments,
    broker_heartbeat,
    broker_registration,
    create_topics,
    elect_leaders,
    get_replica_log_info,
    incremental_alter_configs,
)
from insync.wire.types import ZERO_UUID, ms

CLUSTER = "test-cluster"
TOPIC, BROKER = 2, 4


class Cluster:
    def __init__(self, *, has_authorizer: bool = False, **config: Any) -> None:
        config.setdefault("rebalance_interval_ms", 0)
        self.out = Outbox()
        self.log: list[Any] = []
        self.decisions: list[Decision] = []
        self.by_slice = False
        self.slices: list[Slices] = []
        self.now = 1_000
        self.controller = Controller(
            ControllerConfig(cluster_id=CLUSTER, **config),
            random.Random(7),
            self.out,
            self.submit,
            has_authorizer=has_authorizer,
        )
        self.controller.activate(Image(), 1, self.now)

    # --- the node's part ---------------------------------------------------------------------------------------------

    def submit(self, change: Decision | Slices, now: int) -> Any:
        """Carry out all slices, or with `by_slice` only the first; returns the response of the last."""
        response = None
        slices = iter([change]) if isinstance(change, Decision) else change
        for decision in slices:
            self._carry_out(decision)
            response = decision.response
            if decision.rest is not None and self.by_slice:
                self.slices.append(decision.rest)
            elif decision.rest is not None:
                self.submit(decision.rest, now)
            if self.by_slice and response is None:
                self.slices.append(slices)
                break
        return response

    def append(self, *made: metadata_records.MetadataRecord) -> None:
        self._carry_out(Decision(records=made))

    def next_slice(self) -> Any:
        """Carry out one slice of the oldest change; returns the response with the last slice."""
        self.controller.state.next_offset = len(self.log)
        return self.submit(self.slices.pop(0), self.now)

    def _carry_out(self, decision: Decision) -> None:
        self.decisions.append(decision)
        for record in decision.records:
            decoded = metadata_records.decode(metadata_records.encode(record))
            assert decoded == record
            self.log.append(record)
            self.controller.replay(decoded, len(self.log) - 1)

    def handle(self, api: str, request: Any) -> Any:
        self.controller.state.next_offset = len(self.log)
        return self.submit(CONTROLLER_APIS[api].decide(self.controller.state, request, self.now), self.now)

    def tick(self, after: int = 0) -> None:
        self.now += after
        self.controller.state.next_offset = len(self.log)
        self.controller.tick(self.now)

    def is_due(self) -> bool:
        """The controller asks to be called now."""
        deadline = self.controller.next_deadline()
        return deadline is not None and deadline <= self.now

    def fail_over(self, *, from_snapshot: bool = False) -> None:
        """Another controller takes over with the log, or with a snapshot of it."""
        image = Image()
        for offset, record in enumerate(self.log):
            image.apply(record, offset)
        if from_snapshot:
            whole, image = image, Image()
            for record in to_records(whole):
                image.apply(record, whole.offset)
            image.snapshot_end = whole.offset
        self.controller.deactivate()
        self.slices.clear()
        self.controller.activate(image, self.controller.epoch + 1, self.now)

    @property
    def image(self) -> Image:
        return self.controller.state.image

    # --- brokers -----------------------------------------------------------------------------------------------------

    def register(self, broker: int, *, clean: bool = False, previous: int | None = None, incarnation: int = 0) -> Any:
        if previous is None:
            previous = self.image.brokers[broker].epoch if clean else -1
        return self.handle(
            "broker_registration",
            broker_registration.BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id=CLUSTER,
                incarnation_id=UUID(int=incarnation or 1_000_000 * broker + len(self.log) + 1),
                listeners=(),
                features=(),
                rack=None,
                log_dirs=(UUID(int=77 + broker),),
                previous_broker_epoch=previous,
            ),
        )

    def beat(
        self,
        broker: int,
        *,
        offset: int | None = None,
        fence: bool = False,
        stop: bool = False,
        epoch: int | None = None,
    ) -> Any:
        known = self.image.brokers.get(broker)
        return self.handle(
            "broker_heartbeat",
            broker_heartbeat.BrokerHeartbeatRequest(
                broker_id=broker,
                broker_epoch=(known.epoch if known else -1) if epoch is None else epoch,
                current_metadata_offset=len(self.log) - 1 if offset is None else offset,
                want_fence=fence,
                want_shut_down=stop,
            ),
        )

    def up(self, *brokers: int) -> Cluster:
        for broker in brokers:
            self.register(broker)
            self.beat(broker)
        return self

    def fence(self, *brokers: int) -> None:
        for broker in brokers:
            self.beat(broker, fence=True)

    def restart(self, broker: int, *, clean: bool) -> None:
        """Fence the broker, register it again, unfence it."""
        if not self.image.brokers[broker].fenced:
            self.fence(broker)
        self.register(broker, clean=clean)
        self.beat(broker)

    # --- topics ------------------------------------------------------------------------------------------------------

    def topic(self, replicas: tuple[int, ...], *, min_isr: int = 2, name: str = "t", **configs: str) -> Partition:
        values = {"min.insync.replicas": str(min_isr)} | {
            key.replace("_", "."): value for key, value in configs.items()
        }
        response = self.handle(
            "create_topics",
            create_topics.CreateTopicsRequest(
                topics=(
                    create_topics.CreatableTopic(
                        name=name,
                        num_partitions=-1,
                        replication_factor=-1,
                        assignments=(create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),),
                        configs=tuple(
                            create_topics.CreatableTopicConfig(name=key, value=value) for key, value in values.items()
                        ),
                    ),
                ),
            ),
        )
        assert response.topics[0].error_code is ErrorCode.none, response
        return self.partition(name)

    def partition(self, name: str = "t", index: int = 0) -> Partition:
        partition = self.image.find(name, index)
        assert partition is not None
        return partition

    def state(self, name: str = "t") -> tuple[int, set[int], set[int], set[int]]:
        """leader, ISR, ELR, last-known ELR"""
        partition = self.partition(name)
        return partition.leader, set(partition.isr), set(partition.elr), set(partition.last_known_elr)

    def alter(self, isr: tuple[int, ...], *, name: str = "t", **changes: Any) -> ErrorCode:
        """The current leader proposes an ISR; `changes` replace fields of the request."""
        partition = self.partition(name)
        sender = changes.get("sender", partition.leader)
        epochs = {member: self.image.brokers[member].epoch if member in self.image.brokers else -1 for member in isr}
        epochs |= changes.get("epochs", {})
        response = self.handle(
            "alter_partition",
            alter_partition.AlterPartitionRequest(
                broker_id=sender,
                broker_epoch=changes.get("broker_epoch", self.image.brokers[sender].epoch),
                topics=(
                    alter_partition.RequestTopic(
                        topic_id=changes.get("topic_id", partition.topic_id),
                        partitions=(
                            alter_partition.RequestPartition(
                                partition_index=changes.get("index", partition.index),
                                leader_epoch=changes.get("leader_epoch", partition.leader_epoch),
                                new_isr_with_epochs=tuple(
                                    alter_partition.BrokerState(broker_id=member, broker_epoch=epochs[member])
                                    for member in isr
                                ),
                                leader_recovery_state=changes.get("recovering", 0),
                                partition_epoch=changes.get("partition_epoch", partition.partition_epoch),
                            ),
                        ),
                    ),
                ),
            ),
        )
        error: ErrorCode = response.error_code
        if error is ErrorCode.none:
            error = response.topics[0].partitions[0].error_code
        return error

    def reassign(self, target: tuple[int, ...] | None, *, name: str = "t", any_factor: bool = True) -> ErrorCode:
        response = self.handle(
            "alter_partition_reassignments",
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                timeout=ms(1000),
                allow_replication_factor_change=any_factor,
                topics=(
                    alter_partition_reassignments.ReassignableTopic(
                        name=name,
                        partitions=(
                            alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=target),
                        ),
                    ),
                ),
            ),
        )
        error: ErrorCode = response.responses[0].partitions[0].error_code
        return error

    def elect(self, election_type: int, *, name: str = "t", index: int = 0) -> ErrorCode:
        response = self.handle(
            "elect_leaders",
            elect_leaders.ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=(elect_leaders.TopicPartitions(topic=name, partitions=(index,)),),
                timeout=ms(1000),
            ),
        )
        error: ErrorCode = response.replica_election_results[0].partition_result[0].error_code
        return error

    def configure(
        self, key: str, value: str | None, *, kind: int = TOPIC, name: str = "t", operation: int = 0, dry: bool = False
    ) -> ErrorCode:
        response = self.handle(
            "incremental_alter_configs",
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=(
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=(
                            incremental_alter_configs.AlterableConfig(
                                name=key, config_operation=operation, value=value
                            ),
                        ),
                    ),
                ),
                validate_only=dry,
            ),
        )
        error: ErrorCode = response.responses[0].error_code
        return error

    # --- what came out -----------------------------------------------------------------------------------------------

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [effect.fields for effect in self.out.effects if isinstance(effect, Note) and effect.kind == kind]

    def sends(self) -> dict[int, Send]:
        """The requests to replicas that have not been taken yet, by broker."""
        sends = [effect for effect in self.out.effects if isinstance(effect, Send)]
        self.out.effects = [effect for effect in self.out.effects if not isinstance(effect, Send)]
        return {send.peer: send for send in sends}

    def respond(
        self, send: Send, last_epoch: int, leo: int, *, broker_epoch: int | None = None, known: int = 99
    ) -> None:
        """The replica responds with the end of its log."""
        response = get_replica_log_info.GetReplicaLogInfoResponse(
            throttle_time=ms(0),
            broker_epoch=self.image.brokers[send.peer].epoch if broker_epoch is None else broker_epoch,
            truncated=False,
            topic_partition_log_info_list=tuple(
                get_replica_log_info.TopicPartitionLogInfo(
                    topic_id=topic.topic_id or ZERO_UUID,
                    partition_log_info=tuple(
                        get_replica_log_info.PartitionLogInfo(
                            partition=index,
                            last_written_leader_epoch=last_epoch,
                            current_leader_epoch=known,
                            log_end_offset=leo,
                            error_code=ErrorCode.none,
                        )
                        for index in topic.partitions
                    ),
                )
                for topic in send.request.topic_partitions
            ),
        )
        self.controller.state.next_offset = len(self.log)
        send.on_response(response, self.now)
