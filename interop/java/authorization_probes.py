"""The requests that are sent as each user to Apache Kafka and to insync.

The topics in `EXISTING` exist, with one partition and one record each; the others do not. No probe changes a resource
that another probe depends on, except those marked `changes_topics`: the caller restores the topics after each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from insync.security.acl import Operation
from insync.wire.types import METADATA_TOPIC, ms
from interop.java import authorization_bodies as bodies
from interop.java.authorization_bodies import TIMEOUT, TopicId
from interop.java.authorization_users import CLUSTER, GHOST, TOPIC, USERS, allow
from tests.acl_filters import EVERY_ACL

MIXED = ("open", "closed", "open-absent", "closed-absent")
"""Allowed and not, existing and not: in one request."""
SEPARATE = ("open", "closed", "open-absent", "closed-absent", "public")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    name: str
    key: int
    body: dict[str, Any]
    versions: tuple[int, ...] = ()
    """By default the lowest and the highest that both serve."""
    newest_only: bool = False
    changes_topics: bool = False
    to_controller: bool = False
    """To the controllers' listener."""
    between_nodes: bool = False
    is_answered: bool = True
    users: tuple[str, ...] = ()
    """By default all."""


def _each(
    name: str,
    key: int,
    body: Callable[[tuple[str, ...]], dict[str, Any]],
    names: tuple[str, ...] = SEPARATE,
    mixed: tuple[str, ...] = MIXED,
    **more: Any,
) -> list[Probe]:
    """One probe for each name by itself in the newest version, and one for all of `mixed` in several."""
    single = [Probe(name=f"{name}: {one}", key=key, body=body((one,)), newest_only=True, **more) for one in names]
    return [*single, Probe(name=f"{name}: mixed", key=key, body=body(mixed), **more)]


TOPIC_CONFIG, BROKER_CONFIG, BROKER_LOGGER_CONFIG, CLIENT_METRICS_CONFIG, GROUP_CONFIG = 2, 4, 8, 16, 32
_GHOST_ACL = allow(TOPIC, Operation.READ, "ghost", principal=GHOST)
_TRANSACTION = {"transactional_id": "open", "producer_id": 0, "producer_epoch": 0}


def _records() -> list[Probe]:
    return [
        *_each("produce", 0, bodies.produce),
        Probe(name="produce: transactional, open", key=0, body=bodies.produce(["open-spare"], transactional_id="open")),
        Probe(
            name="produce: transactional, closed", key=0, body=bodies.produce(["open-spare"], transactional_id="closed")
        ),
        Probe(name="produce: acks 0, closed", key=0, body=bodies.produce(["closed"], acks=0), is_answered=False),
        Probe(name="produce: acks 0, open", key=0, body=bodies.produce(["open"], acks=0), is_answered=False),
        *_each("fetch", 1, bodies.fetch, versions=(4, 12, 13, 17)),
        Probe(
            name="fetch: as a replica", key=1, body=bodies.fetch(["open", "closed"], replica_id=1), versions=(4, 12, 17)
        ),
        Probe(
            name="fetch: as an unknown replica", key=1, body=bodies.fetch(["open"], replica_id=77), versions=(4, 12, 17)
        ),
        Probe(
            name="fetch: debugging", key=1, body=bodies.fetch(["open", "closed"], replica_id=-2), versions=(4, 12, 17)
        ),
        *_each("list offsets", 2, bodies.list_offsets),
        Probe(name="list offsets: as a replica", key=2, body=bodies.list_offsets(["open", "closed"], replica_id=1)),
        *_each("delete records", 21, bodies.delete_records),
        *_each("offset for leader epoch", 23, bodies.epochs, versions=(2, 3, 4)),
        Probe(
            name="offset for leader epoch: as a replica", key=23, body=bodies.epochs(["open", "closed"], replica_id=1)
        ),
        *_each("describe producers", 61, bodies.indexes),
        *_producer_ids(),
    ]


def _producer_ids() -> list[Probe]:
    def body(transactional_id: str | None) -> dict[str, Any]:
        return {"transactional_id": transactional_id, "transaction_timeout": ms(60_000)}

    return [
        Probe(name="init producer id", key=22, body=body(None)),
        Probe(name="init producer id: closed", key=22, body=body("closed")),
        Probe(name="init producer id: open", key=22, body=body("open")),
        Probe(name="describe transactions", key=65, body={"transactional_ids": ("open", "closed")}),
        Probe(name="list transactions", key=66, body={"state_filters": (), "producer_id_filters": ()}),
    ]


