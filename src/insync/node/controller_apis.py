"""The APIs that the active controller decides: how, the rights that it needs, how a request is refused, and how a large
one is divided.

`handlers` has the table of all APIs. This part of it is a module of its own because the roles use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from insync.controller import (
    acls,
    broker_registry,
    client_quotas,
    configs,
    directories,
    elections,
    heartbeats,
    producer_ids,
    reassignment,
    scram_credentials,
    topics,
)
from insync.controller.alter_partition import alter_partitions
from insync.controller.decision import Decision, Slices
from insync.node.apis import create_topics as create_topics_api
from insync.node.apis import update_features as update_features_api
from insync.node.authorization import topics as topic_rights
from insync.node.authorization.checks import Rights, of_nodes, on_cluster
from insync.node.parts import Parts
from insync.sansio import Message
from insync.security.acl import Operation
from insync.wire.apis import APIS, STRICT_QUOTA_SINCE
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
)
from insync.wire.types import NO_DURATION

Decide = Callable[..., Decision | Slices]
"""(state, request, now), and `charge` if it creates or deletes partitions."""
Refuse = Callable[[Any, ErrorCode], Message]

PART_ITEMS = 200
"""Topics, partitions or resources that a controller decides as one part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwardable:
    """What a broker needs to know of a request that it forwards to the controller."""

    refuse: Refuse
    """(request, error) -> the response that fails all of the request."""
    parts: Parts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerApi(Forwardable):
    decide: Decide
    """(the controller's state, request, now) -> what to append to the metadata log, and the response."""
    strict_quota_since: int | None = None
    """If it creates or deletes partitions: the lowest version of its clients that a quota may refuse (KIP-599)."""
    needs: Operation | Rights
    """The operation on the cluster, or more detailed rights."""

    @property
    def rights(self) -> Rights:
        if isinstance(self.needs, Rights):
            return self.needs
        of_request = of_nodes if self.between_nodes else partial(on_cluster, self.needs)
        return of_request(lambda request: self.refuse(request, ErrorCode.cluster_authorization_failed))

    @property
    def between_nodes(self) -> bool:
        """Only brokers send it, to the controller; other APIs are the clients', and brokers forward them."""
        return self.needs is Operation.CLUSTER_ACTION


