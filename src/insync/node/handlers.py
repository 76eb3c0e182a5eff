"""The table of all APIs that a node serves: the role that serves each, its handler, the rights that it needs, and how
large requests are divided.

`insync.wire.apis` has the keys and versions. APIs with logic of their own have a module in `insync.node.apis`; those
that a controller decides are described in `controller_apis`. A handler replies through the outbox, now or later, to the
token of its request event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypedDict, Unpack

from insync.node.apis import (
    acls,
    api_versions,
    consumer_group_heartbeat,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    envelope,
    list_offsets,
    metadata,
    produce,
    sasl,
    transactions,
)
from insync.node.authorization import cluster, groups, nodes, records, topics
from insync.node.authorization.checks import Rights
from insync.node.broker_role import BrokerRole
from insync.node.controller_apis import CONTROLLER_APIS, ControllerApi
from insync.node.node_view import NodeView
from insync.node.parts import Parts, without_repeats
from insync.sansio import Outbox, Request, RequestAbandoned
from insync.wire.apis import APIS
from insync.wire.types import METADATA_TOPIC_ID


class Role(Enum):
    ANY = "any"
    BROKER = "broker"
    CONTROLLER = "controller"
    FORWARDED = "forwarded"
    """The controller decides it; brokers forward it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    role: Role
    rights: Rights
    """A1: what a client needs to be served."""
    handle: Callable[[Any, Request, int], None]
    """(the node, or its broker role if `role` is BROKER; event; now)"""
    abandon: Callable[[BrokerRole, RequestAbandoned, int], None] | None = None
    """Lets go of a request that a broker may hold for long, when its connection has ended."""
    parts: Parts | None = None
    """How the server divides large requests. Those that a controller decides are divided where they are forwarded."""
    between_nodes: bool = False
    """Nodes send it on their own behalf. What they forward for clients is not among it."""


class _Options(TypedDict, total=False):
    """The fields of `Handler` that most APIs leave out."""

    abandon: Callable[[BrokerRole, RequestAbandoned, int], None]
    parts: Parts
    between_nodes: bool


def _on_any_node(
    rights: Rights, handle: Callable[[NodeView, Request, int], None], **options: Unpack[_Options]
) -> Handler:
    return Handler(role=Role.ANY, rights=rights, handle=handle, **options)


def _on_brokers(
    rights: Rights, handle: Callable[[BrokerRole, Request, int], None], **options: Unpack[_Options]
) -> Handler:
    return Handler(role=Role.BROKER, rights=rights, handle=handle, **options)


def _decided_by_controller(api: ControllerApi) -> Handler:
    def handle(node: NodeView, event: Request, now: int) -> None:
        if node.controller_role:
            node.controller_role.handle(api, event.request, partial(node.out.reply, event.token), now)
        else:
            hang_up_unserved(node.out, event)

    return Handler(role=Role.CONTROLLER, rights=api.rights, handle=handle, between_nodes=True)


def _forwarded_to_controller(api: ControllerApi) -> Handler:
    def handle(node: NodeView, event: Request, now: int) -> None:
        if node.broker_role:
            node.broker_role.forwarding.forward(api, event.request, event.token, event.client, now)
        elif node.controller_role:
            answer = partial(node.out.reply, event.token)
            node.controller_role.handle(api, event.request, answer, now, event.client)

    return Handler(
        role=Role.FORWARDED,
        rights=api.rights,
        handle=handle,
        abandon=lambda broker, event, now: broker.forwarding.abandon(event.token),
    )


def hang_up_unserved(out: Outbox, event: Request) -> None:
    out.hang_up(event.token, f"{type(event.request).__name__} is not served in this role")


def _fetch(node: NodeView, event: Request, now: int) -> None:
    """Followers and consumers read the partitions led here (F, H5), voters and observers the metadata log (Q4). One
    request asks for the one or the other."""
    topics = event.request.topics
    if topics and topics[0].topic_id == METADATA_TOPIC_ID:
        node.quorum.handle_fetch(event.request, event.token, now)
    elif node.broker_role:
        is_follower = event.request.replica_state.replica_id >= 0
        rights = None if is_follower else node.access_control.read_rights(event.client, now)
        node.broker_role.replicas.fetch(event.request, event.token, now, more=event.more, rights=rights)
    else:
        node.out.hang_up(event.token, "a controller holds no partitions")