def _topics() -> list[Probe]:
    topic_pages = {"response_partition_limit": 100, "cursor": None}
    after_open = {"topic_name": "open", "partition_index": 0}
    return [
        *_each("metadata", 3, bodies.metadata, versions=(4, 8, 13)),
        Probe(name="metadata: mixed, which creates", key=3, body=bodies.metadata(MIXED),
              versions=(1,), changes_topics=True),
        Probe(name="metadata: all", key=3, body=bodies.metadata(None), versions=(1, 4, 13)),
        Probe(name="metadata: all, oldest", key=3, body=bodies.metadata(()), versions=(0,)),
        Probe(name="metadata: none", key=3, body=bodies.metadata(()), versions=(1, 13)),
        Probe(name="metadata: operations", key=3, body=bodies.metadata(MIXED, operations=True),
              versions=(8, 10, 11, 13)),
        *_each("metadata by id", 3, bodies.metadata_by_id, versions=(12, 13)),
        *_each(
            "metadata with creation", 3, lambda names: bodies.metadata(names, create=True),
            names=("open-absent", "closed-absent"), versions=(4, 13), changes_topics=True,
        ),
        *_each("describe topic partitions", 75, lambda n: {"topics": [{"name": x} for x in n], **topic_pages}),
        Probe(name="describe topic partitions: all", key=75, body={"topics": (), **topic_pages}),
        Probe(
            name="describe topic partitions: from a topic", key=75,
            body={"topics": (), **topic_pages, "cursor": after_open},
        ),
        *_each("create topics, validated only", 19, bodies.create),
        *_each("create topics", 19, lambda names: bodies.create(names, validate_only=False),
               names=("open-absent", "closed-absent"), changes_topics=True),
        *_each("delete topics", 20, bodies.delete,
               names=("open-spare", "closed", "open-absent", "closed-absent"),
               mixed=("open-spare", "closed", "open-absent", "closed-absent"), changes_topics=True),
        *_each("delete topics by id", 20, bodies.delete_by_id,
               names=("open-spare", "closed", "open-absent"), mixed=("open-spare", "closed", "closed-absent"),
               versions=(6,), changes_topics=True),
        *_each("create partitions", 37, bodies.partitions),
        *_each("elect leaders", 43, lambda names: {
            "election_type": 0, "topic_partitions": [{"topic": n, "partitions": (0,)} for n in names],
            "timeout": TIMEOUT,
        }, names=()),
        *_each("reassign", 45, lambda names: {
            "timeout": TIMEOUT,
            "topics": [{"name": n, "partitions": [{"partition_index": 0, "replicas": (1,)}]} for n in names],
        }, names=()),
        *_each("list reassignments", 46, bodies.indexes, names=()),
        Probe(name="list reassignments: all", key=46, body={"timeout": TIMEOUT, "topics": None}),
        *_each("describe log dirs", 35, lambda n: {"topics": [{"topic": x, "partitions": (0,)} for x in n]}, names=()),
    ]  # fmt: skip


