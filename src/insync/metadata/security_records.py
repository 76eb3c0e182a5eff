"""ACLs, SCRAM credentials and client quotas as records of the metadata log, and back."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from insync.security.acl import Acl
from insync.security.quotas import QuotaEntity
from insync.security.scram import MECHANISM_CODES, MIN_ITERATIONS, MOCK, SALT_BYTES, ScramCredential
from insync.wire import metadata_records as records

MECHANISMS = {code: name for name, code in MECHANISM_CODES.items()}


def to_acl_record(acl_id: UUID, acl: Acl) -> records.AccessControlEntryRecord:
    return records.AccessControlEntryRecord(id=acl_id, **acl.kafka_fields())


def to_acl(record: records.AccessControlEntryRecord) -> Acl:
    return Acl.of(record, record, record.pattern_type)


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


MOCK_KEY_BYTES = 64


def make_mock_record(random_bytes: Callable[[int], bytes]) -> records.UserScramCredentialRecord:
    """The key that makes the mock credentials of unknown users (ADR 27). Its other fields look like a credential's, for
    Apache's brokers."""
    credential = ScramCredential(
        salt=random_bytes(SALT_BYTES),
        iterations=MIN_ITERATIONS,
        stored_key=random_bytes(MOCK_KEY_BYTES),
        server_key=random_bytes(MOCK_KEY_BYTES),
    )
    return to_scram_record(*MOCK, credential)


def to_quota_record(entity: QuotaEntity, key: str, value: float | None) -> records.ClientQuotaRecord:
    """None removes the limit."""
    return records.ClientQuotaRecord(
        entity=tuple(
            records.QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity.names().items()
        ),
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def to_quota_entity(record: records.ClientQuotaRecord) -> QuotaEntity | None:
    """None if the quota depends on something that this version does not know."""
    return QuotaEntity.of({part.entity_type: part.entity_name for part in record.entity})
