"""The operator: sends Kafka's admin requests to a random broker or controller until one succeeds or fails for good.

A response may be lost after the change was made; then a retry may fail because the change is done already, which is
just as good.
"""

from __future__ import annotations

import random
from typing import Any

from insync.metadata.partition import Partition
from insync.sansio import Message
from insync.security.acl import Acl, AclFilter, Operation, Permission, ResourceType
from insync.sim.engine.cluster import Cluster
from insync.sim.engine.principals import principal_of_client
from insync.sim.plans.plan import Action, TopicPlan
from insync.sim.workload.client import Client
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    alter_partition_reassignments,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    unregister_broker,
)
from insync.wire.types import ms

OPERATOR_ID = -1
RETRY_MS = 120
PREFERRED, UNCLEAN = 0, 1
TOPIC_RESOURCE = 2
SET = 0

GUEST = "User:guest"
_GROUP_OPERATIONS = (Operation.READ, Operation.DESCRIBE, Operation.DELETE)

CHILDREN = (
    "topics",
    "responses",
    "results",
    "filter_results",
    "replica_election_results",
    "partitions",
    "partition_result",
)
"""The fields of admin responses that hold entries with error codes."""
RETRIABLE_ERRORS = (
    ErrorCode.not_controller,
    ErrorCode.request_timed_out,
    ErrorCode.network_exception,
    ErrorCode.invalid_replication_factor,
    ErrorCode.invalid_replica_assignment,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_server_error,
)


class Operator(Client):
    """A client that carries out the operator actions of a plan."""

    def __init__(
        self, cluster: Cluster, rng: random.Random, brokers: tuple[int, ...], voters: tuple[int, ...], timeout_ms: int
    ) -> None:
        super().__init__(OPERATOR_ID, cluster.network, rng, brokers, timeout_ms)
        self.outcomes: list[tuple[str, str]] = []
        self._cluster = cluster
        self._voters = voters

    def carry_out(self, action: Action) -> None:
        self._attempt(str(action), self.request(action), 10)

    def create_request(self, topic: TopicPlan) -> Message:
        return _create_request(topic)

    def request(self, action: Action) -> Message:
        request: Message = getattr(self, f"_{action.kind}")(action)
        return request

    def errors_of(self, response: Message | None) -> tuple[ErrorCode, ...]:
        """Every error code of an admin response."""
        return (ErrorCode.network_exception,) if response is None else tuple(_errors(response))

    def create(self, topic: TopicPlan) -> None:
        self._attempt(f"create {topic.name}", self.create_request(topic), 200)

    def allow_again(self, action: Action) -> None:
        """Remove what a `deny` action has created; a healed cluster has no denials left."""
        self._attempt(f"undo {action}", _delete_acls(AclFilter.exactly(_denial(action))), 200)

    def guard(self, action: Action) -> None:
        """Create ACLs that allow a group and one that denies it, all for one principal, and remove them by one request.
        No client may use the group before, meanwhile or after (A8). A creation without an answer is not repeated: it
        could arrive amid the removal, and only one request at a time promises anything."""
        operations = ((Operation.ALL, Permission.DENY), *((op, Permission.ALLOW) for op in _GROUP_OPERATIONS))
        acls = [
            Acl(
                resource_type=ResourceType.GROUP,
                resource_name=action.target,
                principal=GUEST,
                operation=operation,
                permission=permission,
            )
            for operation, permission in operations
        ]
        request = _delete_acls(AclFilter(resource_type=ResourceType.GROUP, resource_name=action.target))

        def on_response(response: Message | None, _now: int) -> None:
            if all(error is ErrorCode.none for error in self.errors_of(response)):
                self.later(action.duration_ms, self._attempt, f"undo {action}", request, 200)

        self.ask(self.rng.choice(self.brokers), _create_acls(*acls), on_response)

    def _attempt(self, what: str, request: Message, left: int) -> None:
        def on_response(response: Message | None, _now: int) -> None:
            errors = self.errors_of(response)
            if left > 0 and any(error in RETRIABLE_ERRORS for error in errors):
                self.later(RETRY_MS, self._attempt, what, request, left - 1)
            else:
                self.outcomes.append((what, ",".join(error.name for error in errors)))

        # Mostly through a broker, which forwards it; sometimes directly to a controller, as Kafka's tools can.
        through_broker = self.rng.random() < 0.7
        self.ask(self.rng.choice(self.brokers if through_broker else self._voters), request, on_response)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _create_topic(self, action: Action) -> Message:
        partitions, factor = int(action.value[0]), int(action.value[1])
        return _create_request(TopicPlan(name=action.target, partitions=partitions, replication_factor=factor))

    def _delete_topic(self, action: Action) -> Message:
        topic = delete_topics.DeleteTopicState(name=action.target, topic_id=None)
        return delete_topics.DeleteTopicsRequest(topics=(topic,), timeout=ms(1_000))

    def _grow_topic(self, action: Action) -> Message:
        topic = create_partitions.CreatePartitionsTopic(
            name=action.target, count=int(action.value[0]), assignments=None
        )
        return create_partitions.CreatePartitionsRequest(topics=(topic,), timeout=ms(1_000), validate_only=False)

    def _reassign(self, action: Action) -> Message:
        return _reassignment(action.target, tuple(int(node) for node in action.value))

    def _cancel_reassign(self, action: Action) -> Message:
        return _reassignment(action.target, None)

    def _elect_preferred(self, action: Action) -> Message:
        return _election(action.target, PREFERRED)

    def _elect_unclean(self, action: Action) -> Message:
        return _election(action.target, UNCLEAN)

    def _set_config(self, action: Action) -> Message:
        name, value = action.value
        config = incremental_alter_configs.AlterableConfig(name=str(name), config_operation=SET, value=str(value))
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=action.target, configs=(config,)
        )
        return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

    def _unregister(self, action: Action) -> Message:
        return unregister_broker.UnregisterBrokerRequest(broker_id=int(action.target))

    def _deny(self, action: Action) -> Message:
        return _create_acls(_denial(action))

    # --- metadata ----------------------------------------------------------------------------------------------------

    def partition(self, name: str) -> Partition | None:
        """The newest metadata of "topic-index" that a running node has applied."""
        topic, _, index = name.rpartition("-")
        newest: Partition | None = None
        for node in self._cluster.nodes():
            partition: Partition | None = node.image.find(topic, int(index))
            if partition is not None and (newest is None or partition.partition_epoch > newest.partition_epoch):
                newest = partition
        return newest


