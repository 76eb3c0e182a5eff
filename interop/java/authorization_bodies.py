"""The bodies of the requests that are sent to Apache Kafka and to insync, for topics and groups of given names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from insync.security.acl import Acl
from insync.wire import batch
from insync.wire.types import METADATA_TOPIC, ms
from interop.java.authorization_users import EXISTING

TIMEOUT = ms(10_000)
UNKNOWN_IDS = {"open-absent": UUID(int=0xBAD), "closed-absent": UUID(int=0xBAD2)}
RECORDS = bytes(batch.build([batch.NewRecord(None, b"x")], timestamp_ms=1_000))
TRANSACTIONAL_RECORDS = bytes(
    batch.build(
        [batch.NewRecord(None, b"x")],
        timestamp_ms=1_000,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
)


@dataclass(frozen=True, slots=True)
class TopicId:
    """In a body: the id that the topic of this name has when the request is sent."""

    name: str


def topic(name: str) -> dict[str, Any]:
    """Name and id, of which a version uses one."""
    known = TopicId(name) if name in EXISTING else UNKNOWN_IDS[name]
    return {"name": name, "topic": name, "topic_id": known}


def produce(names: Iterable[str], acks: int = -1, transactional_id: str | None = None) -> dict[str, Any]:
    data = [{"index": 0, "records": RECORDS if transactional_id is None else TRANSACTIONAL_RECORDS}]
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": TIMEOUT,
        "topic_data": [{**topic(name), "partition_data": data} for name in names],
    }


def fetch(names: Iterable[str], replica_id: int = -1, **more: Any) -> dict[str, Any]:
    line = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    return {
        "replica_id": replica_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": 1},
        "max_wait": ms(0),
        "min_bytes": 0,
        "topics": [{**topic(name), "partitions": [line]} for name in names],
        "forgotten_topics_data": (),
        **more,
    }


def list_offsets(names: Iterable[str], replica_id: int = -1) -> dict[str, Any]:
    line = {"partition_index": 0, "timestamp": -2}
    topics = [{"name": name, "partitions": [line]} for name in names]
    return {"replica_id": replica_id, "isolation_level": 0, "topics": topics, "timeout": TIMEOUT}


def metadata(names: Iterable[str] | None, create: bool = False, operations: bool = False) -> dict[str, Any]:
    return {
        "topics": None if names is None else [{"name": name, "topic_id": None} for name in names],
        "allow_auto_topic_creation": create,
        "include_topic_authorized_operations": operations,
        "include_cluster_authorized_operations": operations,
    }


def metadata_by_id(names: Iterable[str]) -> dict[str, Any]:
    return {**metadata(()), "topics": [{"name": None, "topic_id": topic(name)["topic_id"]} for name in names]}


def commit(group: str, names: Iterable[str], **more: Any) -> dict[str, Any]:
    line = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": name, "partitions": [line]} for name in names],
        **more,
    }


def committed(groups: Iterable[str], names: Iterable[str] | None) -> dict[str, Any]:
    topics = None if names is None else [{"name": name, "partition_indexes": (0,)} for name in names]
    listed = [{"group_id": group, "topics": topics} for group in groups]
    return {"group_id": listed[0]["group_id"], "topics": topics, "groups": listed, "require_stable": False}


def coordinator(keys: Iterable[str], kind: int = 0) -> dict[str, Any]:
    keys = tuple(keys)
    return {"key": keys[0], "key_type": kind, "coordinator_keys": keys}


def member(group: str) -> dict[str, Any]:
    """A member that the group does not have."""
    return {
        "group_id": group,
        "member_id": "stranger",
        "generation_id": 1,
        "session_timeout": TIMEOUT,
        "rebalance_timeout": TIMEOUT,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "protocols": [{"name": "range", "metadata": b""}],
        "assignments": [],
        "members": [{"member_id": "stranger"}],
    }


def create(names: Iterable[str], validate_only: bool = True) -> dict[str, Any]:
    line = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    return {"topics": [{"name": n, **line} for n in names], "timeout": TIMEOUT, "validate_only": validate_only}


def delete(names: Iterable[str]) -> dict[str, Any]:
    names = tuple(names)
    return {
        "topic_names": names,
        "topics": [{"name": name, "topic_id": None} for name in names],
        "timeout": TIMEOUT,
    }


def delete_by_id(names: Iterable[str]) -> dict[str, Any]:
    topics = [{"name": None, "topic_id": topic(name)["topic_id"]} for name in names]
    return {"topics": topics, "timeout": TIMEOUT}


def delete_records(names: Iterable[str]) -> dict[str, Any]:
    line = {"partition_index": 0, "offset": 0}
    return {"topics": [{"name": name, "partitions": [line]} for name in names], "timeout": TIMEOUT}


def partitions(names: Iterable[str]) -> dict[str, Any]:
    lines = [{"name": name, "count": 2, "assignments": None} for name in names]
    return {"topics": lines, "timeout": TIMEOUT, "validate_only": True}


def epochs(names: Iterable[str], replica_id: int = -1) -> dict[str, Any]:
    line = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": replica_id, "topics": [{"topic": name, "partitions": [line]} for name in names]}


def indexes(names: Iterable[str]) -> dict[str, Any]:
    return {"timeout": TIMEOUT, "topics": [{"name": name, "partition_indexes": (0,)} for name in names]}


def configs(kind: int, names: Iterable[str], key: str) -> dict[str, Any]:
    listed = [{"resource_type": kind, "resource_name": name, "configuration_keys": (key,)} for name in names]
    return {"resources": listed, "include_synonyms": False, "include_documentation": False}


def alter_configs(kind: int, names: Iterable[str], key: str, value: str) -> dict[str, Any]:
    change = {"name": key, "config_operation": 0, "value": value}
    listed = [{"resource_type": kind, "resource_name": name, "configs": [change]} for name in names]
    return {"resources": listed, "validate_only": True}


def offset_delete(group: str, names: Iterable[str]) -> dict[str, Any]:
    return {"group_id": group, "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in names]}


def quorum_topic(**partition: Any) -> dict[str, Any]:
    line = {"partition_index": 0, **partition}
    return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [line]}], "cluster_id": None}


def creations(entries: Iterable[Acl]) -> dict[str, Any]:
    """The body of a CreateAcls request."""
    return {
        "creations": [
            {
                "resource_type": int(acl.resource_type),
                "resource_name": acl.resource_name,
                "resource_pattern_type": int(acl.pattern_type),
                "principal": acl.principal,
                "host": acl.host,
                "operation": int(acl.operation),
                "permission_type": int(acl.permission),
            }
            for acl in entries
        ]
    }
