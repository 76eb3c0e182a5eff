"""ACLs, users and quotas in the image of the metadata log (Q6, Q7, S7)."""

from __future__ import annotations

from uuid import UUID

import pytest

from insync.errors import InvariantError
from insync.metadata import security_records
from insync.metadata.image import Image
from insync.metadata.snapshot import to_records
from insync.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from insync.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    QuotaEntity,
)
from insync.security.scram import ScramCredential, ScramUsers, make_credential
from insync.wire import metadata_records as records
from tests.acl_filters import DENIED_READ

FIRST, SECOND = UUID(int=1001), UUID(int=1002)
READ = DENIED_READ
WRITE = Acl(
    resource_type=ResourceType.GROUP, resource_name="g", principal="User:bob", operation=Operation.DESCRIBE_CONFIGS
)
CREDENTIAL = make_credential("SCRAM-SHA-256", "secret", b"salt", 4_096)
OTHER = ScramCredential(salt=b"s", iterations=8_192, stored_key=b"k", server_key=b"l")


def image_of(*applied: records.MetadataRecord) -> Image:
    image = Image()
    for offset, record in enumerate(applied):
        image.apply(record, offset)
    return image


def full_image() -> Image:
    return image_of(
        security_records.to_acl_record(SECOND, WRITE),
        security_records.to_acl_record(FIRST, READ),
        security_records.to_scram_record("SCRAM-SHA-512", "bob", OTHER),
        security_records.to_scram_record("SCRAM-SHA-256", "alice", CREDENTIAL),
        security_records.to_quota_record(QuotaEntity("alice", DEFAULT), PRODUCER_BYTE_RATE, 10.5),
        security_records.to_quota_record(QuotaEntity("alice", DEFAULT), CONSUMER_BYTE_RATE, 20),
        security_records.to_quota_record(QuotaEntity(client_id="app"), PRODUCER_BYTE_RATE, 30),
        security_records.to_quota_record(QuotaEntity(ip=DEFAULT), CONNECTION_CREATION_RATE, 5),
    )


def contents(image: Image) -> tuple[object, ...]:
    shapes = {mechanism: counts for mechanism, counts in image.scram_shapes.items() if counts}
    assert shapes == ScramUsers.of(image.scram_credentials).shapes
    return image.acls, image.scram_credentials, image.client_quotas


def test_the_image_has_what_the_records_say() -> None:
    assert contents(full_image()) == (
        {FIRST: READ, SECOND: WRITE},
        {("SCRAM-SHA-256", "alice"): CREDENTIAL, ("SCRAM-SHA-512", "bob"): OTHER},
        {
            QuotaEntity("alice", DEFAULT): {PRODUCER_BYTE_RATE: 10.5, CONSUMER_BYTE_RATE: 20},
            QuotaEntity(client_id="app"): {PRODUCER_BYTE_RATE: 30},
            QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 5},
        },
    )


@pytest.mark.parametrize("copied", [False, True])
def test_a_snapshot_rebuilds_them(copied: bool) -> None:
    """Q6"""
    image = full_image()
    rebuilt = image_of(*to_records(image.copy_for_snapshot() if copied else image))
    assert contents(rebuilt) == contents(image)


def test_replaying_a_record_again_changes_nothing() -> None:
    image = full_image()
    again = full_image()
    for record in to_records(image):
        again.apply(record, 100)
    assert contents(again) == contents(image)


def test_a_copy_does_not_follow() -> None:
    image = full_image()
    copy = image.copy()
    image.apply(records.RemoveAccessControlEntryRecord(id=FIRST), 20)
    image.apply(records.RemoveUserScramCredentialRecord(name="bob", mechanism=2), 21)
    image.apply(security_records.to_quota_record(QuotaEntity("alice", DEFAULT), PRODUCER_BYTE_RATE, None), 22)
    image.apply(security_records.to_quota_record(QuotaEntity(client_id="app"), PRODUCER_BYTE_RATE, None), 23)
    assert contents(copy) == contents(full_image())
    assert contents(image) == (
        {SECOND: WRITE},
        {("SCRAM-SHA-256", "alice"): CREDENTIAL},
        {
            QuotaEntity("alice", DEFAULT): {CONSUMER_BYTE_RATE: 20},
            QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 5},
        },
    )


def test_changes_say_what_an_acl_was_before() -> None:
    """Q7: merged, so that a reader can take the old one out and put the new one in."""
    image = full_image()
    changes = image.take_changes()
    assert changes.acls == {FIRST: None, SECOND: None}
    assert list(changes.scram_credentials) == [("SCRAM-SHA-512", "bob"), ("SCRAM-SHA-256", "alice")]
    assert list(changes.client_quotas) == [
        QuotaEntity("alice", DEFAULT),
        QuotaEntity(client_id="app"),
        QuotaEntity(ip=DEFAULT),
    ]
    image.apply(security_records.to_acl_record(FIRST, WRITE), 20)
    image.apply(records.RemoveAccessControlEntryRecord(id=FIRST), 21)
    image.apply(records.RemoveAccessControlEntryRecord(id=SECOND), 22)
    image.apply(security_records.to_acl_record(SECOND, READ), 23)
    assert image.take_changes().acls == {FIRST: READ, SECOND: WRITE}
    assert not image.take_changes()


def test_removing_an_unknown_acl_stops_the_node() -> None:
    """S7: as in Kafka, the log and the image disagree."""
    with pytest.raises(InvariantError, match="S7"):
        image_of(records.RemoveAccessControlEntryRecord(id=FIRST))
    with pytest.raises(InvariantError, match="S7"):
        image_of(records.RemoveAccessControlEntryRecord(id=None))  # type: ignore[arg-type]
    with pytest.raises(InvariantError, match="S7"):
        image_of(security_records.to_acl_record(None, READ))  # type: ignore[arg-type]


def test_removing_an_unknown_user_or_quota_does_nothing() -> None:
    """As in Kafka."""
    image = image_of(
        records.RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        security_records.to_quota_record(QuotaEntity("alice"), PRODUCER_BYTE_RATE, None),
    )
    assert contents(image) == ({}, {}, {})


def test_what_a_later_version_may_add_is_kept_or_left_out() -> None:
    """Codes of ACLs read as UNKNOWN, which matches nothing; other mechanisms and entity types are left out."""
    later = records.AccessControlEntryRecord(
        id=FIRST,
        resource_type=99,
        resource_name="x",
        pattern_type=99,
        principal="User:alice",
        host="*",
        operation=99,
        permission_type=99,
    )
    image = image_of(
        later,
        records.UserScramCredentialRecord(
            name="alice", mechanism=9, salt=b"", stored_key=b"", server_key=b"", iterations=1
        ),
        records.RemoveUserScramCredentialRecord(name="alice", mechanism=9),
        records.ClientQuotaRecord(
            entity=(records.QuotaEntityPart(entity_type="planet", entity_name="mars"),), key="gravity", value=1
        ),
    )
    acl = image.acls[FIRST]
    assert (acl.resource_type, acl.pattern_type, acl.operation, acl.permission) == (
        ResourceType.UNKNOWN,
        PatternType.UNKNOWN,
        Operation.UNKNOWN,
        Permission.UNKNOWN,
    )
    assert contents(image)[1:] == ({}, {})
