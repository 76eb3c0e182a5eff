"""Every client reads what another one wrote: the same bytes, with every codec."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.interop.interop_clients import (
    CLIENTS,
    CODECS,
    CREATE_TIME,
    READERS,
    Client,
    Confluent,
    KafkaPython,
    Kcat,
    MakeTopic,
    Reader,
    Record,
    client_id,
    contents,
)

START_MS = 1_600_000_000_000
RECORDS = (
    Record(b"plain", b"key", (), START_MS),
    Record(b"", b"", (), START_MS + 1),  # empty is not null
    Record(None, b"tombstone", (), START_MS + 2),
    Record(b"no key", None, (), START_MS + 3),
    Record(b"headers", b"k", (("a", b"1"), ("b", None), ("a", b"2"), ("", b""), ("\u00fc", b"\x00\xff")), START_MS + 5),
    Record(b"\x00\xff\n\r\t" * 3, bytes(range(256)), (), START_MS + 1),  # timestamps need not ascend
    Record(b"x", b"one byte", (), START_MS + 6),
    Record(b"a" * 100, None, (), START_MS + 7),
    Record(bytes(range(256)) * 40, b"k" * 300, (("long", b"h" * 3_000),), START_MS + 8),
)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_every_client_reads_the_bytes_that_a_client_wrote(
    bootstrap: str, make_topic: MakeTopic, writer: type[Client], codec: str
) -> None:
    topic = make_topic()
    sent = [_sendable(writer, record) for record in RECORDS]
    assert writer.send(bootstrap, topic, sent, codec=codec) == list(range(len(sent)))
    for reader in READERS:
        records = reader.read(bootstrap, topic, len(sent))
        assert contents(records) == [_as_read_by(reader, record) for record in sent], reader.name
        assert [record.offset for record in records] == list(range(len(sent))), reader.name
        assert {record.timestamp_type for record in records} == {CREATE_TIME}, reader.name


def _sendable(writer: type[Client], record: Record) -> Record:
    """kafka-python reads headers whose value is null, but refuses to send them."""
    if writer is not KafkaPython:
        return record
    return replace(record, headers=tuple((name, value) for name, value in record.headers if value is not None))


def _as_read_by(reader: type[Reader], record: Record) -> Record:
    return replace(record, headers=()) if reader is Kcat else record


def test_batches_of_different_codecs_share_a_partition(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = []
    for number, codec in enumerate(CODECS * 2):
        batch = [Record(f"{codec}-{number}-{i}".encode() * 20, timestamp_ms=START_MS + i) for i in range(10)]
        Confluent.send(bootstrap, topic, batch, codec=codec)
        sent += batch
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, len(sent))) == sent, reader.name


def test_a_record_may_have_neither_key_nor_value(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = [Record(None, None, (("only", b"this"),), START_MS)]
    Confluent.send(bootstrap, topic, sent)
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, 1)) == sent, reader.name


@pytest.mark.parametrize("reader", READERS, ids=client_id)
def test_a_reader_may_start_in_the_middle_of_a_batch(
    bootstrap: str, make_topic: MakeTopic, reader: type[Reader]
) -> None:
    topic = make_topic()
    batch = [Record(b"%d" % i, timestamp_ms=START_MS + i) for i in range(50)]
    Confluent.send(bootstrap, topic, batch, codec="lz4", linger_ms=100)
    assert contents(reader.read(bootstrap, topic, 20, offset=30)) == batch[30:]
