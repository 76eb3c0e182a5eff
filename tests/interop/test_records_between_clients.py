"""What one client writes, every client reads: the same bytes, whatever the codec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.interop.interop_clients import (
    CLIENTS,
    CODECS,
    CREATE_TIME,
    READERS,
    Confluent,
    KafkaPython,
    Kcat,
    MakeTopic,
    Rec,
    client_id,
    contents,
)

START = 1_600_000_000_000
EVERYTHING = (
    Rec(b"plain", b"key", (), START),
    Rec(b"", b"", (), START + 1),  # empty is not null
    Rec(None, b"tombstone", (), START + 2),
    Rec(b"no key", None, (), START + 3),
    Rec(b"headers", b"k", (("a", b"1"), ("b", None), ("a", b"2"), ("", b""), ("\u00fc", b"\x00\xff")), START + 5),
    Rec(b"\x00\xff\n\r\t" * 3, bytes(range(256)), (), START + 1),  # times need not rise
    Rec(b"x", b"one byte", (), START + 6),
    Rec(b"a" * 100, None, (), START + 7),
    Rec(bytes(range(256)) * 40, b"k" * 300, (("long", b"h" * 3_000),), START + 8),
)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS, ids=client_id)
def test_every_client_reads_the_bytes_that_a_client_wrote(
    bootstrap: str, make_topic: MakeTopic, writer: Any, codec: str
) -> None:
    topic = make_topic()
    sent = [_sendable(writer, rec) for rec in EVERYTHING]
    assert writer.send(bootstrap, topic, sent, codec=codec) == list(range(len(sent)))
    for reader in READERS:
        found = reader.read(bootstrap, topic, len(sent))
        assert contents(found) == [_as_seen_by(reader, rec) for rec in sent], reader.name
        assert [each.offset for each in found] == list(range(len(sent))), reader.name
        assert {each.timestamp_type for each in found} == {CREATE_TIME}, reader.name


def _sendable(writer: Any, rec: Rec) -> Rec:
    """kafka-python reads headers that are null, but refuses to send them."""
    return replace(rec, headers=tuple(h for h in rec.headers if h[1] is not None)) if writer is KafkaPython else rec


def _as_seen_by(reader: Any, rec: Rec) -> Rec:
    return Rec(rec.value, rec.key, (), rec.at) if reader is Kcat else rec


def test_batches_of_different_codecs_share_a_partition(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = []
    for number, codec in enumerate(CODECS * 2):
        batch = [Rec(f"{codec}-{number}-{i}".encode() * 20, at=START + i) for i in range(10)]
        Confluent.send(bootstrap, topic, batch, codec=codec)
        sent += batch
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, len(sent))) == sent, reader.name


def test_a_record_may_have_neither_key_nor_value(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    nothing = [Rec(None, None, (("only", b"this"),), START)]
    Confluent.send(bootstrap, topic, nothing)
    for reader in CLIENTS:
        assert contents(reader.read(bootstrap, topic, 1)) == nothing, reader.name


@pytest.mark.parametrize("reader", READERS, ids=client_id)
def test_a_reader_may_begin_in_the_middle_of_a_batch(bootstrap: str, make_topic: MakeTopic, reader: Any) -> None:
    topic = make_topic()
    batch = [Rec(b"%d" % i, at=START + i) for i in range(50)]
    Confluent.send(bootstrap, topic, batch, codec="lz4", linger_ms=100)
    assert contents(reader.read(bootstrap, topic, 20, offset=30)) == batch[30:]