_HANDLERS: dict[str, Handler] = {
    # --- the metadata quorum (Q4, Q5, Q6) ---
    "vote": _on_any_node(
        nodes.VOTE,
        lambda node, event, now: node.quorum.handle_vote(event.request, event.token, now),
        between_nodes=True,
    ),
    "begin_quorum_epoch": _on_any_node(
        nodes.BEGIN_QUORUM_EPOCH,
        lambda node, event, now: node.quorum.handle_begin_quorum_epoch(event.request, event.token, now),
        between_nodes=True,
    ),
    "end_quorum_epoch": _on_any_node(
        nodes.END_QUORUM_EPOCH,
        lambda node, event, now: node.quorum.handle_end_quorum_epoch(event.request, event.token, now),
        between_nodes=True,
    ),
    "fetch_snapshot": _on_any_node(
        nodes.FETCH_SNAPSHOT,
        lambda node, event, now: node.quorum.handle_fetch_snapshot(event.request, event.token, now),
        between_nodes=True,
    ),
    "describe_quorum": _on_any_node(cluster.DESCRIBE_QUORUM, describe_quorum.handle),
    "envelope": _on_any_node(nodes.ENVELOPE, envelope.handle),
    # --- the cluster, from the image that every node has ---
    "metadata": _on_any_node(
        cluster.METADATA,
        metadata.handle,
        parts=Parts(asked=("topics",), answered=("topics",), limit=200, without_repeats=without_repeats("topics")),
    ),
    "api_versions": _on_any_node(cluster.API_VERSIONS, api_versions.handle),
    "sasl_handshake": _on_any_node(cluster.SASL, sasl.refuse_handshake),
    "sasl_authenticate": _on_any_node(cluster.SASL, sasl.refuse_authentication),
    "describe_cluster": _on_any_node(cluster.DESCRIBE_CLUSTER, describe_cluster.handle),
    "describe_topic_partitions": _on_any_node(cluster.DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions.handle),
    "describe_configs": _on_any_node(
        topics.DESCRIBE_CONFIGS,
        describe_configs.handle,
        parts=Parts(
            asked=("resources",), answered=("results",), limit=200, without_repeats=without_repeats("resources")
        ),
    ),
    "describe_acls": _on_any_node(cluster.DESCRIBE_ACLS, acls.describe),
    "describe_client_quotas": _on_any_node(cluster.DESCRIBE_CLIENT_QUOTAS, describe_client_quotas.handle),
    "describe_user_scram_credentials": _on_any_node(
        cluster.DESCRIBE_USER_SCRAM_CREDENTIALS,
        describe_user_scram_credentials.handle,
        parts=Parts(asked=("users",), answered=("results",), limit=500, entry_key=lambda user: user.name),
    ),
    # --- partitions ---
    "produce": _on_brokers(
        records.PRODUCE,
        produce.handle,
        parts=produce.PARTS,
        abandon=lambda broker, event, now: broker.replicas.abandon_produce(event.token),
    ),
    "fetch": _on_any_node(
        records.FETCH,
        _fetch,
        abandon=lambda broker, event, now: broker.replicas.abandon_fetch(event.token),
        between_nodes=True,
    ),
    "list_offsets": _on_brokers(
        records.LIST_OFFSETS,
        lambda broker, event, now: broker.replicas.list_offsets(event.request, event.token, now),
        parts=list_offsets.PARTS,
    ),
    "offset_for_leader_epoch": _on_brokers(  # D1
        records.OFFSET_FOR_LEADER_EPOCH,
        lambda broker, event, now: broker.replicas.offset_for_leader_epoch(event.request, event.token, now),
        parts=Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("topic",), limit=500),
    ),
    "delete_records": _on_brokers(
        records.DELETE_RECORDS,
        lambda broker, event, now: broker.replicas.delete_records(event.request, event.token, now),
        parts=Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("name",), limit=100),
        abandon=lambda broker, event, now: broker.replicas.abandon_delete_records(event.token),
    ),
    "get_replica_log_info": _on_brokers(  # E6
        nodes.GET_REPLICA_LOG_INFO,
        lambda broker, event, now: broker.replicas.get_replica_log_info(event.request, event.token, now),
        between_nodes=True,
    ),
    "describe_log_dirs": _on_brokers(cluster.DESCRIBE_LOG_DIRS, describe_log_dirs.handle),
    "describe_producers": _on_brokers(
        records.DESCRIBE_PRODUCERS, describe_producers.handle, parts=describe_producers.PARTS
    ),
    "init_producer_id": _on_brokers(  # P4
        records.INIT_PRODUCER_ID,
        lambda broker, event, now: broker.producer_ids.init(event.request, event.token, now),
        abandon=lambda broker, event, now: broker.producer_ids.abandon(event.token),
    ),
    "list_transactions": _on_brokers(records.LIST_TRANSACTIONS, transactions.list_all),
    "describe_transactions": _on_brokers(
        records.DESCRIBE_TRANSACTIONS, transactions.describe, parts=transactions.DESCRIBE_PARTS
    ),
    # --- consumer groups ---
    "find_coordinator": _on_brokers(
        groups.FIND_COORDINATOR,
        lambda broker, event, now: broker.groups.find_coordinators(
            event.request, event.token, event.client.listener, now
        ),
        parts=Parts(asked=("coordinator_keys",), answered=("coordinators",), limit=500),
    ),
    "join_group": _on_brokers(
        groups.JOIN_GROUP,
        lambda broker, event, now: broker.groups.coordinator.join(event.request, event.token, event.client, now),
        abandon=lambda broker, event, now: broker.groups.coordinator.abandon_join(event.request, event.token, now),
    ),
    "sync_group": _on_brokers(
        groups.SYNC_GROUP, lambda broker, event, now: broker.groups.coordinator.sync(event.request, event.token, now)
    ),
    "heartbeat": _on_brokers(
        groups.HEARTBEAT,
        lambda broker, event, now: broker.groups.coordinator.heartbeat(event.request, event.token, now),
    ),
    "leave_group": _on_brokers(
        groups.LEAVE_GROUP, lambda broker, event, now: broker.groups.coordinator.leave(event.request, event.token, now)
    ),
    "offset_commit": _on_brokers(
        groups.OFFSET_COMMIT,
        lambda broker, event, now: broker.groups.coordinator.commit(event.request, event.token, event.client, now),
        # Up to the limit a commit is one batch, all or nothing. Kafka refuses what does not fit into one batch.
        parts=Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("name",), limit=2_000),
    ),
    "offset_fetch": _on_brokers(
        groups.OFFSET_FETCH,
        lambda broker, event, now: broker.groups.coordinator.fetch(event.request, event.token),
        parts=Parts(
            asked=("groups", "topics", "partition_indexes"),
            answered=("groups", "topics", "partitions"),
            keys=("group_id", "name"),
            limit=500,
            whole=100,
            without_repeats=without_repeats("groups"),
        ),
    ),
    "offset_delete": _on_brokers(
        groups.OFFSET_DELETE,
        lambda broker, event, now: broker.groups.coordinator.delete_offsets(event.request, event.token, now),
        parts=Parts(asked=("topics", "partitions"), answered=("topics", "partitions"), keys=("name",), limit=2_000),
    ),
    "list_groups": _on_brokers(
        groups.LIST_GROUPS, lambda broker, event, now: broker.groups.coordinator.list(event.request, event.token)
    ),
    "describe_groups": _on_brokers(
        groups.DESCRIBE_GROUPS,
        lambda broker, event, now: broker.groups.coordinator.describe(event.request, event.token, event.client),
        parts=Parts(asked=("groups",), answered=("groups",), limit=50, without_repeats=without_repeats("groups")),
    ),
    "delete_groups": _on_brokers(
        groups.DELETE_GROUPS,
        lambda broker, event, now: broker.groups.coordinator.delete(event.request, event.token, now),
        parts=Parts(
            asked=("groups_names",), answered=("results",), limit=25, without_repeats=without_repeats("groups_names")
        ),
    ),
    "consumer_group_heartbeat": _on_brokers(groups.CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat.handle),
    # --- decided by the controller ---
    **{
        name: _decided_by_controller(api) if api.between_nodes else _forwarded_to_controller(api)
        for name, api in CONTROLLER_APIS.items()
    },
}

HANDLERS: dict[int, Handler] = {api.key: _HANDLERS[api.name] for api in APIS.values()}
"""By API key."""

PARTS: dict[int, Parts] = {key: handler.parts for key, handler in HANDLERS.items() if handler.parts is not None}

BETWEEN_NODES = frozenset(key for key, handler in HANDLERS.items() if handler.between_nodes)