def _denial(action: Action) -> Acl:
    client, operation = action.value
    return Acl(
        resource_type=ResourceType.TOPIC,
        resource_name=action.target,
        principal=principal_of_client(int(client)),
        operation=Operation[str(operation)],
        permission=Permission.DENY,
    )


def _create_acls(*acls: Acl) -> Message:
    creations = tuple(create_acls.AclCreation(**acl.creation_fields()) for acl in acls)
    return create_acls.CreateAclsRequest(creations=creations)


def _delete_acls(acl_filter: AclFilter) -> Message:
    return delete_acls.DeleteAclsRequest(filters=(delete_acls.DeleteAclsFilter(**acl_filter.kafka_fields()),))


def _create_request(topic: TopicPlan) -> Message:
    configs = tuple(create_topics.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs)
    creatable = create_topics.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.replicas else topic.partitions,
        replication_factor=-1 if topic.replicas else topic.replication_factor,
        assignments=tuple(
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=topic.replicas)
            for index in range(topic.partitions if topic.replicas else 0)
        ),
        configs=configs,
    )
    return create_topics.CreateTopicsRequest(topics=(creatable,), timeout=ms(1_000), validate_only=False)


def _reassignment(name: str, replicas: tuple[int, ...] | None) -> Message:
    topic, _, index = name.rpartition("-")
    api = alter_partition_reassignments
    partition = api.ReassignablePartition(partition_index=int(index), replicas=replicas)
    return api.AlterPartitionReassignmentsRequest(
        timeout=ms(1_000), topics=(api.ReassignableTopic(name=topic, partitions=(partition,)),)
    )


def _election(name: str, election_type: int) -> Message:
    topic, _, index = name.rpartition("-")
    return elect_leaders.ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=(elect_leaders.TopicPartitions(topic=topic, partitions=(int(index),)),),
        timeout=ms(1_000),
    )


def _errors(response: Any) -> list[ErrorCode]:
    """Every error code of an admin response, at any depth of its schema."""
    errors: list[ErrorCode] = []
    error = getattr(response, "error_code", None)
    if error is not None:
        errors.append(error)
    for name in CHILDREN:
        for child in getattr(response, name, None) or ():
            errors += _errors(child)
    return errors
