"""Metadata records: Kafka's bytes, every type, every older version."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.wire import entities, metadata_records
from insync.wire.errors import MalformedFrameError, UnknownApiError
from insync.wire.metadata_records import (
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    QuotaEntityPart,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from insync.wire.schema import as_of

TOPIC = UUID("11111111-2222-3333-4444-555555555555")
ALL_TYPES = list(metadata_records.TYPES.values())

VALUES = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=20),
    "uuid": st.uuids(),
    "bytes": st.binary(max_size=20),
    "float64": st.floats(allow_nan=False),
}


def instances(cls: Any) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{f.name: values_of(f) for f in fields(cls)})


def values_of(field: Any) -> st.SearchStrategy[Any]:
    declared = str(field.type)
    if "kafka_type" not in field.metadata:
        nested = field.type.__args__[0]
        return st.lists(instances(nested), max_size=2).map(tuple)
    one = VALUES[field.metadata["kafka_type"]]
    value = st.lists(one, max_size=3).map(tuple) if "tuple[" in declared else one
    return st.none() | value if declared.endswith("| None") else value


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL_TYPES, ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_every_record_survives_its_frame(cls: Any, data: st.DataObject) -> None:
    record = data.draw(instances(cls))
    assert metadata_records.decode(metadata_records.encode(record)) == record


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "version"),
    [(cls, v) for cls in ALL_TYPES for v in range(cls.__version__)],
    ids=lambda value: getattr(value, "__name__", f"v{value}"),
)
@given(data=st.data())
def test_older_versions_are_read_with_defaults_for_what_they_lack(cls: Any, version: int, data: st.DataObject) -> None:
    older = as_of(cls, version)
    record = data.draw(instances(older))
    frame = bytes([1, cls.__api_key__, version]) + entities.encode(record)
    newest = metadata_records.decode(frame)
    assert type(newest) is cls
    for field in fields(cls):
        expected = getattr(record, field.name) if hasattr(record, field.name) else field.default
        assert getattr(newest, field.name) == expected


def test_record_types_have_kafkas_numbers() -> None:
    numbers = {cls.__name__.removesuffix("Record"): key for key, cls in metadata_records.TYPES.items()}
    assert numbers == {
        "RegisterBroker": 0,
        "UnregisterBroker": 1,
        "Topic": 2,
        "Partition": 3,
        "Config": 4,
        "PartitionChange": 5,
        "FenceBroker": 7,
        "UnfenceBroker": 8,
        "RemoveTopic": 9,
        "UserScramCredential": 11,
        "FeatureLevel": 12,
        "ClientQuota": 14,
        "ProducerIds": 15,
        "BrokerRegistrationChange": 17,
        "AccessControlEntry": 18,
        "RemoveAccessControlEntry": 19,
        "NoOp": 20,
        "RemoveUserScramCredential": 22,
        "BeginTransaction": 23,
        "EndTransaction": 24,
        "AbortTransaction": 25,
        "RegisterController": 27,
        "ClearElr": 28,
    }


def test_a_partition_record_has_kafkas_bytes() -> None:
    """M1, E3: the ELR and the last known ELR are tags 1 and 2 of version 2."""
    record = PartitionRecord(
        partition_id=1,
        topic_id=TOPIC,
        replicas=(1, 2, 3),
        isr=(1,),
        leader=1,
        leader_recovery_state=1,
        leader_epoch=4,
        partition_epoch=9,
        directories=(UUID(int=1),),
        eligible_leader_replicas=(2,),
        last_known_elr=(3,),
    )
    expected = (
        "01"
        "03"
        "02"
        "00000001" + TOPIC.hex + "04"
        "00000001"
        "00000002"
        "00000003"
        "02"
        "00000001"
        "01"
        "01"
        "00000001"
        "00000004"
        "00000009"
        "02"
        "00000000000000000000000000000001"
        "03"
        "00"
        "01"
        "01"
        "01"
        "05"
        "02"
        "00000002"
        "02"
        "05"
        "02"
        "00000003"
    )
    assert metadata_records.encode(record).hex() == expected


def test_a_change_record_writes_only_what_changed_in_the_order_of_tags() -> None:
    """M2: absent means as before, an empty list means emptied; directories (8) come after the ELR (6, 7)."""
    nothing = PartitionChangeRecord(partition_id=1, topic_id=TOPIC)
    assert metadata_records.encode(nothing).hex() == "01050200000001" + TOPIC.hex + "00"
    record = PartitionChangeRecord(
        partition_id=1, topic_id=TOPIC, isr=(), leader=-1, eligible_leader_replicas=(2,), directories=()
    )
    tags = "040001010104ffffffff06050200000002080101"
    assert metadata_records.encode(record).hex() == "01050200000001" + TOPIC.hex + tags
    assert metadata_records.decode(metadata_records.encode(record)) == record


def test_a_broker_record_has_kafkas_bytes() -> None:
    """B1."""
    record = RegisterBrokerRecord(
        broker_id=3,
        incarnation_id=TOPIC,
        broker_epoch=8,
        end_points=(BrokerEndpoint(name="N", host="h", port=65535, security_protocol=0),),
        features=(BrokerFeature(name="f", min_supported_version=1, max_supported_version=7),),
        rack="r",
        fenced=True,
    )
    expected = "0100030000000300" + TOPIC.hex + "000000000000000802024e0268ffff00000002026600010007000272010000"
    assert metadata_records.encode(record).hex() == expected


def test_small_records_have_kafkas_bytes() -> None:
    assert metadata_records.encode(NoOpRecord()).hex() == "01140000"
    assert metadata_records.encode(BeginTransactionRecord(name="x")).hex() == "0117000100020278"
    deletion = ConfigRecord(resource_type=2, resource_name="t", name="k", value=None)
    assert metadata_records.encode(deletion).hex() == "010400020274026b0000"
    unfenced = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=metadata_records.UNFENCED)
    assert metadata_records.encode(unfenced).hex() == "011102000000010000000000000002010001ff"


SECURITY_RECORDS = [
    (
        AccessControlEntryRecord(
            id=TOPIC,
            resource_type=2,
            resource_name="orders",
            pattern_type=4,
            principal="User:alice",
            host="*",
            operation=4,
            permission_type=3,
        ),
        "011200" + TOPIC.hex + "02076f7264657273040b557365723a616c696365022a040300",
    ),
    (RemoveAccessControlEntryRecord(id=TOPIC), "011300" + TOPIC.hex + "00"),
    (
        UserScramCredentialRecord(
            name="alice", mechanism=2, salt=b"\1\2\3", stored_key=b"\4", server_key=b"\5\6", iterations=8192
        ),
        "010b0006616c696365020401020302040305060000200000",
    ),
    (RemoveUserScramCredentialRecord(name="alice", mechanism=1), "01160006616c6963650100"),
    (
        ClientQuotaRecord(
            entity=(
                QuotaEntityPart(entity_type="user", entity_name=None),
                QuotaEntityPart(entity_type="client-id", entity_name="app"),
            ),
            key="producer_byte_rate",
            value=1024.5,
        ),
        "010e0003057573657200000a636c69656e742d696404617070001370726f64756365725f627974655f72617465"
        "40900200000000000000",
    ),
]


@pytest.mark.parametrize(("record", "encoded"), SECURITY_RECORDS, ids=lambda value: type(value).__name__)
def test_acls_users_and_quotas_have_the_bytes_that_kafka_4_1_writes(record: Any, encoded: str) -> None:
    """The bytes are those of MetadataRecordSerde for the same values."""
    assert metadata_records.encode(record).hex() == encoded
    assert metadata_records.decode(bytes.fromhex(encoded)) == record


def test_keys_of_users_are_not_in_the_text_of_a_record() -> None:
    record = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"pepper", stored_key=b"stored", server_key=b"server", iterations=4096
    )
    assert "alice" in repr(record)
    assert not any(secret in repr(record) for secret in ("pepper", "b'stored", "b'server"))


def test_unknown_tags_are_skipped() -> None:
    frame = metadata_records.encode(NoOpRecord())[:-1] + b"\x01\x09\x02ab"
    assert metadata_records.decode(frame) == NoOpRecord()


@pytest.mark.parametrize("frame", ["01060000", "01020100", "017f0000"])
def test_unknown_types_and_versions_are_named_in_the_error(frame: str) -> None:
    with pytest.raises(UnknownApiError):
        metadata_records.decode(bytes.fromhex(frame))


@pytest.mark.parametrize("frame", ["", "01", "0114", "00140000", "02140000", "011400", "0114000000", "01090011"])
def test_other_bytes_are_malformed(frame: str) -> None:
    with pytest.raises(MalformedFrameError):
        metadata_records.decode(bytes.fromhex(frame))


def test_reserved_directories_are_kafkas() -> None:
    """D6: org.apache.kafka.common.DirectoryId of Kafka 4.1: MIGRATING 0, UNASSIGNED 1, LOST 2."""
    assert (metadata_records.UNASSIGNED_DIRECTORY.int, metadata_records.LOST_DIRECTORY.int) == (1, 2)
