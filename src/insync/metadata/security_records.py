"""ACLs, SCRAM credentials and client quotas as records of the metadata log, and back."""

from __future__ import annotations

from uuid import UUID

from insync.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from insync.security.quotas import DEFAULT, QuotaEntity
from insync.security.scram import MECHANISM_CODES, ScramCredential
from insync.wire import metadata_records as records

MECHANISMS = {code: name for name, code in MECHANISM_CODES.items()}
QUOTA_ENTITY_FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""From Kafka's entity types to the fields of QuotaEntity."""


def to_acl_record(acl_id: UUID, acl: Acl) -> records.AccessControlEntryRecord:
    return records.AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def to_acl(record: records.AccessControlEntryRecord) -> Acl:
    return Acl(
        resource_type=ResourceType(record.resource_type),
        resource_name=record.resource_name,
        pattern_type=PatternType(record.pattern_type),
        principal=record.principal,
        host=record.host,
        operation=Operation(record.operation),
        permission=Permission(record.permission_type),
    )


def to_scram_record(mechanism: str, user: str, credential: ScramCredential) -> records.UserScramCredentialRecord:
    return records.UserScramCredentialRecord(
        name=user,
        mechanism=MECHANISM_CODES[mechanism],
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def to_scram_credential(record: records.UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(
        salt=record.salt,
        iterations=record.iterations,
        stored_key=record.stored_key,
        server_key=record.server_key,
    )


def to_quota_record(entity: QuotaEntity, key: str, value: float | None) -> records.ClientQuotaRecord:
    """None removes the limit."""
    return records.ClientQuotaRecord(
        entity=tuple(
            records.QuotaEntityPart(entity_type=entity_type, entity_name=getattr(entity, field) or None)
            for entity_type, field in QUOTA_ENTITY_FIELDS.items()
            if getattr(entity, field) is not None
        ),
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def to_quota_entity(record: records.ClientQuotaRecord) -> QuotaEntity | None:
    """None if the quota depends on something that this version does not know."""
    names = {part.entity_type: part.entity_name or DEFAULT for part in record.entity}
    if not names.keys() <= QUOTA_ENTITY_FIELDS.keys():
        return None
    return QuotaEntity(**{QUOTA_ENTITY_FIELDS[entity_type]: name for entity_type, name in names.items()})