def _groups() -> list[Probe]:
    members = (("join group", 11), ("heartbeat", 12), ("leave group", 13), ("sync group", 14))
    return [
        *(
            Probe(name=f"{name}: {group}", key=key, body=bodies.member(group))
            for name, key in members
            for group in ("open", "closed", "open-absent", "public")
        ),
        *_each("commit", 8, lambda names: bodies.commit("open", names)),
        Probe(name="commit: closed group", key=8, body=bodies.commit("closed", ["open", "closed"])),
        Probe(name="commit: public", key=8, body=bodies.commit("public", ["public", "closed"])),
        *_each("committed", 9, lambda names: bodies.committed(["open"], names), versions=(1, 7, 8, 9)),
        Probe(name="committed: closed group", key=9, body=bodies.committed(["closed"], ["open"]),
              versions=(1, 2, 7, 9)),
        Probe(name="committed: all topics", key=9, body=bodies.committed(["open"], None), versions=(2, 7, 8, 9)),
        Probe(name="committed: closed group, all topics", key=9, body=bodies.committed(["closed"], None),
              versions=(2, 9)),
        Probe(name="committed: groups", key=9, versions=(9,),
              body=bodies.committed(("open", "closed", "open-absent"), MIXED)),
        *_each("find coordinator", 10, bodies.coordinator, versions=(0, 3, 4, 6)),
        Probe(name="find coordinator: transaction, refused", key=10, body=bodies.coordinator(["closed"], 1),
              versions=(1, 6),
              users=("nobody", "topic.all", "transactional_id.all")),
        Probe(name="find coordinator: share, refused", key=10,
              body=bodies.coordinator(["g:AAAAAAAAAAAAAAAAAAAAAQ:0"], 2),
              versions=(6,), users=("nobody", "topic.all", "group.all", "cluster.alter")),
        *_each("describe groups", 15, lambda names: {"groups": names, "include_authorized_operations": False}),
        Probe(name="describe groups: operations", key=15, versions=(3, 6),
              body={"groups": MIXED, "include_authorized_operations": True}),
        Probe(name="list groups", key=16, body={"states_filter": (), "types_filter": ()}),
        *_each("delete groups", 42, lambda names: {"groups_names": names},
               names=("open-absent", "closed-absent"), mixed=("open-absent", "closed-absent")),
        *_each("delete offsets", 47, lambda names: bodies.offset_delete("open", names), names=("open", "closed")),
        Probe(name="delete offsets: absent group", key=47,
              body=bodies.offset_delete("open-absent", ["open", "closed"])),
        Probe(name="delete offsets: closed group", key=47, body=bodies.offset_delete("closed", ["open"])),
        *_each("consumer group heartbeat", 68, lambda names: {
            "group_id": "open-absent", "member_id": "stranger", "member_epoch": 5, "subscribed_topic_names": names,
            "topic_partitions": (),
        }, names=("open", "closed")),
    ]  # fmt: skip


def _configurations() -> list[Probe]:
    probes = []
    for name, key, versions in (("alter configs", 33, ()), ("incremental alter configs", 44, ())):
        probes += [
            *_each(name, key, lambda names: bodies.alter_configs(TOPIC_CONFIG, names, "retention.ms", "1000"),
                   versions=versions),
            *(
                Probe(name=f"{name}: broker {broker!r}", key=key,
                      body=bodies.alter_configs(BROKER_CONFIG, [broker], "log.retention.ms", "1000"))
                for broker in ("1", "")
            ),
            *(
                Probe(name=f"{name}: group {group}", key=key,
                      body=bodies.alter_configs(GROUP_CONFIG, [group], "consumer.session.timeout.ms", "50000"))
                for group in ("open", "closed")
            ),
            Probe(name=f"{name}: client metrics", key=key,
                  body=bodies.alter_configs(CLIENT_METRICS_CONFIG, ["m"], "interval.ms", "1000")),
            Probe(name=f"{name}: topic and broker", key=key, body={
                "validate_only": True,
                "resources": [
                    *bodies.alter_configs(TOPIC_CONFIG, ["open", "closed"], "retention.ms", "1000")["resources"],
                    *bodies.alter_configs(BROKER_CONFIG, ["1"], "log.retention.ms", "1000")["resources"],
                ],
            }),
        ]  # fmt: skip
    return [
        *_each("describe configs", 32, lambda names: bodies.configs(TOPIC_CONFIG, names, "cleanup.policy")),
        *(
            Probe(name=f"describe configs: broker {broker!r}", key=32,
                  body=bodies.configs(BROKER_CONFIG, [broker], "num.partitions"))
            for broker in ("1", "")
        ),
        *(
            Probe(name=f"describe configs: group {group}", key=32,
                  body=bodies.configs(GROUP_CONFIG, [group], "consumer.session.timeout.ms"))
            for group in ("open", "closed")
        ),
        Probe(name="describe configs: logger", key=32, body=bodies.configs(BROKER_LOGGER_CONFIG, ["1"], "nothing")),
        Probe(name="describe configs: client metrics", key=32, body=bodies.configs(CLIENT_METRICS_CONFIG, ["m"], "x")),
        Probe(name="describe configs: topic and broker", key=32, body={
            "resources": [
                *bodies.configs(TOPIC_CONFIG, ["open", "closed"], "cleanup.policy")["resources"],
                *bodies.configs(BROKER_CONFIG, ["1"], "num.partitions")["resources"],
            ],
            "include_synonyms": False, "include_documentation": False,
        }),
        *probes,
    ]  # fmt: skip