def _refuse_resources(api: Any, request: Any, error: ErrorCode) -> tuple[Any, ...]:
    """AlterConfigs and IncrementalAlterConfigs have one error per resource."""
    return tuple(
        api.AlterConfigsResourceResponse(
            error_code=error,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    )


def _refuse_elections(request: elect_leaders.ElectLeadersRequest, error: ErrorCode) -> Message:
    return elect_leaders.ElectLeadersResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        replica_election_results=tuple(
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    elect_leaders.PartitionResult(partition_id=index, error_code=error, error_message=None)
                    for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def _refuse_reassignments(
    request: alter_partition_reassignments.AlterPartitionReassignmentsRequest, error: ErrorCode
) -> Message:
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        error_message=None,
        responses=tuple(
            alter_partition_reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=line.partition_index, error_code=error, error_message=None
                    )
                    for line in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _refuse_reassignment_list(
    request: list_partition_reassignments.ListPartitionReassignmentsRequest, error: ErrorCode
) -> Message:
    return list_partition_reassignments.ListPartitionReassignmentsResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        error_message=None,
        topics=tuple(
            list_partition_reassignments.OngoingTopicReassignment(
                name=topic.name,
                partitions=tuple(
                    list_partition_reassignments.OngoingPartitionReassignment(
                        partition_index=index, replicas=(), adding_replicas=(), removing_replicas=()
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        ),
    )


_RESOURCE_PARTS = Parts(
    asked=("resources",),
    answered=("responses",),
    limit=PART_ITEMS,
    entry_key=lambda resource: (resource.resource_type, resource.resource_name),
)

CREATE_TOPICS = ControllerApi(
    needs=topic_rights.CREATE_TOPICS,
    decide=topics.create,
    strict_quota_since=STRICT_QUOTA_SINCE["create_topics"],
    refuse=lambda request, error: create_topics.CreateTopicsResponse(
        throttle_time=NO_DURATION,
        topics=tuple(
            create_topics.CreatableTopicResult(
                name=topic.name, topic_id=None, error_code=error, error_message=None, configs=None
            )
            for topic in request.topics
        ),
    ),
    parts=create_topics_api.PARTS,
)

CONTROLLER_APIS: dict[str, ControllerApi] = {
    # --- between nodes ---
    "alter_partition": ControllerApi(  # I3, I4
        decide=alter_partitions,
        refuse=lambda _, error: alter_partition.AlterPartitionResponse(
            throttle_time=NO_DURATION, error_code=error, topics=()
        ),
        parts=Parts(
            asked=("topics", "partitions"),
            answered=("topics", "partitions"),
            keys=("topic_id",),
            limit=PART_ITEMS,
            entry_key=lambda partition: partition.partition_index,
        ),
        needs=Operation.CLUSTER_ACTION,
    ),
    "broker_registration": ControllerApi(  # B1, B2
        decide=broker_registry.register,
        refuse=lambda _, error: broker_registration.BrokerRegistrationResponse(
            throttle_time=NO_DURATION, error_code=error
        ),
        needs=Operation.CLUSTER_ACTION,
    ),
    "broker_heartbeat": ControllerApi(  # B3, B4, B7
        decide=heartbeats.handle_heartbeat,
        refuse=lambda _, error: broker_heartbeat.BrokerHeartbeatResponse(
            throttle_time=NO_DURATION, error_code=error, should_shut_down=False
        ),
        needs=Operation.CLUSTER_ACTION,
    ),
    "allocate_producer_ids": ControllerApi(  # P4
        decide=producer_ids.allocate,
        refuse=lambda _, error: allocate_producer_ids.AllocateProducerIdsResponse(
            throttle_time=NO_DURATION, error_code=error, producer_id_start=0, producer_id_len=0
        ),
        needs=Operation.CLUSTER_ACTION,
    ),
    "assign_replicas_to_dirs": ControllerApi(  # D6
        decide=directories.assign_replicas,
        refuse=lambda _, error: assign_replicas_to_dirs.AssignReplicasToDirsResponse(
            throttle_time=NO_DURATION, error_code=error, directories=()
        ),
        needs=Operation.CLUSTER_ACTION,
    ),
    # --- of clients, forwarded by brokers ---
    "create_topics": CREATE_TOPICS,
    "delete_topics": ControllerApi(
        needs=topic_rights.DELETE_TOPICS,
        decide=topics.delete,
        strict_quota_since=STRICT_QUOTA_SINCE["delete_topics"],
        refuse=lambda request, error: delete_topics.DeleteTopicsResponse(
            throttle_time=NO_DURATION,
            responses=tuple(
                delete_topics.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error)
                for topic in request.topics
            ),
        ),
        parts=Parts(
            asked=("topics",),
            answered=("responses",),
            limit=PART_ITEMS,
            entry_key=lambda topic: (topic.name, topic.topic_id),
        ),
    ),
    "create_partitions": ControllerApi(
        needs=topic_rights.CREATE_PARTITIONS,
        decide=topics.add_partitions,
        strict_quota_since=STRICT_QUOTA_SINCE["create_partitions"],
        refuse=lambda request, error: create_partitions.CreatePartitionsResponse(
            throttle_time=NO_DURATION,
            results=tuple(
                create_partitions.CreatePartitionsTopicResult(name=topic.name, error_code=error)
                for topic in request.topics
            ),
        ),
        parts=Parts(asked=("topics",), answered=("results",), limit=PART_ITEMS, entry_key=lambda topic: topic.name),
    ),
    "alter_partition_reassignments": ControllerApi(  # R
        needs=Operation.ALTER,
        decide=reassignment.alter_reassignments,
        refuse=_refuse_reassignments,
        parts=Parts(
            asked=("topics", "partitions"),
            answered=("responses", "partitions"),
            keys=("name",),
            limit=PART_ITEMS,
            entry_key=lambda partition: partition.partition_index,
        ),
    ),
    "list_partition_reassignments": ControllerApi(  # R6
        needs=Operation.DESCRIBE,
        decide=reassignment.list_reassignments,
        refuse=_refuse_reassignment_list,
    ),
    "elect_leaders": ControllerApi(  # E1; the controller itself divides an election of all partitions, which it knows
        needs=Operation.ALTER,
        decide=elections.elect,
        refuse=_refuse_elections,
        parts=Parts(
            asked=("topic_partitions", "partitions"),
            answered=("replica_election_results", "partition_result"),
            keys=("topic",),
            limit=PART_ITEMS,
            entry_key=lambda index: index,
        ),
    ),
    "incremental_alter_configs": ControllerApi(  # E8
        needs=topic_rights.INCREMENTAL_ALTER_CONFIGS,
        decide=configs.alter,
        refuse=lambda request, error: incremental_alter_configs.IncrementalAlterConfigsResponse(
            throttle_time=NO_DURATION, responses=_refuse_resources(incremental_alter_configs, request, error)
        ),
        parts=_RESOURCE_PARTS,
    ),
    "alter_configs": ControllerApi(  # E8
        needs=topic_rights.ALTER_CONFIGS,
        decide=configs.replace_all,
        refuse=lambda request, error: alter_configs.AlterConfigsResponse(
            throttle_time=NO_DURATION, responses=_refuse_resources(alter_configs, request, error)
        ),
        parts=_RESOURCE_PARTS,
    ),
    "unregister_broker": ControllerApi(  # I5
        needs=Operation.ALTER,
        decide=broker_registry.unregister,
        refuse=lambda _, error: unregister_broker.UnregisterBrokerResponse(
            throttle_time=NO_DURATION, error_code=error, error_message=None
        ),
    ),
    "create_acls": ControllerApi(
        needs=Operation.ALTER,
        decide=acls.create,
        refuse=acls.refuse_creations,
        parts=Parts(asked=("creations",), answered=("results",), limit=PART_ITEMS),
    ),
    "delete_acls": ControllerApi(needs=Operation.ALTER, decide=acls.delete, refuse=acls.refuse_filters),
    "alter_user_scram_credentials": ControllerApi(
        needs=Operation.ALTER, decide=scram_credentials.alter, refuse=scram_credentials.refuse
    ),
    "alter_client_quotas": ControllerApi(
        needs=Operation.ALTER_CONFIGS,
        decide=client_quotas.alter,
        refuse=client_quotas.refuse,
        parts=Parts(
            asked=("entries",),
            answered=("entries",),
            limit=PART_ITEMS,
            weigh=lambda entry: len(entry.ops) or 1,
            entry_key=client_quotas.entity_key,
        ),
    ),
    "update_features": ControllerApi(
        needs=Operation.ALTER, decide=update_features_api.decide, refuse=update_features_api.refuse
    ),
}

FORWARDED: dict[int, ControllerApi] = {
    APIS[name].key: api for name, api in CONTROLLER_APIS.items() if not api.between_nodes
}
"""By key: what brokers forward for clients, and what an Envelope may hold."""
