"""The records of the metadata log (KIP-631), in Kafka's bytes.

A record's value is a frame: uvarint 1 (the frame's version), uvarint type, uvarint version of the type, then the body
in Kafka's flexible encoding. `encode` writes the newest version of each type, `decode` reads every version up to it:
fields that an older version lacks get their defaults. Names and fields are Kafka's in snake case.

In a change record None, -2 or 0 (depending on the field) means "unchanged"; () means "now empty".
"""

from dataclasses import fields
from functools import cache, lru_cache
from typing import Any, get_args
from uuid import UUID

from insync.wire import entities
from insync.wire.errors import MalformedFrameError, UnknownApiError
from insync.wire.schema import as_of, entity, kafka
from insync.wire.varint import append_uvarint, read_uvarint

FRAME_VERSION = 1

LEADER_UNCHANGED = -2
RECOVERED, RECOVERING, RECOVERY_UNCHANGED = 0, 1, -1
UNFENCED, FENCE_UNCHANGED, FENCED = -1, 0, 1

UNASSIGNED_DIRECTORY = UUID(int=1)
LOST_DIRECTORY = UUID(int=2)
"""Kafka's DirectoryId: a replica without a known log directory, and one whose log directory has failed (D6)."""


@entity(version=3)
class BrokerEndpoint:
    name: str = kafka("string")
    host: str = kafka("string")
    port: int = kafka("uint16")
    security_protocol: int = kafka("int16")


@entity(version=3)
class BrokerFeature:
    name: str = kafka("string")
    min_supported_version: int = kafka("int16")
    max_supported_version: int = kafka("int16")


@entity(api_key=0, version=3)
class RegisterBrokerRecord:
    broker_id: int = kafka("int32")
    is_migrating_zk_broker: bool = kafka("bool", default=False, since=2)
    incarnation_id: UUID = kafka("uuid")
    broker_epoch: int = kafka("int64")
    end_points: tuple[BrokerEndpoint, ...] = kafka()
    features: tuple[BrokerFeature, ...] = kafka(default=())
    rack: str | None = kafka("string", default=None)
    fenced: bool = kafka("bool", default=True)
    in_controlled_shutdown: bool = kafka("bool", default=False, since=1)
    log_dirs: tuple[UUID | None, ...] = kafka("uuid", default=(), since=3, tag=0)


@entity(api_key=1, version=0)
class UnregisterBrokerRecord:
    broker_id: int = kafka("int32")
    broker_epoch: int = kafka("int64")


@entity(api_key=2, version=0)
class TopicRecord:
    name: str = kafka("string")
    topic_id: UUID = kafka("uuid")


@entity(api_key=3, version=2)
class PartitionRecord:
    partition_id: int = kafka("int32")
    topic_id: UUID = kafka("uuid")
    replicas: tuple[int, ...] = kafka("int32")
    isr: tuple[int, ...] = kafka("int32")
    removing_replicas: tuple[int, ...] = kafka("int32", default=())
    adding_replicas: tuple[int, ...] = kafka("int32", default=())
    leader: int = kafka("int32", default=-1)
    leader_recovery_state: int = kafka("int8", default=RECOVERED, tag=0)
    leader_epoch: int = kafka("int32", default=-1)
    partition_epoch: int = kafka("int32", default=-1)
    directories: tuple[UUID | None, ...] = kafka("uuid", default=(), since=1)
    eligible_leader_replicas: tuple[int, ...] | None = kafka("int32", default=None, since=2, tag=1)
    last_known_elr: tuple[int, ...] | None = kafka("int32", default=None, since=2, tag=2)


@entity(api_key=4, version=0)
class ConfigRecord:
    """A null value deletes the key. Resource types: 2 topic, 4 broker."""

    resource_type: int = kafka("int8")
    resource_name: str = kafka("string")
    name: str = kafka("string")
    value: str | None = kafka("string", default=None)


@entity(api_key=5, version=2)
class PartitionChangeRecord:
    partition_id: int = kafka("int32")
    topic_id: UUID = kafka("uuid")
    isr: tuple[int, ...] | None = kafka("int32", default=None, tag=0)
    leader: int = kafka("int32", default=LEADER_UNCHANGED, tag=1)
    replicas: tuple[int, ...] | None = kafka("int32", default=None, tag=2)
    removing_replicas: tuple[int, ...] | None = kafka("int32", default=None, tag=3)
    adding_replicas: tuple[int, ...] | None = kafka("int32", default=None, tag=4)
    leader_recovery_state: int = kafka("int8", default=RECOVERY_UNCHANGED, tag=5)
    eligible_leader_replicas: tuple[int, ...] | None = kafka("int32", default=None, since=2, tag=6)
    last_known_elr: tuple[int, ...] | None = kafka("int32", default=None, since=2, tag=7)
    directories: tuple[UUID | None, ...] | None = kafka("uuid", default=None, since=1, tag=8)


@entity(api_key=7, version=0)
class FenceBrokerRecord:
    id: int = kafka("int32")
    epoch: int = kafka("int64")


@entity(api_key=8, version=0)
class UnfenceBrokerRecord:
    id: int = kafka("int32")
    epoch: int = kafka("int64")


@entity(api_key=9, version=0)
class RemoveTopicRecord:
    topic_id: UUID = kafka("uuid")