def _cluster() -> list[Probe]:
    quota = {"entity": [{"entity_type": "user", "entity_name": "ghost"}], "ops": [
        {"key": "producer_byte_rate", "value": 1000.0, "remove": False},
    ]}  # fmt: skip
    feature = {"feature": "metadata.version", "max_version_level": 1, "upgrade_type": 1, "allow_downgrade": False}
    components = [{"entity_type": "user", "match_type": 0, "match": "ghost"}]
    upsertion = {"name": "ghost", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
    operations = {"endpoint_type": 1, "include_fenced_brokers": False}
    bad = EVERY_ACL | {"operation": 0}
    return [
        Probe(name="describe cluster", key=60, body={"include_cluster_authorized_operations": False, **operations}),
        Probe(name="describe cluster: operations", key=60, body={
            "include_cluster_authorized_operations": True, **operations,
        }),
        Probe(name="describe cluster: fenced brokers", key=60, versions=(2,), body={
            "include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True,
        }),
        Probe(name="describe quorum", key=55, body=bodies.quorum_topic()),
        Probe(name="update features", key=57, body={
            "timeout": TIMEOUT, "feature_updates": [feature], "validate_only": True,
        }),
        Probe(name="unregister broker", key=64, body={"broker_id": 99}),
        Probe(name="describe acls", key=29, body=EVERY_ACL | {"principal_filter": "User:topic.read"}),
        Probe(name="describe acls: bad", key=29, body=bad),
        Probe(name="create acls", key=30, body=bodies.creations(_GHOST_ACL)),
        Probe(name="create acls: bad", key=30, body=bodies.creations(
            (*_GHOST_ACL, *allow(TOPIC, Operation.READ, "", principal=GHOST),
             *allow(CLUSTER, Operation.READ, "other", principal=GHOST),
             *allow(TOPIC, Operation.READ, "x", principal="ghost")),
        ), versions=(3,)),
        Probe(name="create acls: unknown operation", key=30, versions=(3,),
              body=bodies.creations(allow(TOPIC, Operation.UNKNOWN, "x", principal=GHOST))),
        Probe(name="delete acls", key=31, body={"filters": [EVERY_ACL | {"principal_filter": GHOST}]}),
        Probe(name="delete acls: bad", key=31, body={"filters": [EVERY_ACL | {"principal_filter": "User:none"}, bad]}),
        Probe(name="describe quotas", key=48, body={"components": components, "strict": True}),
        Probe(name="alter quotas", key=49, body={"entries": [quota], "validate_only": True}),
        Probe(name="describe users", key=50, body={"users": [{"name": "ghost"}]}),
        Probe(name="describe users: all", key=50, body={"users": None}, users=("admin", "cluster.describe")),
        Probe(name="describe users: all, refused", key=50, body={"users": None}, users=("nobody",)),
        Probe(name="alter users: delete", key=51, body={
            "deletions": [{"name": "ghost", "mechanism": 1}], "upsertions": [],
        }),
        Probe(name="alter users: bad", key=51, body={
            "deletions": [], "upsertions": [{**upsertion, "iterations": 1}, {**upsertion, "mechanism": 9}],
        }),
        Probe(name="sasl handshake: again", key=17, body={"mechanism": "PLAIN"}, versions=(1,)),
        Probe(name="sasl authenticate: without a handshake", key=36, body={"auth_bytes": b"x"}, versions=(2,)),
    ]  # fmt: skip


def _between_nodes(to_controller: bool) -> list[Probe]:
    """What only nodes send, in the version that they speak."""
    broker = {"broker_id": 1, "broker_epoch": 1}
    listed = {
        "write txn markers": (27, 1, {"markers": [{
            "producer_id": 1, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
            "topics": [{"name": "open", "partition_indexes": (0,)}],
        }]}),
        "vote": (52, 2, {**bodies.quorum_topic(
            replica_epoch=1, replica_id=1, replica_directory_id=None, voter_directory_id=None, last_offset_epoch=1,
            last_offset=0, pre_vote=True,
        ), "voter_id": 1}),
        "begin quorum epoch": (53, 1, {
            **bodies.quorum_topic(voter_directory_id=None, leader_id=1, leader_epoch=1), "voter_id": 1,
            "leader_endpoints": (),
        }),
        "end quorum epoch": (54, 1, {
            **bodies.quorum_topic(leader_id=1, leader_epoch=1, preferred_candidates=()), "leader_endpoints": (),
        }),
        "alter partition": (56, 3, {**broker, "topics": [{"topic_id": TopicId("open"), "partitions": [{
            "partition_index": 0, "leader_epoch": 0, "new_isr_with_epochs": [{"broker_id": 1}],
            "leader_recovery_state": 0, "partition_epoch": 0,
        }]}]}),
        "envelope": (58, 0, {
            "request_data": b"\0\x13\0\7\0\0\0\1\xff\xff\0", "request_principal": b"\0\0\5User\6admin\0\0",
            "client_host_address": bytes((127, 0, 0, 1)),
        }),
        "fetch snapshot": (59, 1, {"replica_id": 1, "topics": [{"name": METADATA_TOPIC, "partitions": [{
            "partition": 0, "current_leader_epoch": 1, "snapshot_id": {"end_offset": 1, "epoch": 1}, "position": 0,
        }]}]}),
        "broker registration": (62, 4, {
            "broker_id": 1, "cluster_id": "", "incarnation_id": UUID(int=5), "rack": None, "features": (),
            "listeners": [{"name": "CLIENTS", "host": "127.0.0.1", "port": 1, "security_protocol": 2}],
        }),
        "broker heartbeat": (63, 1, {
            **broker, "current_metadata_offset": 0, "want_fence": True, "want_shut_down": True,
        }),
        "allocate producer ids": (67, 0, broker),
        "assign replicas to dirs": (73, 0, {**broker, "directories": ()}),
    }  # fmt: skip
    where = "controller" if to_controller else "broker"
    return [
        Probe(
            name=f"{name}, to the {where}",
            key=key,
            versions=(version,),
            body=body,
            to_controller=to_controller,
            between_nodes=True,
            users=tuple(user for user in ("admin", *USERS) if user.startswith(("admin", "nobody", "cluster", "deny"))),
        )
        for name, (key, version, body) in listed.items()
    ]


def _at_the_controller() -> list[Probe]:
    """APIs of clients that controllers serve too (KIP-919), and replicas of the metadata log."""
    listed = ("describe quorum", "update features", "unregister broker", "describe acls", "elect")
    more = ("incremental alter configs: open", "create acls", "create topics, validated only: mixed", "reassign: mixed")
    probes = [p for p in (*_cluster(), *_configurations(), *_topics()) if p.name.startswith((*listed, *more))]
    fetch = bodies.fetch(())
    line = {"topic": METADATA_TOPIC, "topic_id": UUID(int=1), "partitions": [
        {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1, "current_leader_epoch": -1},
    ]}  # fmt: skip
    fetch |= {"topics": [line], "replica_id": 7, "replica_state": {"replica_id": 7, "replica_epoch": -1}}
    return [
        *(
            Probe(name=f"{p.name}, to the controller", key=p.key, body=p.body, versions=p.versions, to_controller=True)
            for p in probes
        ),
        *(
            Probe(name=f"describe cluster, endpoints {kind}, to the controller", key=60, to_controller=True,
                  versions=(1, 2), body={
                      "include_cluster_authorized_operations": True, "endpoint_type": kind,
                      "include_fenced_brokers": False,
                  })
            for kind in (1, 2)
        ),
        Probe(name="fetch the metadata log, to the controller", key=1, body=fetch, versions=(17,), to_controller=True),
        Probe(name="fetch the metadata log, to the broker", key=1, body=fetch, versions=(12, 17)),
        *_between_nodes(to_controller=True),
    ]  # fmt: skip


PROBES: tuple[Probe, ...] = (
    *_records(),
    *_groups(),
    *_topics(),
    *_configurations(),
    *_cluster(),
    *_between_nodes(to_controller=False),
    *_at_the_controller(),
)