@entity(api_key=11, version=0)
class UserScramCredentialRecord:
    """Sets the credential of a user for one mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    name: str = kafka("string")
    mechanism: int = kafka("int8")
    salt: bytes = kafka("bytes", is_secret=True)
    stored_key: bytes = kafka("bytes", is_secret=True)
    server_key: bytes = kafka("bytes", is_secret=True)
    iterations: int = kafka("int32")


@entity(api_key=12, version=0)
class FeatureLevelRecord:
    name: str = kafka("string")
    feature_level: int = kafka("int16")


@entity(version=0)
class QuotaEntityPart:
    """Kafka calls it EntityData. Types: user, client-id, ip. A null name means the default of the type."""

    entity_type: str = kafka("string")
    entity_name: str | None = kafka("string", default=None)


@entity(api_key=14, version=0)
class ClientQuotaRecord:
    """Sets one limit of an entity, or removes it: then the value means nothing."""

    entity: tuple[QuotaEntityPart, ...] = kafka()
    key: str = kafka("string")
    value: float = kafka("float64", default=0.0)
    remove: bool = kafka("bool", default=False)


@entity(api_key=15, version=0)
class ProducerIdsRecord:
    broker_id: int = kafka("int32")
    broker_epoch: int = kafka("int64", default=-1)
    next_producer_id: int = kafka("int64")


@entity(api_key=17, version=2)
class BrokerRegistrationChangeRecord:
    """`fenced`: -1 unfenced, 0 unchanged, 1 fenced. `in_controlled_shutdown`: 0 unchanged, 1 now shutting down."""

    broker_id: int = kafka("int32")
    broker_epoch: int = kafka("int64")
    fenced: int = kafka("int8", default=FENCE_UNCHANGED, tag=0)
    in_controlled_shutdown: int = kafka("int8", default=0, since=1, tag=1)
    log_dirs: tuple[UUID | None, ...] = kafka("uuid", default=(), since=2, tag=2)


@entity(api_key=18, version=0)
class AccessControlEntryRecord:
    """The numbers are those of `insync.security.acl`."""

    id: UUID = kafka("uuid")
    resource_type: int = kafka("int8")
    resource_name: str = kafka("string")
    pattern_type: int = kafka("int8")
    principal: str = kafka("string")
    host: str = kafka("string")
    operation: int = kafka("int8")
    permission_type: int = kafka("int8")


@entity(api_key=19, version=0)
class RemoveAccessControlEntryRecord:
    id: UUID = kafka("uuid")


@entity(api_key=20, version=0)
class NoOpRecord:
    pass


@entity(api_key=22, version=0)
class RemoveUserScramCredentialRecord:
    name: str = kafka("string")
    mechanism: int = kafka("int8")


@entity(api_key=23, version=0)
class BeginTransactionRecord:
    name: str | None = kafka("string", default=None, tag=0)


@entity(api_key=24, version=0)
class EndTransactionRecord:
    pass


@entity(api_key=25, version=0)
class AbortTransactionRecord:
    reason: str | None = kafka("string", default=None, tag=0)


@entity(version=0)
class ControllerEndpoint:
    name: str = kafka("string")
    host: str = kafka("string")
    port: int = kafka("uint16")
    security_protocol: int = kafka("int16")


@entity(version=0)
class ControllerFeature:
    name: str = kafka("string")
    min_supported_version: int = kafka("int16")
    max_supported_version: int = kafka("int16")


@entity(api_key=27, version=0)
class RegisterControllerRecord:
    controller_id: int = kafka("int32")
    incarnation_id: UUID = kafka("uuid")
    zk_migration_ready: bool = kafka("bool", default=False)
    end_points: tuple[ControllerEndpoint, ...] = kafka()
    features: tuple[ControllerFeature, ...] = kafka(default=())


@entity(api_key=28, version=0)
class ClearElrRecord:
    """Clears the ELR and last known ELR of one topic's partitions, or of all with an empty name."""

    topic_name: str = kafka("string")


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RegisterControllerRecord
    | ClearElrRecord
)

TYPES: dict[int, type[Any]] = {cls.__api_key__: cls for cls in get_args(MetadataRecord)}


def encode(record: MetadataRecord) -> bytes:
    record_type: Any = type(record)
    return _prefix(record_type) + entities.encode(record)


@lru_cache(maxsize=4096)  # records are frozen, and a broker that is also a controller reads each of them twice
def decode(value: bytes) -> MetadataRecord:
    """MalformedFrameError for bytes that are not a record; UnknownApiError for an unknown type or version."""
    try:
        frame_version, pos = read_uvarint(value, 0)
        key, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except IndexError as error:
        raise MalformedFrameError("metadata record ends in its frame header") from error
    if frame_version != FRAME_VERSION:
        raise MalformedFrameError(f"metadata frame version {frame_version} is not supported")
    newest: Any = TYPES.get(key)
    if newest is None or version > newest.__version__:
        raise UnknownApiError("metadata record", key, version)
    record: MetadataRecord
    if version == newest.__version__:
        record = entities.decode(newest, value, pos)
    else:
        older = entities.decode(_older(newest, version), value, pos)
        record = newest(**{f.name: getattr(older, f.name) for f in fields(older)})
    return record


@cache
def _older(newest: Any, version: int) -> type[Any]:
    return as_of(newest, version)


@cache
def _prefix(record_type: Any) -> bytes:
    prefix = bytearray()
    for number in (FRAME_VERSION, record_type.__api_key__, record_type.__version__):
        append_uvarint(prefix, number)
    return bytes(prefix)
